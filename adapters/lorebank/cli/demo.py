"""`lorebank demo`: one process is told facts, a second one knows them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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

console = Console()


def run_demo(conversation: Path | None, database: Path | None) -> None:
    """Retains in this process, answers in another one."""
    with _home(database) as file:
        if conversation is None:
            _tell_agent(file)
            questions = [Question(question=text) for text in QUESTIONS]
        else:
            read = read_conversation(conversation)
            _retain_all(file, read)
            questions = [each for each in read.qa if each.evidence][:ASKED]
        if questions:
            _ask(file, questions)
        if database is not None:
            console.print(f"The memories stay in [bold]{escape(str(file))}[/bold].", highlight=False)


@contextmanager
def _home(database: Path | None) -> Iterator[Path]:
    """Where the demo's memories live: a given file, or one that vanishes."""
    if database is not None:
        yield database
        return
    with tempfile.TemporaryDirectory(prefix="lorebank-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "memory.db"


def open_demo(file: Path) -> Bank:
    """The demo's bank in a file."""
    return open_bank(f"sqlite:///{file}", bank=BANK)


def _tell_agent(file: Path) -> None:
    """A LangChain agent is told the facts and retains them with its tool."""
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage

    from langchain_lorebank import memory_tools

    console.rule("First process: a LangChain agent is told five things")
    with open_demo(file) as bank:
        agent = create_agent(chat_model(), tools=memory_tools(bank), system_prompt=PROMPT)
        for fact in FACTS:
            answer = agent.invoke({"messages": [HumanMessage(fact)]})["messages"]
            receipt = next((str(message.text) for message in answer if message.type == "tool"), "nothing retained")
            console.print(f"[bold]user[/bold]   {escape(fact)}", highlight=False)
            console.print(f"[bold]agent[/bold]  {escape(str(answer[-1].text))} [dim]({escape(receipt)})[/dim]", highlight=False)
        table = Table("id", "retained", "source", title=f"What the bank {BANK!r} holds now")
        for memory in reversed(bank.list()):
            table.add_row(memory.id, escape(memory.text), memory.source)
        console.print(table)


def _retain_all(file: Path, conversation: Conversation) -> None:
    """Every message becomes a memory."""
    console.rule(f"First process: retaining the conversation {conversation.id}")
    items = [turn.item(conversation.id) for turn in conversation.turns if turn.text.strip()]
    stored = known = rejected = 0
    with open_demo(file) as bank:
        for start in track(range(0, len(items), BATCH), "retaining", console=console):
            receipt = bank.retain(items[start : start + BATCH])
            stored, known, rejected = (
                stored + len(receipt.stored),
                known + len(receipt.duplicates),
                rejected + len(receipt.rejected),
            )
    console.print(f"{len(items)} messages: {stored} stored, {known} already known, {rejected} rejected.", highlight=False)


def _ask(file: Path, questions: list[Question]) -> None:
    """Starts the second process, which shares nothing with this one but the file."""
    asked = file.with_name(f"{file.name}.questions.json")
    asked.write_text(json.dumps([question.model_dump() for question in questions]), encoding="utf-8")
    try:
        done = subprocess.run([sys.executable, "-m", "lorebank.cli", "answer", str(file), str(asked)], check=False)  # noqa: S603 - ourselves
    finally:
        asked.unlink()
    if done.returncode:
        raise UnavailableError(f"the second process failed with exit code {done.returncode}")
