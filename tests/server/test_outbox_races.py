"""The outbox and what happens at the same time: forgetting, other processes, forks, hung calls, closing, a long backlog."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hindsight_server import Hindsight
from outbox_rig import RETAIN, Rig, until

from lorebank import Bank, Item, open_bank
from lorebank.errors import LorebankError
from lorebank.testing import Fault, FaultServer

BACKLOG = int(os.environ.get("LOREBANK_BACKLOG", "2000"))
FORGOTTEN = "Ana drinks tea."


@pytest.fixture
def rig(hindsight: Hindsight, bank_id: str, tmp_path: Path) -> Iterator[Rig]:
    with FaultServer(upstream=hindsight.url) as proxy:
        made = Rig(proxy, hindsight.url, bank_id, tmp_path)
        yield made
        proxy.heal()
        made.close()


def seeded(rig: Rig, *, wait: float = 0.02) -> Bank:
    """A bank with one document that nobody forgets."""
    bank = rig.open(outbox={"batch_seconds": wait})
    bank.retain("Ben drinks milk.", document_id="seed")
    assert bank.flush(timeout=20, until="completed").done
    return bank


def pending(rig: Rig) -> Bank:
    """The write waits for company."""
    bank = seeded(rig, wait=60)
    bank.retain(FORGOTTEN, document_id="log", update_mode="append")
    return bank


def sending(rig: Rig) -> Bank:
    """The server has taken the write, and its answer is on its way."""
    bank = seeded(rig)
    rig.proxy.fault(Fault(delay=0.7), path=RETAIN, method="POST", times=1)
    bank.retain(FORGOTTEN, document_id="log", update_mode="append")
    until(lambda: len(rig.retains) >= 2)
    return bank


def unsure(rig: Rig) -> Bank:
    """The write is sealed: it was sent, and nobody knows whether it arrived."""
    bank = seeded(rig)
    rig.proxy.fault(Fault(cut=True), path=RETAIN, method="POST", times=1)
    bank.retain(FORGOTTEN, document_id="log", update_mode="append")
    until(lambda: len(rig.retains) >= 2)
    return bank


def running(rig: Rig) -> Bank:
    """The server works on the write."""
    bank = seeded(rig)
    bank.retain(FORGOTTEN, document_id="log", update_mode="append")
    assert bank.flush(timeout=20, until="accepted").done
    return bank


def dead(rig: Rig) -> Bank:
    """The write was given up."""
    bank = seeded(rig)
    rig.proxy.fault(Fault(status=422), path=RETAIN, method="POST", times=1)
    bank.retain(FORGOTTEN, document_id="log", update_mode="append")
    assert bank.flush(timeout=20).dead == 1
    return bank


STAGES = [pending, sending, unsure, running, dead]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_what_is_forgotten_at_any_stage_does_not_come_back(rig: Rig, stage: Callable[[Rig], Bank]) -> None:
    """Nothing of the document is on the server or in the outbox, also after a requeue and a flush; others stay."""
    bank = stage(rig)
    bank.forget(document="log")
    assert "log" not in rig.documents()
    bank.outbox.requeue()
    assert bank.flush(timeout=20, until="completed").done
    assert rig.documents() == {"seed": "Ben drinks milk."}
    assert rig.facts() == ["Ben drinks milk."]
    assert bank.outbox.list() == ()


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_what_is_cleared_at_any_stage_does_not_come_back(rig: Rig, stage: Callable[[Rig], Bank]) -> None:
    """The bank is empty and stays so after a flush; a write that is acknowledged after the clear is kept, once."""
    bank = stage(rig)
    bank.clear(confirm=rig.name)
    assert (rig.documents(), rig.facts(), bank.outbox.list()) == ({}, [], ())
    bank.outbox.requeue()
    bank.retain("Cleo drinks water.", document_id="log", update_mode="append")
    assert bank.flush(timeout=20, until="completed").done
    assert rig.documents() == {"log": "Cleo drinks water."}
    assert rig.facts() == ["Cleo drinks water."]


def test_forgetting_while_the_server_is_away_does_nothing_by_halves(rig: Rig) -> None:
    """It raises, the queued write is still there and arrives, and forgetting works afterwards."""
    bank = pending(rig)
    rig.proxy.stop()
    for attempt in (lambda: bank.forget(document="log"), lambda: bank.clear(confirm=rig.name)):
        with pytest.raises(LorebankError):
            attempt()
    assert bank.outbox.status().waiting == 1
    rig.proxy.start()
    assert bank.flush(timeout=20, until="completed").done
    assert rig.documents()["log"] == FORGOTTEN
    bank.forget(document="log")
    assert rig.documents() == {"seed": "Ben drinks milk."}


@pytest.fixture
async def hung(rig: Rig) -> AsyncIterator[Bank]:
    """A bank with 16 recalls that never return."""
    rig.proxy.fault(Fault(hang=True), path="/recall$")
    bank = rig.open()
    tasks = [asyncio.create_task(bank.arecall("tea")) for _ in range(16)]
    await asyncio.to_thread(until, lambda: sum(each.path.endswith("/recall") for each in rig.proxy.requests) >= 16)
    yield bank
    rig.proxy.heal()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_hung_calls_do_not_hold_up_the_database(rig: Rig, hung: Bank, tmp_path: Path) -> None:
    """With 16 recalls that never return, writes are acknowledged and delivered, and a local bank works as ever."""
    texts = [f"Number {place:02} is written." for place in range(20)]
    async with asyncio.timeout(10):
        with open_bank(f"sqlite:///{tmp_path / 'local.db'}", bank="local") as local:
            for text in texts:
                await hung.aretain(text)
                await local.aretain(text)
            assert len(await local.alist(limit=50)) == 20
    await asyncio.to_thread(until, lambda: hung.outbox.status().rows == {"completed": 20})
    assert rig.texts() == texts


async def test_hung_calls_do_not_hold_up_a_flush(hung: Bank) -> None:
    """The bound of an awaited flush counts from the call."""
    async with asyncio.timeout(5):
        report = await hung.aflush(timeout=1)
    assert report.done


WRITING = """
import sys
from lorebank import open_bank
url, name, ledger, who = sys.argv[1:]
with open_bank(url, bank=name, ledger=ledger, outbox={"batch_seconds": 0.02, "max_backoff": 0.3}) as bank:
    for place in range(15):
        bank.retain(f"{who} says {place:02}.", document_id="log", update_mode="append")
        bank.retain(f"{who} writes {place:02}.")
    assert bank.flush(timeout=60, until="completed").done
"""


def test_two_processes_share_a_ledger(rig: Rig) -> None:
    """Both write and send; each write is there once, and each writer's appends to one document are in its order."""
    command = [sys.executable, "-c", WRITING, rig.proxy.url, rig.name, rig.ledger]
    both = [subprocess.Popen([*command, who]) for who in ("Ana", "Ben")]
    assert [process.wait(90) for process in both] == [0, 0]
    held = rig.documents()
    lines = held.pop("log").split("\n")
    assert len(lines) == 30
    for who in ("Ana", "Ben"):
        assert [line for line in lines if line.startswith(who)] == [f"{who} says {place:02}." for place in range(15)]
    assert sorted(held.values()) == [f"{who} writes {place:02}." for who in ("Ana", "Ben") for place in range(15)]


def test_a_flush_sees_what_another_process_gives_back(tmp_path: Path) -> None:
    """A batch that another process works on is taken soon after it is free, not when its claim would have ended."""
    with FaultServer() as server:
        rig = Rig(server, server.url, "shared", tmp_path)
        server.hold_operations()
        first = rig.open()
        first.retain("Ana drinks tea.")
        assert first.flush(timeout=10).done
        first.close()
        server.release_operations()
        rig.claimed(f"{platform.node()}|{os.getppid()}|other", time.time() + 50)
        second = rig.open()
        giving_back = threading.Timer(1, rig.claimed, [None, 0])
        giving_back.start()
        assert second.flush(timeout=10, until="completed").done
        giving_back.join()
        rig.close()


FORKING = """
import os, sys
from lorebank import open_bank
url, name, ledger = sys.argv[1:]
bank = open_bank(url, bank=name, ledger=ledger, outbox={"batch_seconds": 0.02, "max_backoff": 0.3})
children = []
for place in range(4):
    bank.retain([f"Parent {place} {part} is written." for part in range(5)])
    bank.retain(f"Parent says {place}.", document_id="log", update_mode="append")
    if (child := os.fork()) == 0:
        code = 1
        try:
            bank.retain(f"Child {place} is written.")
            code = 0 if bank.flush(timeout=40, until="completed").done else 2
        finally:
            os._exit(code)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(codes, bank.flush(timeout=40, until="completed").done)
bank.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_while_the_sender_works(rig: Rig) -> None:
    """Parent and children go on and send what is left; each write is there once, appends in order."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, rig.proxy.url, rig.name, rig.ledger]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (finished.stdout.strip(), finished.stderr) == ("[0, 0, 0, 0] True", "")
    held = rig.documents()
    assert held.pop("log") == "\n".join(f"Parent says {place}." for place in range(4))
    parents = [f"Parent {place} {part} is written." for place in range(4) for part in range(5)]
    assert sorted(held.values()) == sorted([*parents, *(f"Child {place} is written." for place in range(4))])


def test_closing_with_a_hung_server_is_bounded_and_loses_nothing(rig: Rig) -> None:
    """`close` returns within its time though the server hangs; the next start delivers everything, once."""
    rig.proxy.fault(Fault(hang=True), path=RETAIN, method="POST")
    bank = rig.open(connection={"close_timeout": 0.5, "retain_timeout": 2})
    bank.retain(["Ana drinks tea.", "Ben drinks milk."])
    bank.retain("Cleo drinks water.", document_id="log", update_mode="append")
    until(lambda: rig.retains)
    began = time.monotonic()
    bank.close()
    assert time.monotonic() - began < 2
    rig.proxy.heal()
    again = rig.open()
    assert again.flush(timeout=30, until="completed").done
    assert rig.texts() == ["Ana drinks tea.", "Ben drinks milk.", "Cleo drinks water."]


DRAINING = """
import sys, tracemalloc
from lorebank import open_bank
url, ledger = sys.argv[1:]
with open_bank(url, bank="backlog", ledger=ledger) as bank:
    assert bank.health().ok
    tracemalloc.start()
    done = bank.flush(timeout=280, until="completed").done
    print(done, tracemalloc.get_traced_memory()[1])
"""


def test_a_long_backlog_drains_in_bounded_memory_and_in_order(tmp_path: Path) -> None:
    """`LOREBANK_BACKLOG` rows of an outage (2,000 where it is unset) all arrive once, appends in order, and the sender never
    holds more than a few batches.
    """
    half, documents, filler = BACKLOG // 2, 20, "x" * 16_000
    with FaultServer() as server:
        rig = Rig(server, server.url, "backlog", tmp_path)
        server.stop()
        bank = rig.open(connection={"close_timeout": 0})
        for start in range(0, half, 50):
            places = range(start, min(start + 50, half))
            bank.retain([f"[no-facts] Number {at} {filler}" for at in places])
            logs = [Item(f"[no-facts] Line {at}.", document_id=f"log-{at % documents}", update_mode="append") for at in places]
            bank.retain(logs)
        bank.close()
        server.start()
        command = [sys.executable, "-c", DRAINING, server.url, rig.ledger]
        done, peak = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=290, check=True).stdout.split()
        assert done == "True"
        assert int(peak) < 8_000_000  # the backlog has 16 MB at least
        held = dict(server.bank("backlog").documents)
        for name in range(documents):
            lines = [f"[no-facts] Line {at}." for at in range(name, half, documents)]
            assert held.pop(f"log-{name}").split("\n") == lines
        assert sorted(held.values()) == sorted(f"[no-facts] Number {at} {filler}" for at in range(half))
