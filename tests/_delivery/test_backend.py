"""A bank on a server that is slow or hangs: removal reaches what is underway, nothing else waits, closing is bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, open_bank
from lorebank.testing import Fault, FaultServer

RETAIN = "/memories$"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def opened(server: FaultServer, folder: Path, *, company: float = 0.02, **connection: Any) -> Bank:
    """The bank `alice`, whose writes wait `company` seconds before they are sent."""
    ledger = f"sqlite:///{folder / 'outbox.db'}"
    return open_bank(server.url, bank="alice", ledger=ledger, outbox={"batch_seconds": company}, connection=connection)


def until(true: Callable[[], object]) -> None:
    """Waits until something is so, ten seconds at most."""
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def sent(server: FaultServer) -> int:
    """How many retains the server has seen."""
    return sum(request.method == "POST" and request.path.endswith("/memories") for request in server.requests)


@pytest.mark.parametrize("how", ["clear", "forget"])
def test_removal_reaches_a_write_that_is_on_its_way(server: FaultServer, tmp_path: Path, how: str) -> None:
    """One write is being sent, one waits: neither is on the server afterwards, and neither comes back."""
    server.fault(Fault(delay=0.5), path=RETAIN, method="POST", times=1)
    with opened(server, tmp_path) as bank:
        bank.retain("Ana drinks tea.", document_id="day", session="s1")
        until(lambda: sent(server))
        bank.retain("Ana drinks milk.", document_id="day", session="s1")
        removal = bank.clear(confirm="alice") if how == "clear" else bank.forget(session="s1")
        assert len(removal.rows) == 1
        assert bank.flush(timeout=10, until="completed").done
        assert (server.bank("alice").documents, bank.outbox.status().waiting) == ({}, 0)


def test_clearing_awaits_a_running_operation(server: FaultServer, tmp_path: Path) -> None:
    """What the server works on is stored first and deleted then; what is told afterwards stays."""
    with opened(server, tmp_path) as bank:
        server.hold_operations()
        bank.retain("Ana drinks tea.")
        assert bank.flush(timeout=10).done
        threading.Timer(0.3, server.release_operations).start()
        bank.clear(confirm="alice")
        assert server.bank("alice").documents == {}
        bank.retain("Ben drinks milk.")
        assert bank.flush(timeout=10, until="completed").done
        assert list(server.bank("alice").documents.values()) == ["Ben drinks milk."]


async def test_hung_calls_keep_no_write_waiting(server: FaultServer, tmp_path: Path) -> None:
    """Sixteen recalls hang; a retain returns at once."""
    server.fault(Fault(hang=True), path="/recall$")
    bank = opened(server, tmp_path, recall_timeout=5)
    recalls = [asyncio.create_task(bank.arecall("tea?")) for _ in range(16)]
    await asyncio.to_thread(until, lambda: len(server.requests) >= 16)
    receipt = await asyncio.wait_for(bank.aretain("Ana drinks tea."), 1)
    assert len(receipt.queued) == 1
    server.heal()
    await asyncio.gather(*recalls, return_exceptions=True)
    await bank.aclose()


def test_closing_on_a_hung_server_is_bounded_and_loses_nothing(server: FaultServer, tmp_path: Path) -> None:
    """It takes the time that it may take; the next start delivers."""
    server.fault(Fault(hang=True), path=RETAIN, method="POST")
    bank = opened(server, tmp_path, close_timeout=0.3)
    bank.retain("Ana drinks tea.")
    until(lambda: sent(server))
    started = time.monotonic()
    bank.close()
    assert time.monotonic() - started < 3
    server.heal()
    with opened(server, tmp_path) as again:
        assert again.flush(timeout=20, until="completed").done
        assert list(server.bank("alice").documents.values()) == ["Ana drinks tea."]


def test_forgetting_a_memory_leaves_other_writes_of_its_document(server: FaultServer, tmp_path: Path) -> None:
    """A queued append of a document that the caller named says something else."""
    with opened(server, tmp_path) as bank:
        bank.retain("Ana drinks tea.", document_id="day", update_mode="append")
        assert bank.flush(timeout=10, until="completed").done
        server.fault(Fault(status=503), path=RETAIN, method="POST", times=2)
        bank.retain("Ben drinks milk.", document_id="day", update_mode="append")
        [known] = [memory.id for memory in bank.list(types=["world"])]
        assert bank.forget(known).rows == ()
        assert bank.flush(timeout=10, until="completed").done
        assert server.bank("alice").documents == {"day": "Ben drinks milk."}


def test_forgetting_a_queued_write_says_whether_it_was_in_time(server: FaultServer, tmp_path: Path) -> None:
    """One that waits is taken out; one that the server has by then is not, and the receipt says so."""
    with opened(server, tmp_path, company=60) as bank:
        [waits] = bank.retain("Ana drinks tea.").queued
        assert waits.id is not None
        assert bank.forget(waits.id, dry_run=True).rows == (waits.id,)
        gone = bank.forget(waits.id)
        assert (gone.rows, gone.purged) == ((waits.id,), True)
        server.hold_operations()
        [late] = bank.retain("Ben drinks milk.").queued
        assert late.id is not None
        assert bank.flush(timeout=10).done
        threading.Timer(0.3, server.release_operations).start()
        kept = bank.forget(late.id)
        assert (kept.rows, kept.purged) == ((), False)
        assert "delivered already" in (kept.reason or "")
        assert list(server.bank("alice").documents.values()) == ["Ben drinks milk."]
