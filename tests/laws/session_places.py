"""Where the laws of sessions are tried: a file, a small server."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from json import JSONDecoder
from pathlib import Path
from typing import Any

from lorebank import Bank, open_bank
from lorebank.testing import FaultServer

from .session_model import QUIET, Line


class MnemopiPlace:
    """A file."""

    def __init__(self, file: Path, **options: Any) -> None:
        self._file, self._options = file, {**QUIET, **options}

    def open(self, bank: str) -> Bank:
        return open_bank(f"sqlite:///{self._file}", bank=bank, **self._options)

    def outage(self, *, down: bool) -> None:
        """A file is always there."""

    def read(self, banks: Sequence[str]) -> Mapping[tuple[str, str], list[Line]]:
        found: dict[tuple[str, str], list[tuple[int, Line]]] = {}
        with closing(sqlite3.connect(self._file)) as connection:
            try:
                positions = dict(connection.execute("SELECT id, position FROM memories"))
            except sqlite3.OperationalError:  # nothing was ever opened
                return {}
        with self.open(banks[0]) as first:
            for name in banks:
                for memory in listed(first.named(name)):
                    place = found.setdefault((name, str(memory.session)), [])
                    place.append((positions[memory.id], (str(memory.speaker), memory.text)))
        return {key: [line for _, line in sorted(lines)] for key, lines in found.items()}

    def close(self) -> None:
        """The file goes with its folder."""


def listed(bank: Bank) -> list[Any]:
    """The transcript memories of a bank, page by page."""
    found: list[Any] = []
    while page := bank.list(limit=100, offset=len(found)):
        found += page
    return [memory for memory in found if memory.source == "transcript"]


class HindsightPlace:
    """A fault server, and a ledger in a file."""

    def __init__(self, server: FaultServer, ledger: Path, **options: Any) -> None:
        self.server, self._ledger = server, ledger
        quick = {"batch_seconds": 0.02, "max_backoff": 0.2}
        self._options: dict[str, Any] = {**QUIET, "outbox": quick, "connection": {"close_timeout": 0.05}, **options}

    def open(self, bank: str) -> Bank:
        return open_bank(self.server.url, bank=bank, ledger=f"sqlite:///{self._ledger}", **self._options)

    def outage(self, *, down: bool) -> None:
        if down:
            self.server.stop()
        else:
            self.server.start()

    def documents(self, bank: str) -> Mapping[str, str]:
        return self.server.bank(bank).documents

    def flush(self, bank: str) -> None:
        with self.open(bank) as opened:
            report = opened.flush(timeout=30, until="completed")
            assert report.done, report
            assert not report.dead, report

    def read(self, banks: Sequence[str]) -> Mapping[tuple[str, str], list[Line]]:
        self.flush(banks[0])
        found: dict[tuple[str, str], list[tuple[int, Line]]] = {}
        for name in banks:
            for document, text in self.documents(name).items():
                session, segment = session_of(document)
                found.setdefault((name, session), []).extend((segment, line) for line in lines_of(text))
        return {key: [line for _, line in sorted(lines, key=lambda each: each[0])] for key, lines in found.items()}

    def close(self) -> None:
        self.server.stop()


def session_of(document: str) -> tuple[str, int]:
    """The session and the segment of a document id."""
    _, session, segment = document.split(":")
    return session.replace("%3A", ":").replace("%40", "@").replace("%25", "%"), int(segment)


def lines_of(text: str) -> list[Line]:
    """The lines of a document: JSON arrays, one after the other."""
    decoder, place, found = JSONDecoder(), 0, list[Line]()
    text = text.strip()
    while place < len(text):
        rows, place = decoder.raw_decode(text, place)
        found += [(row["role"], row["content"]) for row in rows]
        place += len(text[place:]) - len(text[place:].lstrip())
    return found
