"""Kills of a client that is retaining to a server: no acknowledged write is lost, none is doubled there."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from lorebank import open_bank
from lorebank.testing import FaultServer

SERVER = Path(__file__).with_name("outbox_server.py")
KILLS = int(os.environ.get("LOREBANK_KILLS", "200"))


def acknowledged(log: Path) -> list[tuple[str | None, str]]:
    """Document and text of each write that reached the log; a torn last line was not acknowledged."""
    return [
        (document, text)
        for document, text in map(json.loads, (line for line in log.read_text().splitlines() if line[-1:] == "]"))
    ]


def killed(url: str, folder: Path, kills: int) -> None:
    """So many writers, one after the other, each killed within its first 150 ms."""
    chance = random.Random(kills)
    with subprocess.Popen([sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for seed in range(kills):
            server.stdin.write(f"{url} {folder / 'outbox.db'} {folder / 'log'} {chance.uniform(5, 150):.3f} {seed}\n")
            server.stdin.flush()
            assert server.stdout.readline().strip() == "killed"
        server.stdin.close()
        assert server.wait(30) == 0


def drained(url: str, folder: Path) -> None:
    """The next start delivers what is left."""
    with open_bank(url, bank="kills", ledger=f"sqlite:///{folder / 'outbox.db'}") as bank:
        report = bank.flush(timeout=600, until="completed")
        assert (report.left, report.dead) == (0, 0), report.reason


def check(texts: list[str], documents: dict[str, str], log: Path) -> None:
    """Row by row: all that was acknowledged is on the server, once; appends in the order they were made."""
    told = acknowledged(log)
    assert len(told) > len(texts) // 2
    lines = Counter(line for document in documents.values() for line in document.split("\n"))
    assert [text for _, text in told if lines[text] != 1] == []
    assert [line for line, count in lines.items() if count != 1] == []
    for name in ("log-0", "log-1", "log-2"):
        said = [text for document, text in told if document == name]
        held = [line for line in documents[name].split("\n") if line in set(said)]
        assert held == said


@pytest.mark.timeout(900)
def test_no_write_is_lost_or_doubled_by_kills(tmp_path: Path) -> None:
    """Writers killed at any moment of enqueue, claim, sending, answer and settling; the server is asked row by row."""
    with FaultServer() as server:
        killed(server.url, tmp_path, KILLS)
        drained(server.url, tmp_path)
        view = server.bank("kills")
        check(list(view.facts), dict(view.documents), tmp_path / "log")


@pytest.mark.timeout(900)
def test_lost_answers_and_errors_between_kills_change_nothing(tmp_path: Path) -> None:
    """A server that answers badly meanwhile: cut after the request was taken, 503, garbage, slow."""
    from lorebank.testing import Fault

    chance = random.Random(3)
    faults = (Fault(cut=True), Fault(status=503), Fault(body=b"<html>", content_type="text/html", status=200), Fault(delay=0.05))
    with FaultServer() as server:
        for fault in faults * 10:
            server.fault(fault, path="/memories$", method="POST", times=chance.randrange(1, 4))
        killed(server.url, tmp_path, KILLS // 5)
        server.heal()
        drained(server.url, tmp_path)
        view = server.bank("kills")
        check(list(view.facts), dict(view.documents), tmp_path / "log")
