"""The outbox and rows that fail by themselves: poison, failing operations, dead letters, what the ledger shows and takes."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hindsight_server import Hindsight
from outbox_rig import RETAIN, Rig, settled, until

from lorebank._domain.events import DeadLettered, IgnoredParameters, KeyTakenOver
from lorebank.errors import MissingError, OutboxFullError
from lorebank.testing import Fault, FaultServer

TEXTS = ["Ana drinks tea.", "Ben drinks milk.", "Cleo drinks water."]


@pytest.fixture
def rig(hindsight: Hindsight, bank_id: str, tmp_path: Path) -> Iterator[Rig]:
    with FaultServer(upstream=hindsight.url) as proxy:
        made = Rig(proxy, hindsight.url, bank_id, tmp_path)
        yield made
        proxy.heal()
        made.close()


def retries(rig: Rig) -> list[str]:
    return [request.path for request in rig.proxy.requests if request.path.endswith("/retry")]


def test_operations_that_fail_later_cost_their_rows_only(rig: Rig) -> None:
    """Accepted, then failed on the server: tried three times there, then row by row. The bad rows are dead with the server's
    reason; good rows of the same batch, appends sent as one and a batch of several operations are there once, in order.
    """
    bank = rig.open(outbox={"batch_seconds": 1, "batch_rows": 7})
    for text in ("Ana drinks tea.", "Ben drinks [llm-error] milk.", "Cleo drinks water."):
        bank.retain(text, document_id="log", update_mode="append")
    journey = ", ".join(f"on day {day} she went on" for day in range(1200))
    large = [f"Number {place} is written, {journey}." for place in range(6)]
    bank.retain([*large, "Dora drinks [llm-error] juice."])
    until(lambda: len(rig.retains) >= 2)
    folded, batch = sorted((request.json() for request in rig.retains[:2]), key=lambda sent: len(sent["items"]))
    assert [len(folded["items"]), len(batch["items"])] == [1, 7]
    until(lambda: bank.operations.get(batch["operation_id"]).state == "failed", 30)
    assert len(rig.children(batch["operation_id"])) > 1
    settled(bank, rig, 90)
    assert bank.outbox.status().rows == {"completed": 8, "dead": 2}
    assert all("Fact extraction failed" in str(entry.reason) for entry in bank.outbox.list(state="dead"))
    assert rig.told == (0, 0, 2)
    assert len(retries(rig)) == 12  # three for each batch, three for each bad row by itself
    held = rig.documents()
    assert held.pop("log") == "Ana drinks tea.\nCleo drinks water."
    assert sorted(text for text in held.values() if "llm-error" not in text) == large
    facts = rig.facts()
    assert [fact for fact in facts if fact.startswith(("Ana", "Cleo"))] == ["Ana drinks tea.", "Cleo drinks water."]
    numbers = [fact for fact in facts if fact.startswith("Number")]
    assert len(numbers) == len(set(numbers))


def test_a_row_that_the_server_names_is_dead_and_the_others_pass(rig: Rig) -> None:
    """A 422 that names one item costs that row alone; the rest is sent anew, with another operation id."""
    named = {"detail": [{"type": "value_error", "loc": ["body", "items", 1, "content"], "msg": "no", "input": "Ben"}]}
    rig.proxy.fault(Fault(status=422, body=json.dumps(named).encode()), path=RETAIN, method="POST", times=1)
    bank = rig.open()
    receipt = bank.retain(TEXTS)
    assert bank.flush(timeout=20, until="completed").dead == 1
    assert [entry.id for entry in bank.outbox.list(state="dead")] == [receipt.queued[1].id]
    assert rig.texts() == ["Ana drinks tea.", "Cleo drinks water."]
    first, second = (request.json() for request in rig.retains)
    assert first["operation_id"] != second["operation_id"]
    assert [item["content"] for item in second["items"]] == ["Ana drinks tea.", "Cleo drinks water."]
    [event] = rig.of(DeadLettered)
    assert "Ben" not in event.reason


@pytest.fixture
def poisoned(hindsight: Hindsight, tmp_path: Path, bank_id: str) -> Iterator[tuple[Rig, Rig]]:
    """Two banks of one ledger; the server fails by itself for the first one only."""
    with FaultServer(upstream=hindsight.url) as proxy:
        bad, good = Rig(proxy, hindsight.url, f"{bank_id}-bad", tmp_path), Rig(proxy, hindsight.url, bank_id, tmp_path)
        proxy.fault(Fault(status=500), path=f"{bad.name}/memories$", method="POST")
        yield bad, good
        proxy.heal()
        bad.close()
        good.close()


def test_a_row_that_breaks_the_server_is_dead_after_five_times_while_others_pass(poisoned: tuple[Rig, Rig]) -> None:
    """A 5xx for one batch only: the others are not held up, and it is given up at the fifth time."""
    bad, good = poisoned
    wrong, right = bad.open(), good.open()
    wrong.retain("Dora drinks juice.")
    until(lambda: bad.retains)
    for place in range(20):
        right.retain(f"Number {place:02} is written.", document_id=f"{place:02}")
    until(lambda: wrong.outbox.status().rows == {"dead": 1}, 40)
    assert right.flush(timeout=20, until="completed").done
    assert good.texts() == [f"Number {place:02} is written." for place in range(20)]
    tries = [request for request in bad.retains if f"/{bad.name}/" in request.path]
    assert len(tries) >= 5
    assert len({request.body for request in tries}) == 1


SENDING = """
import sys, time
from lorebank import open_bank
bank = open_bank(sys.argv[1], bank=sys.argv[2], ledger=sys.argv[3], outbox={"batch_seconds": 0.02, "max_backoff": 0.2})
bank.retain(["Ana drinks tea.", "Ben drinks milk."])
bank.retain("Cleo drinks water.", document_id="log", update_mode="append")
time.sleep(60)
"""


def test_an_operation_id_never_stands_for_other_rows(rig: Rig) -> None:
    """Over a kill, another start, a death and a requeue: the same id is the same bytes, each row has its effect once."""
    rig.proxy.fault(Fault(cut=True), path=RETAIN, method="POST")
    command = [sys.executable, "-c", SENDING, rig.proxy.url, rig.name, rig.ledger]
    with subprocess.Popen(command) as writer:
        until(lambda: len(rig.retains) >= 2)
        writer.kill()
    bank = rig.open()
    bank.retain("Dora drinks juice.")
    rig.proxy.heal()
    rig.proxy.fault(Fault(status=422), path=RETAIN, method="POST", times=1)
    bank.flush(timeout=20, until="completed")
    bank.outbox.requeue()
    assert bank.flush(timeout=20, until="completed").done
    assert bank.outbox.status().rows == {"completed": 4}
    assert rig.texts() == [*TEXTS, "Dora drinks juice."]
    assert rig.facts() == [*TEXTS, "Dora drinks juice."]
    bodies: dict[str, set[bytes]] = {}
    for request in rig.retains:
        bodies.setdefault(request.json()["operation_id"], set()).add(request.body)
    assert all(len(each) == 1 for each in bodies.values())


def test_dead_letters_are_listed_requeued_and_purged_by_id(rig: Rig) -> None:
    """One comes back, one goes for good, one stays; an id that is no row's is an error."""
    rig.proxy.fault(Fault(status=422), path=RETAIN, method="POST", times=3)
    bank = rig.open()
    for text in TEXTS:
        bank.retain(text, document_id=text[:3])
    until(lambda: bank.outbox.status().rows == {"dead": 3})
    again, gone, stays = (entry.id for entry in bank.outbox.list(state="dead"))
    assert bank.outbox.get(gone).document_id == "Ben"
    assert (bank.outbox.requeue([again]), bank.outbox.purge([gone])) == (1, 1)
    assert bank.flush(timeout=20, until="completed").dead == 1
    assert [entry.id for entry in bank.outbox.list()] == [stays]
    assert rig.documents() == {"Ana": "Ana drinks tea."}
    with pytest.raises(MissingError):
        bank.outbox.get(gone)


def test_a_full_outbox_refuses_the_whole_call(rig: Rig) -> None:
    """Nothing of a call that does not fit is written; what fits arrives, and delivered rows make room."""
    rig.proxy.stop()
    bank = rig.open(outbox={"max_rows": 3})
    bank.retain(TEXTS[:2])
    with pytest.raises(OutboxFullError, match="nothing of this call"):
        bank.retain(["Dora drinks juice.", "Eve drinks gin."])
    assert bank.outbox.status().waiting == 2
    rig.proxy.start()
    assert bank.flush(timeout=20, until="completed").done
    bank.retain(TEXTS[2])
    assert bank.flush(timeout=20, until="completed").done
    assert rig.texts() == TEXTS


def test_the_ledger_is_its_owners_alone(rig: Rig) -> None:
    """Files are 0600 while they are written and afterwards."""
    bank = rig.open()
    bank.retain(TEXTS)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in rig.file.parent.glob("outbox.db*")}
    assert set(modes.values()) == {0o600}
    assert "outbox.db-wal" in modes
    assert bank.flush(timeout=20, until="completed").done


def test_what_a_server_ignores_is_told(rig: Rig) -> None:
    """`x-ignored-params` on the answer to a retain is an event of the bank, and no failure."""
    rig.proxy.fault(Fault(headers={"x-ignored-params": "observation_scopes, entities"}), path=RETAIN, method="POST", times=1)
    bank = rig.open()
    bank.retain(TEXTS)
    assert bank.flush(timeout=20, until="completed").done
    assert rig.of(IgnoredParameters) == [IgnoredParameters(rig.name, ("observation_scopes", "entities"))]
    assert rig.texts() == TEXTS


def test_without_durability_nothing_stays_and_nothing_is_lost_while_it_runs(rig: Rig) -> None:
    """`durable=False` has no ledger at its place; an outage is survived as long as the process lives."""
    bank = rig.open(outbox={"durable": False})
    rig.proxy.stop()
    bank.retain(TEXTS)
    bank.flush(timeout=0.3)
    rig.proxy.start()
    assert bank.flush(timeout=20, until="completed").done
    assert rig.texts() == TEXTS
    bank.close()
    assert not rig.file.exists()


def test_rows_of_a_refused_key_are_sent_with_a_new_one(hindsight_auth: Hindsight, tmp_path: Path) -> None:
    """A key the server refuses loses nothing: the next start with a key that works takes the rows over, and says so."""
    name = f"test-{tmp_path.name}-keys"
    with FaultServer(upstream=hindsight_auth.url) as proxy:
        rig = Rig(proxy, hindsight_auth.url, name, tmp_path, key=hindsight_auth.api_key)
        old = rig.open(api_key="revoked-key-1")
        old.retain(TEXTS)
        old.retain("Dora drinks juice.", document_id="log", update_mode="append")
        report = old.flush(timeout=1)
        assert (report.left, report.dead, "API key" in str(report.reason)) == (4, 0, True)
        old.close()
        sealed = {request.json()["operation_id"]: request.body for request in rig.retains}
        new = rig.open()
        new.health()
        until(lambda: new.outbox.status().rows == {"completed": 4})
        assert rig.of(KeyTakenOver) == [KeyTakenOver(name, 4)]
        assert rig.texts() == [*TEXTS, "Dora drinks juice."]
        assert all(sealed.get(each.json()["operation_id"], each.body) == each.body for each in rig.retains)
        new.clear(confirm=name)
        rig.close()
