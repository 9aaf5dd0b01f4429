"""Kills between any two lines of a session's life: no acknowledged message is lost, none is doubled.

The parent of the killed processes has everything imported; each life is a fork of it that counts the lines it runs in the
code of sessions and of their ledger, and kills itself at one of them. Run as a script, this file is that parent, or the
server that the lives talk to.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Message, open_bank
from lorebank.testing import FaultServer

KILLS = int(os.environ.get("LOREBANK_SESSION_KILLS", "8"))
TURNS = 3
TRACED = (
    "/_session/",
    "/_ledger/sessions.py",
    "/_ledger/writing.py",
    "/_delivery/sessions.py",
    "/_mnemopi/sessions.py",
    "/_domain/cursor.py",
)
STYLES = ("ids", "full", "delta")


def spoken(life: int, style: str) -> list[Message]:
    """A conversation whose every text is its own."""
    return [
        Message(role, f"{role} {number} of life {life} is said.", id=f"{role}{number}" if style == "ids" else None)
        for number in range(TURNS)
        for role in ("user", "assistant")
    ]


def converse(bank: Bank, life: int, style: str, heard: Callable[[str], None]) -> None:
    """One session's whole life; `heard` is told each message once the call that it was handed over in has returned."""
    history = spoken(life, style)
    session = bank.session(f"s{life}")
    for number in range(TURNS):
        start, end = (2 * number, 2 * number + 2) if style == "delta" else (0, 2 * number + 2)
        options: dict[str, Any] = {"history": "delta", "run_id": f"r{number}"} if style == "delta" else {}
        session.before_turn(history[start : end - 1], **options)
        heard(history[end - 2].text)
        session.after_turn(history[start:end], **options)
        heard(history[end - 1].text)
    session.close()


def opened(url: str, ledger: str) -> Bank:
    place = {"ledger": f"sqlite:///{ledger}", "outbox": {"batch_seconds": 0.01}} if url.startswith("http") else {}
    return open_bank(
        url,
        bank="kills",
        retain={"every_n_turns": 2},
        recall={"auto_recall": False},
        mental_models={"enabled": False},
        connection={"close_timeout": 0.2},
        **place,  # type: ignore[arg-type]
    )


def live(url: str, ledger: str, log: str, life: int, style: str, last: int) -> int:
    """Lives until its line number `last` (0: to the end); gives how many lines there were."""
    lines = 0

    def local(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return local

    def trace(frame: Any, _event: str, _argument: Any) -> Any:
        return local if any(part in frame.f_code.co_filename for part in TRACED) else None

    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hear(text: str) -> None:
        os.write(descriptor, f"{json.dumps(text)}\n".encode())

    bank = opened(url, ledger)
    sys.settrace(trace)
    converse(bank, life, style, hear)
    sys.settrace(None)
    bank.close()
    return lines


def main() -> None:
    """Forks a life for each line on stdin, and answers how it ended."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # loads and compiles all that a life needs
        for url in (f"sqlite:///{folder}/memory.db", "http://127.0.0.1:9"):
            live(url, f"{folder}/outbox.db", f"{folder}/log", 0, "ids", 0)
        for thread in set(threading.enumerate()) - {threading.main_thread()}:
            thread.join(60)  # forks in the midst of something are another test's
    for line in sys.stdin:
        url, ledger, log, life, style, last = line.split()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.write(1, f"{live(url, ledger, log, int(life), style, int(last))} ".encode())
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else "ended", flush=True)  # noqa: T201 - the answer


def serve() -> None:
    """A server until stdin ends."""
    with FaultServer() as server:
        print(server.url, flush=True)  # noqa: T201 - the answer
        sys.stdin.read()


@contextmanager
def script(*arguments: str) -> Iterator[Callable[[str], str]]:
    """This file as a process; gives what asks it for a line."""
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(line: str) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            if line:
                process.stdin.write(f"{line}\n")
                process.stdin.flush()
            return process.stdout.readline().strip()

        yield ask
        process.stdin.close()
        assert process.wait(30) == 0


def held(bank: Bank, lives: int) -> Counter[str]:
    """How often each message is kept: as a memory, or in a document of the server."""
    if bank.backend == "mnemopi":
        return Counter(memory.text for memory in bank.list(limit=100_000, state="all"))
    report = bank.flush(timeout=120, until="completed")
    assert (report.left, report.dead) == (0, 0), report.reason
    found = Counter[str]()
    for document in bank.documents.list(limit=100_000):
        text = bank.documents.get(document.id).text or ""
        found.update(
            said for life in range(lives) for said in (m.text for m in spoken(life, "full")) for _ in range(text.count(said))
        )
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("backend", "style", "kills"),
    [
        *((backend, style, KILLS) for backend in ("mnemopi", "hindsight") for style in STYLES),
        pytest.param("mnemopi+postgres", "ids", KILLS // 2, marks=pytest.mark.postgres),
    ],
)
def test_no_message_is_lost_or_doubled_by_a_kill_between_two_lines(
    request: pytest.FixtureRequest, tmp_path: Path, backend: str, style: str, kills: int
) -> None:
    """Killed anywhere, then the same histories again: what was acknowledged is there before, all is there once afterwards."""
    ledger, log = tmp_path / "outbox.db", tmp_path / "log"
    with script("serve") as server, script("live") as ask:
        urls = {"mnemopi": f"sqlite:///{tmp_path / 'memory.db'}", "hindsight": server("") if backend == "hindsight" else ""}
        url = urls.get(backend) or request.getfixturevalue("postgres_url")
        count, ended = ask(f"{url} {ledger} {log} 0 {style} 0").split()
        assert ended == "ended"
        chance = random.Random(kills)
        last = [chance.randrange(1, int(count)) for _ in range(kills)]
        for life, line in enumerate(last, 1):
            assert ask(f"{url} {ledger} {log} {life} {style} {line}") == "killed"
        acknowledged = {json.loads(line) for line in log.read_text().splitlines()}
        assert len(acknowledged) > kills
        with opened(url, str(ledger)) as bank:
            before = held(bank, kills + 1)
            assert {text: before[text] for text in acknowledged if before[text] != 1} == {}
            for life in range(kills + 1):
                converse(bank, life, style, lambda text: None)
            after = held(bank, kills + 1)
        everything = [message.text for life in range(kills + 1) for message in spoken(life, style)]
        assert {text: after[text] for text in everything if after[text] != 1} == {}


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else main()
