"""The outbox and a server that goes away or answers badly: nothing is lost, nothing is doubled; row by row on the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hindsight_server import Hindsight, OwnHindsight
from outbox_rig import RETAIN, Rig, until

from lorebank._domain.events import DeadLettered, OutageEnded, OutageStarted
from lorebank.testing import Fault, FaultServer

TEXTS = ["Ana drinks tea.", "Ben drinks milk.", "Cleo drinks water."]


@pytest.fixture
def rig(hindsight: Hindsight, bank_id: str, tmp_path: Path) -> Iterator[Rig]:
    with FaultServer(upstream=hindsight.url) as proxy:
        made = Rig(proxy, hindsight.url, bank_id, tmp_path)
        yield made
        proxy.heal()
        made.close()


def test_a_server_that_is_down_at_the_start_gets_everything_later(rig: Rig) -> None:
    """Writes are taken though nobody answers, the outage is told once, and all of them arrive when the server is up."""
    rig.proxy.stop()
    bank = rig.open()
    bank.retain(TEXTS)
    bank.retain("Dora drinks juice.", document_id="log", update_mode="append")
    report = bank.flush(timeout=1)
    assert (report.left, bool(report.reason), rig.texts()) == (4, True, [])
    rig.proxy.start()
    assert bank.flush(timeout=20, until="completed").done
    assert rig.texts() == [*TEXTS, "Dora drinks juice."]
    assert rig.told == (1, 1, 0)


def test_a_server_that_goes_down_among_batches_loses_none(rig: Rig) -> None:
    """Some batches are there, the rest waits and follows by itself; no text is there twice."""
    bank = rig.open(outbox={"batch_rows": 4})
    texts = [f"Number {place:02} is written." for place in range(32)]
    bank.retain(texts)
    until(lambda: len(rig.retains) >= 2)
    rig.proxy.stop()
    until(lambda: rig.of(OutageStarted))
    assert 0 < bank.outbox.status().waiting <= 32
    rig.proxy.start()
    until(lambda: bank.outbox.status().rows == {"completed": 32})
    assert rig.texts() == texts
    assert (len(rig.of(OutageStarted)), len(rig.of(OutageEnded))) == (1, 1)


def test_a_server_that_is_killed_and_comes_back_has_each_write_once(own_hindsight: OwnHindsight, tmp_path: Path) -> None:
    """A real server dies by SIGKILL with operations in it; started again it holds every write, appends once and in order."""
    name = f"test-{time.time_ns()}"
    with FaultServer(upstream=own_hindsight.url) as proxy:
        rig = Rig(proxy, own_hindsight.url, name, tmp_path)
        bank = rig.open(outbox={"batch_rows": 4})
        for place in range(8):
            bank.retain(f"Line {place} is said.", document_id="log", update_mode="append")
            bank.retain(f"Number {place} is written.")
        until(lambda: len(rig.retains) >= 2)
        own_hindsight.kill()
        bank.retain("Number 8 is written.")
        bank.flush(timeout=0.5)
        own_hindsight.start()
        assert bank.flush(timeout=60, until="completed").done
        held = rig.documents()
        lines = held.pop("log").split("\n")
        assert lines == [f"Line {place} is said." for place in range(8)]
        assert sorted(held.values()) == [f"Number {place} is written." for place in range(9)]
        bank.clear(confirm=name)
        rig.close()


WAITING = {
    "408": Fault(status=408),
    "429": Fault(status=429),
    "500": Fault(status=500),
    "502": Fault(status=502),
    "503": Fault(status=503),
    "401": Fault(status=401),
    "403": Fault(status=403),
    "a proxy's 404": Fault(status=404, body=b"<html>no such host</html>", content_type="text/html"),
    "a framework's 404": Fault(status=404, body=b'{"detail": "Not Found"}'),
    "a redirect": Fault(status=302, headers={"location": "http://127.0.0.1:1/login"}, body=b""),
    "HTML": Fault(body=b"<html>log in</html>", content_type="text/html"),
    "nothing": Fault(body=b""),
    "an empty object": Fault(body=b"{}"),
    "a list": Fault(body=b"[]"),
    "another shape": Fault(body=b'{"success": true, "operation_id": 7, "items_count": "x"}'),
    "no UTF-8": Fault(body=b'{"operation_id": "\xff"}'),
    "half of it": Fault(cut_after=20),
}


def test_what_may_pass_by_itself_kills_no_row(rig: Rig) -> None:
    """One batch meets every such answer, one after the other: it waits, is sent again as it was, and has effect once."""
    for fault in WAITING.values():
        rig.proxy.fault(fault, path=RETAIN, method="POST", times=1)
    rig.proxy.fault(Fault(status=401), path=RETAIN, method="POST")
    bank = rig.open(outbox={"max_backoff": 0.1})
    bank.retain(TEXTS)
    until(lambda: len(rig.retains) > len(WAITING) + 1)
    status = bank.outbox.status()
    assert (status.waiting, status.lost, "API key" in str(status.reason)) == (3, 0, True)
    rig.proxy.heal()
    until(lambda: bank.outbox.status().rows == {"completed": 3})
    assert rig.texts() == TEXTS
    assert rig.told == (1, 1, 0)
    assert len({request.body for request in rig.retains}) == 1


DEAD = (404, 409, 410, 422, 400, 413)


def test_what_the_server_refuses_for_good_is_dead_and_comes_back_on_request(rig: Rig) -> None:
    """Each such answer kills its row at once, with the reason, told once; later writes pass; requeued rows arrive."""
    for status in DEAD:
        rig.proxy.fault(Fault(status=status), path=RETAIN, method="POST", times=1)
    bank = rig.open()
    for status in DEAD:
        bank.retain(f"Ana says {status}.", document_id=f"document {status}")
    until(lambda: bank.outbox.status().rows == {"dead": len(DEAD)})
    assert rig.told == (0, 0, len(DEAD))
    assert all(f"{status}" in str(entry.reason) for status, entry in zip(DEAD, bank.outbox.list(state="dead"), strict=True))
    bank.retain("Dora drinks juice.")
    assert bank.flush(timeout=20, until="completed").dead == len(DEAD)
    assert rig.texts() == ["Dora drinks juice."]
    assert bank.outbox.requeue() == len(DEAD)
    report = bank.flush(timeout=20, until="completed")
    assert (report.done, report.dead) == (True, 0)
    assert rig.texts() == sorted([*(f"Ana says {status}." for status in DEAD), "Dora drinks juice."])


def test_a_refusal_without_a_place_is_narrowed_down(rig: Rig) -> None:
    """A batch that is refused as a whole is halved until each row has been refused by itself."""
    rig.proxy.fault(Fault(status=422), path=RETAIN, method="POST")
    bank = rig.open()
    bank.retain(TEXTS)
    until(lambda: bank.outbox.status().rows == {"dead": 3})
    assert [len(request.json()["items"]) for request in rig.retains] == [3, 1, 2, 1, 1]


@pytest.mark.parametrize("status", [429, 503])
def test_the_pause_a_server_asks_for_is_kept(rig: Rig, status: int) -> None:
    """Nobody asks before it is over, though somebody flushes; then the same bytes are sent."""
    rig.proxy.fault(Fault(status=status, retry_after=1), path=RETAIN, method="POST", times=1)
    bank = rig.open(outbox={"max_backoff": 30})
    bank.retain(TEXTS)
    assert bank.flush(timeout=20, until="completed").done
    first, second = rig.retains
    assert second.at - first.at >= 0.99
    assert first.body == second.body
    assert rig.texts() == TEXTS


LATE = {
    "stalls half-way": Fault(stall_after=20),
    "never answers": Fault(hang=True),
    "drips": Fault(drip=0.1),
    "drips its head": Fault(drip=0.1, drip_headers=True),
    "never ends": Fault(endless=True),
}


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_an_answer_that_never_gets_whole_is_given_up_in_time(rig: Rig, mode: str) -> None:
    """The deadline of the whole call holds, the same bytes are sent again, and the write has had effect once."""
    for fault in LATE.values():
        rig.proxy.fault(fault, path=RETAIN, method="POST", times=1)
    bank = rig.open(connection={"retain_timeout": 0.4, "timeout": 5})
    bank.retain("Ana drinks tea.", document_id="log", update_mode=mode)
    until(lambda: len(rig.retains) > len(LATE))
    assert bank.flush(timeout=20, until="completed").done
    assert rig.documents() == {"log": "Ana drinks tea."}
    assert rig.facts() == ["Ana drinks tea."]
    assert len({request.body for request in rig.retains}) == 1
    times = [request.at for request in rig.retains]
    assert max(after - before for before, after in pairwise(times)) < 3


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_connection_cut_after_the_request_was_taken_doubles_nothing(rig: Rig, mode: str) -> None:
    """The server has it and nobody knows: it is sent again with the same operation id, and counts once."""
    rig.proxy.fault(Fault(cut=True), path=RETAIN, method="POST", times=3)
    bank = rig.open()
    for text in TEXTS:
        bank.retain(text, document_id=None if mode == "replace" else "log", update_mode=None if mode == "replace" else "append")
    assert bank.flush(timeout=20, until="completed").done
    expected = TEXTS if mode == "replace" else ["\n".join(TEXTS)]
    assert rig.texts() == expected
    assert rig.facts() == TEXTS
    assert len(rig.retains) >= 4


def test_what_is_told_is_told_once_and_without_content(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """One outage, its end, one dead letter: one event each; no text, no key, in events, logs, errors or the inspection."""
    caplog.set_level("DEBUG")
    secret, key = "Zanzibar", "sk-live-8c1f2e3d4a5b6c7d"
    rig.proxy.fault(Fault(status=500), path=RETAIN, method="POST", times=4)
    bank = rig.open(api_key=key)
    bank.retain([f"{secret} is where Ana goes.", f"{secret} is where Ben goes."])
    until(lambda: bank.outbox.status().rows == {"completed": 2})
    rig.proxy.fault(Fault(status=422), path=RETAIN, method="POST", times=1)
    bank.retain(f"{secret} is where Cleo goes.")
    assert bank.flush(timeout=20).dead == 1
    rig.proxy.stop()
    bank.retain(f"{secret} is where Dora goes.")
    report = bank.flush(timeout=0.3)
    with pytest.raises(Exception, match=r"reached|answer") as raised:
        bank.forget(document="x")
    rig.proxy.start()
    assert bank.flush(timeout=20, until="completed").dead == 1
    assert [type(event) for event in rig.events if isinstance(event, OutageStarted | OutageEnded | DeadLettered)] == [
        OutageStarted, OutageEnded, DeadLettered, OutageStarted, OutageEnded
    ]  # fmt: skip
    shown = [rig.events, bank.outbox.list(), bank.outbox.list(state="completed"), bank.outbox.status(), report, raised.value]
    everything = repr(shown) + str(raised.value) + caplog.text + repr(bank)
    assert secret not in everything
    assert key not in everything
