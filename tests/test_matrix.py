"""Event loops, threads and processes: one bank object works from all of them, on both backends."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebank import Bank, open_bank
from lorebank.testing import Fault, FaultServer

TEXT = "Ana prefers aisle seats."
ASKED = "Which seats does Ana prefer?"


@pytest.fixture(params=["mnemopi", pytest.param("hindsight", marks=pytest.mark.server)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """`open_bank`'s arguments for a bank that nobody else uses."""
    if request.param == "mnemopi":
        yield {"url": f"sqlite:///{tmp_path / 'memory.db'}", "bank": "alice"}
        return
    server = request.getfixturevalue("hindsight").url
    bank = f"matrix-{uuid.uuid4().hex}"
    yield {"url": server, "bank": bank, "ledger": f"sqlite:///{tmp_path / 'outbox.db'}", "outbox": {"batch_seconds": 0.02}}
    httpx.delete(f"{server}/v1/default/banks/{bank}", timeout=60).raise_for_status()


@pytest.fixture
def bank(place: dict[str, Any]) -> Iterator[Bank]:
    """A bank that knows one thing."""
    with open_bank(**place) as opened:
        opened.retain(TEXT)
        assert opened.flush(timeout=60, until="completed").done
        yield opened


def found(bank: Bank) -> list[str]:
    return [memory.text for memory in bank.recall(ASKED)]


async def afound(bank: Bank) -> list[str]:
    return [memory.text for memory in await bank.arecall(ASKED)]


def in_thread(body: Callable[[], list[str]]) -> list[str]:
    got: list[str] = []
    thread = threading.Thread(target=lambda: got.extend(body()))
    thread.start()
    thread.join()
    return got


async def inside_a_loop(bank: Bank) -> list[str]:
    return found(bank)


ROWS: dict[str, Callable[[Bank], list[str]]] = {
    "first asyncio.run": lambda bank: asyncio.run(afound(bank)),
    "second asyncio.run": lambda bank: asyncio.run(afound(bank)),
    "blocking after asyncio.run": found,
    "blocking inside a running loop": lambda bank: asyncio.run(inside_a_loop(bank)),
    "blocking from a second thread": lambda bank: in_thread(lambda: found(bank)),
    "asyncio.to_thread": lambda bank: asyncio.run(asyncio.to_thread(found, bank)),  # type: ignore[arg-type]
    "blocking in the main thread": found,
}


def test_every_row_of_the_matrix_works_on_one_bank(bank: Bank) -> None:
    """Seven ways to call, one after the other, on the same object."""
    assert {row: body(bank) for row, body in ROWS.items()} == {row: [TEXT] for row in ROWS}


def test_the_rows_work_at_once(bank: Bank) -> None:
    """The seven ways at the same time, each in a thread of its own."""
    got: dict[str, list[str]] = {}
    threads = [threading.Thread(target=lambda row=row: got.update({row: ROWS[row](bank)})) for row in ROWS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {row: [TEXT] for row in ROWS}


def test_a_pickled_bank_works_where_it_arrives(bank: Bank, place: dict[str, Any]) -> None:
    """A bank unpickled beside the first, and one unpickled in another process, know what it knows."""
    arrived = pickle.loads(pickle.dumps(bank))  # noqa: S301 - our own bytes
    assert (found(arrived), asyncio.run(afound(arrived))) == ([TEXT], [TEXT])
    arrived.close()
    script = "import pickle,sys;b=pickle.load(sys.stdin.buffer);print(*[m.text for m in b.recall(sys.argv[1])]);b.close()"
    done = subprocess.run(
        [sys.executable, "-c", script, ASKED], input=pickle.dumps(bank), capture_output=True, check=False, timeout=60
    )
    assert (done.stdout.decode().strip(), done.returncode) == (TEXT, 0), done.stderr.decode()
    assert found(bank) == [TEXT]


FORKED = """
import asyncio, os, sys
from lorebank import open_bank
url, name, ledger = sys.argv[1:]
options = {"ledger": ledger, "outbox": {"batch_seconds": 0.02}} if ledger else {}
bank = open_bank(url, bank=name, **options)
ask = lambda: {memory.text for memory in bank.recall("Ana seats")}
async def aask():
    return {memory.text for memory in await bank.arecall("Ana seats")}
bank.retain("Ana likes the seats of her parents.")
assert bank.flush(timeout=60, until="completed").done
before = ask() | asyncio.run(aask())
if (child := os.fork()) == 0:
    try:
        bank.retain("Ana likes the seats of her children.")
        assert bank.flush(timeout=60, until="completed").done
        assert before < ask() and ask() == asyncio.run(aask())
        bank.close()
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, len(before), len(ask()), len(asyncio.run(aask())))
bank.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_bank_works_on_both_sides_of_a_fork(place: dict[str, Any]) -> None:
    """Parent and child write and read, blocking and awaited; the parent sees what the child wrote."""
    arguments = [place["url"], place["bank"], place.get("ledger", "")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["0", "1", "2", "2"], done.stdout + done.stderr


def asked(server: FaultServer, count: int) -> None:
    """Waits until so many recalls have arrived."""
    until = time.monotonic() + 30
    while sum(request.path.endswith("/recall") for request in server.requests) < count:
        assert time.monotonic() < until


async def test_recalls_that_hang_keep_no_write_waiting(tmp_path: Path) -> None:
    """With sixteen recalls on a server that never answers, a write is queued at once, and awaits that give up return."""
    with FaultServer() as server:
        server.fault(Fault(hang=True), path="/recall$")
        with open_bank(server.url, bank="alice", ledger=f"sqlite:///{tmp_path / 'outbox.db'}") as bank:
            await bank.aretain("Ana sleeps.")
            hung = [asyncio.create_task(bank.arecall(ASKED)) for _ in range(16)]
            await asyncio.to_thread(asked, server, 16)
            started = time.perf_counter()
            receipt = await bank.aretain(TEXT)
            assert (len(receipt.queued), time.perf_counter() - started < 2) == (1, True)
            assert not any(task.done() for task in hung)
            for task in hung:
                task.cancel()
            assert all(isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*hung, return_exceptions=True))
            server.heal()
