"""What the tests of modes share."""

from __future__ import annotations

import json
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from lorebank import Bank, Message, open_bank
from lorebank._domain.session import Mode
from lorebank.seams import Event, Recalled, ToolName
from lorebank.testing import FaultServer

AISLE = "I always want an aisle seat."


FACT = "Ana prefers aisle seats on long flights."


ASKED = "Which seats does Ana prefer on long flights?"


MODES: tuple[Mode, ...] = get_args(Mode)


READING: tuple[ToolName, ...] = ("recall", "reflect")


WRITING: tuple[ToolName, ...] = ("retain", "retain_global", "memory_edit")


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


@dataclass
class Rig:
    """Banks on one place, and a look at what sessions have kept in it."""

    file: Path
    server: FaultServer | None
    stack: ExitStack
    events: list[Event] = field(default_factory=list)

    def open(self, **options: Any) -> Bank:
        given = {"bank": "alice", "on_event": self.events.append, **options}
        if self.server is None:
            return self.stack.enter_context(open_bank(f"sqlite:///{self.file}", **given))
        return self.stack.enter_context(
            open_bank(self.server.url, ledger=f"sqlite:///{self.file}", outbox={"batch_seconds": 0.02}, **given)
        )

    def kept(self, bank: Bank) -> list[str]:
        """The texts that sessions have retained, in their order."""
        return [text for text, _ in self.tagged(bank)]

    def tagged(self, bank: Bank) -> list[tuple[str, tuple[str, ...]]]:
        """The same with their tags (a server has those of the document)."""
        if self.server is None:
            return [(memory.text, memory.tags) for memory in reversed(bank.list(limit=1000)) if memory.source == "transcript"]
        assert bank.flush(timeout=30, until="completed").left == 0
        view = self.server.bank("alice")
        found = [
            (line["content"], view.tags[name])
            for name, text in view.documents.items()
            if not name.startswith("lorebank:item:")
            for line in lines(text)
        ]
        return [(text, tuple(tags)) for text, tags in found]

    def sql(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def lines(text: str) -> list[dict[str, Any]]:
    """The lines of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[dict[str, Any]]()
    while place < len(text):
        array, place = decoder.raw_decode(text, place)
        found += array
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


CELLS: dict[Mode, dict[str, bool]] = {
    "normal": {"recall": True, "retain": True, "models": True, "reading": True, "writing": True},
    "read-only": {"recall": True, "retain": False, "models": True, "reading": True, "writing": False},
    "ignored": {"recall": False, "retain": False, "models": False, "reading": False, "writing": False},
    "tools-only": {"recall": False, "retain": False, "models": False, "reading": True, "writing": True},
}


def recalls(rig: Rig, mode: Mode) -> bool:
    bank = rig.open(mental_models={"enabled": False})
    bank.retain(FACT)
    bank.flush(timeout=30, until="completed")
    with bank.session("s") as session:
        session.mode = mode
        injection = session.before_turn([user(ASKED)])
        assert (injection.result is not None) == (FACT in injection.memories) == bool(rig.of(Recalled))
        assert (FACT in session.before_compaction([user(ASKED)])) == bool(injection.memories)
    return bool(injection.memories)


def retains(rig: Rig, mode: Mode) -> bool:
    bank = rig.open()
    with bank.session("s") as session:
        session.mode = mode
        session.before_turn([user(AISLE)])
        receipt = session.after_turn([user(AISLE), answer("Noted.")])
        assert (receipt.reason is None) == (receipt.passed == 0)
        assert receipt.reason is None or mode in receipt.reason
    return rig.kept(bank) == [AISLE, "Noted."]


def shows_models(rig: Rig, mode: Mode) -> bool:
    bank = rig.open(mental_models={"auto_seed": False})
    bank.retain(FACT)
    bank.flush(timeout=30, until="completed")
    bank.mental_models.create("seats", name="Seats", source_query=ASKED)
    with bank.session("s") as session:
        session.mode = mode
        prefix = session.before_turn([user("Hello there.")]).system_prefix
    assert ("<mental_models>\n" in prefix) == (FACT in prefix)
    return FACT in prefix


def allows(rig: Rig, mode: Mode, tools: tuple[ToolName, ...]) -> bool:
    with rig.open().session("s") as session:
        session.mode = mode
        refusals = {session.refusal(tool) for tool in tools}
    assert None not in refusals or refusals == {None}
    return refusals == {None}


def spoil(rig: Rig, text: str) -> None:
    rig.sql("UPDATE sessions SET choices = ?", text)


UNREADABLE = {
    "no JSON": "{",
    "empty": "",
    "null": "null",
    "a list": "[]",
    "unknown mode": '{"mode": "of", "retain": true, "tags": [], "skip": null}',
    "no mode": '{"retain": true, "tags": [], "skip": null}',
    "a key more": '{"mode": "normal", "retain": true, "tags": [], "skip": null, "more": 1}',
    "retain as text": '{"mode": "normal", "retain": "yes", "tags": [], "skip": null}',
    "tags as text": '{"mode": "normal", "retain": true, "tags": "abc", "skip": null}',
    "tags as null": '{"mode": "normal", "retain": true, "tags": null, "skip": null}',
    "a bad tag": '{"mode": "normal", "retain": true, "tags": ["a\\nb"], "skip": null}',
    "skip as number": '{"mode": "normal", "retain": true, "tags": [], "skip": 1}',
    "mode as list": '{"mode": ["normal"], "retain": true, "tags": [], "skip": null}',
    "mode as mapping": '{"mode": {"a": 1}, "retain": true, "tags": [], "skip": null}',
}
