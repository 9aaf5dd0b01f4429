"""Under concurrency: nothing that one bank holds is ever seen or touched through another."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from lorebank import Bank, Item, MissingError

NAMES = ("ana", "ben", "cleo", "dora")
ROUNDS = 25


def claim(name: str, number: int) -> str:
    """All banks speak of the same things in the same words; only the owner differs."""
    return f"The secret colour of {name} on day {number} is blue."


def own(name: str, *texts: str) -> bool:
    return all(f" of {name} " in text for text in texts)


def live(bank: Bank, foreign: list[str], seed: int) -> list[str]:
    """Writes, reads and edits through one bank at random; gives what went wrong."""
    chance, wrong, mine = random.Random(seed), list[str](), list[str]()
    for number in range(ROUNDS):
        said = {
            "session": "talk",
            "document_id": "doc",
            "tags": ["common"],
            "timestamp": datetime(2026, 1, 1 + number, tzinfo=UTC),
        }
        mine.append(str(bank.retain(claim(bank.name, number * 100 + seed), **said).stored[0].id))
        found = bank.recall("What is the secret colour on day blue?", limit=50, max_tokens=10_000)
        listed = bank.list(session="talk", document="doc", tags=["common"])
        seen = [*found, *listed, bank.get(chance.choice(mine))]
        if not own(bank.name, *(memory.text for memory in seen)) or {memory.bank for memory in seen} != {bank.name}:
            wrong.append(f"{bank.name} saw {[m.text for m in seen if m.bank != bank.name]}")
        wrong += [f"{bank.name} could {verb} {other}" for other in chance.sample(foreign, 2) if (verb := touch(bank, other))]
        if number % 5 == 4:
            bank.update(mine[-1], content=claim(bank.name, number * 100 + seed + 50_000))
            bank.invalidate(mine[-2], replacement=mine[-1])
            bank.forget(mine.pop(-3))
    return wrong


def touch(bank: Bank, other: str) -> str | None:
    """The first verb that reaches a memory of another bank, or `None`."""
    verbs = {
        "get": lambda: bank.get(other),
        "update": lambda: bank.update(other, content="stolen goods"),
        "invalidate": lambda: bank.invalidate(other),
        "forget": lambda: bank.forget(other),
    }
    for verb, body in verbs.items():
        try:
            body()
        except MissingError:
            continue
        return verb
    return None


def planted(bank: Bank) -> dict[str, list[str]]:
    """Three memories for each bank that nobody may touch."""
    return {
        name: [
            str(o.id)
            for o in bank.named(name).retain([claim(name, 90_000 + n) for n in range(3)], session="talk", tags=["common"]).stored
        ]
        for name in NAMES
    }


def strangers(ids: dict[str, list[str]], name: str) -> list[str]:
    return [each for owner, theirs in ids.items() if owner != name for each in theirs]


def test_threads_on_several_banks_of_one_file_never_meet(bank: Bank) -> None:
    """Eight threads on four banks: every read is of the own bank, every foreign id is missing, what was planted stays."""
    ids = planted(bank)
    with ThreadPoolExecutor(8) as pool:
        tasks = [pool.submit(live, bank.named(name), strangers(ids, name), seed) for seed, name in enumerate(NAMES * 2)]
        assert [wrong for task in tasks for wrong in task.result()] == []
    for name in NAMES:
        assert [bank.named(name).get(each).text for each in ids[name]] == [claim(name, 90_000 + n) for n in range(3)]
        assert len(bank.named(name).list(state="all", limit=1_000)) == 3 + 2 * (ROUNDS - ROUNDS // 5)
        assert bank.named(name).check().problems == ()


async def test_tasks_of_one_loop_on_several_banks_never_meet(bank: Bank) -> None:
    """The same through the awaitable verbs, many at once."""

    async def live_async(name: str, number: int) -> set[str | None]:
        mine = bank.named(name)
        await mine.aretain(claim(name, number))
        found = await mine.arecall("What is the secret colour?", limit=50, max_tokens=10_000)
        return {memory.bank for memory in (*found, *await mine.alist())}

    seen = await asyncio.gather(*(live_async(name, number) for number in range(20) for name in NAMES))
    assert seen == [{name} for _ in range(20) for name in NAMES]


def test_removals_of_one_bank_leave_others_alone_while_they_write(bank: Bank) -> None:
    """Filters and `clear` in one bank, at work beside writers with the same session and tags, remove nothing of theirs."""

    def write(name: str) -> None:
        for number in range(40):
            bank.named(name).retain([Item(claim(name, number), session="talk", tags=["common"])])

    def wipe() -> None:
        for number in range(10):
            bank.named("wiped").retain(claim("wiped", number), session="talk", tags=["common"])
            bank.named("wiped").forget(session="talk", tags=["common"])
            bank.named("wiped").clear(confirm="wiped")

    with ThreadPoolExecutor(4) as pool:
        for task in [*(pool.submit(write, name) for name in NAMES[:3]), pool.submit(wipe)]:
            task.result()
    assert [len(bank.named(name).list()) for name in NAMES[:3]] == [40, 40, 40]
    assert bank.named("wiped").list(state="all") == ()


@pytest.mark.parametrize("verb", ["recall", "reflect"])
def test_a_question_that_only_another_bank_can_answer_finds_nothing(bank: Bank, verb: str) -> None:
    """Not even the words of another bank weigh in."""
    bank.named("ana").retain("The password of the cellar is swordfish cello.")
    bank.named("ben").retain("Ben likes cake.")
    result = getattr(bank.named("ben"), verb)("What is the swordfish cello of the cellar?")
    assert (result.memories if verb == "recall" else result.based_on) == ()
    trace = bank.named("ben").explain("swordfish cake").trace
    assert trace is not None
    assert trace.pool == 1
