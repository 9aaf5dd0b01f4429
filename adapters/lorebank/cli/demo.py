"""`lorebank demo`: one process is told facts, a second one knows them."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from lorebank import Bank, UnavailableError, open_bank
from lorebank.cli.conversation import Conversation, Question, read_conversation
from lorebank.cli.models import PROMPT, chat_model

FACTS = (
    "I'm Ana Ruiz and I live in Lisbon with my two cats, Miso and Tofu.",
    "On flights I always want an aisle seat near the front.",
    "I'm allergic to peanuts, so no satay, please.",
    "My sister Carla gets married on 12 June 2027 in Porto.",
    "Our billing service reads its limits from src/billing/rate_limits.py, the flag is MAX_BURST_V2.",
)
QUESTIONS = (
    "Which seat does Ana like on flights?",
    "What food is Ana allergic to?",
    "When is the wedding of Carla?",
    "Where is MAX_BURST_V2 defined?",
    "What is the boiling point of tungsten?",
)
BANK = "demo"
BATCH = 64
ASKED = 20
PATIENCE = 1800.0
"""Seconds for a server to work up what it was told."""

console = Console()


@dataclass(frozen=True, slots=True)
class Home:
    """Where the demo's memories live. `kept` says that they stay there."""

    url: str
    bank: str
    kept: bool = False

    def open(self) -> Bank:
        """The demo's bank."""
        return open_bank(self.url, bank=self.bank)


@contextmanager
def home_of(url: str | None, database: Path | None, bank: str | None) -> Iterator[Home]:
    """A given backend, a given file, or a file that vanishes. On a server the bank is a new one, unless it is named."""
    if url is not None:
        local = url.startswith("sqlite:")
        yield Home(url, bank or (BANK if local else f"{BANK}-{secrets.token_hex(3)}"), kept=True)
    elif database is not None:
        yield Home(f"sqlite:///{database}", bank or BANK, kept=True)
    else:
        with tempfile.TemporaryDirectory(prefix="lorebank-demo-", ignore_cleanup_errors=True) as folder:
            yield Home(f"sqlite:///{Path(folder) / 'memory.db'}", bank or BANK)


def run_demo(conversation: Path | None, home: Home) -> None:
    """Retains in this process, answers in another one."""
    if conversation is None:
        _tell_agent(home)
        questions = [Question(question=text) for text in QUESTIONS]
    else:
        read = read_conversation(conversation)
        _retain_all(home, read)
        questions = [each for each in read.qa if each.evidence][:ASKED]
    if questions:
        _ask(home, questions)
    if home.kept:
        place = home.url.removeprefix("sqlite:///").rsplit("@", maxsplit=1)[-1]
        console.print(f"The memories stay in [bold]{escape(place)}[/bold], bank {escape(home.bank)}.", highlight=False)


def settle(bank: Bank) -> None:
    """Waits until a server has worked up what it was told; on Mnemopi there is nothing to wait for."""
    end = time.monotonic() + PATIENCE
    with console.status("waiting for the server") as line:
        while not (report := bank.flush(timeout=1, until="completed")).done:
            line.update(f"the server works up what it was told: {report.left} of the writes left")
            if time.monotonic() > end:
                raise UnavailableError(f"the server has not worked up {report.left} writes: {report.reason}")
    if lost := bank.outbox.list(state="dead"):
        console.print(f"[red]{len(lost)} writes were refused:[/red] {escape(lost[0].reason or '')}", highlight=False)


def _tell_agent(home: Home) -> None:
    """A LangChain agent is told the facts and retains them with its tool."""
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage

    from langchain_lorebank import memory_tools

    console.rule("First process: a LangChain agent is told five things")
    with home.open() as bank:
        agent = create_agent(chat_model(), tools=memory_tools(bank), system_prompt=PROMPT)
        for fact in FACTS:
            answer = agent.invoke({"messages": [HumanMessage(fact)]})["messages"]
            receipt = next((str(message.text) for message in answer if message.type == "tool"), "nothing retained")
            console.print(f"[bold]user[/bold]   {escape(fact)}", highlight=False)
            console.print(f"[bold]agent[/bold]  {escape(str(answer[-1].text))} [dim]({escape(receipt)})[/dim]", highlight=False)
        settle(bank)
        table = Table("id", "retained", "source", title=f"What the bank {home.bank!r} holds now")
        for memory in reversed(bank.list()):
            table.add_row(memory.id, escape(memory.text), memory.source or memory.type)
        console.print(table)


def _retain_all(home: Home, conversation: Conversation) -> None:
    """Every message becomes a memory."""
    console.rule(f"First process: retaining the conversation {conversation.id}")
    items = [turn.item(conversation.id) for turn in conversation.turns if turn.text.strip()]
    counts: Counter[str] = Counter()
    with home.open() as bank:
        for start in track(range(0, len(items), BATCH), "retaining", console=console):
            receipt = bank.retain(items[start : start + BATCH])
            counts["stored"] += len(receipt.stored)
            counts["queued"] += len(receipt.queued)
            counts["known"] += len(receipt.duplicates)
            counts["rejected"] += len(receipt.rejected)
        settle(bank)
        word = "queued" if bank.backend == "hindsight" else "stored"
    told = f"{counts[word]} {word}, {counts['known']} already known, {counts['rejected']} rejected."
    console.print(f"{len(items)} messages: {told}", highlight=False)


def _ask(home: Home, questions: list[Question]) -> None:
    """Starts the second process, which shares nothing with this one but the memories."""
    with tempfile.TemporaryDirectory(prefix="lorebank-demo-", ignore_cleanup_errors=True) as folder:
        asked = Path(folder) / "questions.json"
        asked.write_text(json.dumps([question.model_dump() for question in questions]), encoding="utf-8")
        command = [sys.executable, "-m", "lorebank.cli", "answer", home.url, home.bank, str(asked)]
        done = subprocess.run(command, check=False)  # noqa: S603 - ourselves
    if done.returncode:
        raise UnavailableError(f"the second process failed with exit code {done.returncode}")
