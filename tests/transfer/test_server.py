"""Export and import on a Hindsight server: what it tells is in the file, what it is told goes through the outbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Memory, OutboxFullError, UnavailableError, open_bank
from lorebank.testing import Fault, FaultServer

DAY = datetime(2026, 3, 1, 8, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def place(server: FaultServer, tmp_path: Path) -> dict[str, Any]:
    """What opens a bank on the server."""
    return {"url": server.url, "ledger": f"sqlite:///{tmp_path / 'outbox.db'}", "outbox": {"batch_seconds": 0.02}}


@pytest.fixture
def served(place: dict[str, Any]) -> Iterator[Bank]:
    """The bank `alice` on the server."""
    with open_bank(bank="alice", **place) as bank:
        yield bank


def settle(bank: Bank) -> None:
    assert bank.flush(timeout=30, until="completed").done


def facts(bank: Bank) -> tuple[Memory, ...]:
    """What was told, without what the server concludes from it."""
    return bank.list(types=("world", "experience"), limit=1000)


def texts(bank: Bank) -> list[str]:
    return sorted(memory.text for memory in facts(bank))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_from_laptop_to_server(told: Bank, served: Bank, server: FaultServer, path: Path) -> None:
    """What is true goes, with its tags, context, time, session and document; the receipt says queued."""
    told.export(path)
    report = served.import_(path)
    assert (report.added, report.queued, report.rejected, report.mental_models) == (0, 9, 1, 1)
    assert report.reasons[0].reason.startswith("no longer true")
    settle(served)
    documents = server.bank("alice").documents
    assert sorted(documents.values()) == sorted(memory.text for memory in told.list(limit=100))
    late = next(memory for memory in facts(served) if "late" in memory.text)
    assert (late.session, late.mentioned_at, late.metadata) == ("s1", DAY, {"document_id": "trips"})
    seats = next(memory for memory in facts(served) if "aisle" in memory.text)
    assert (seats.tags, seats.metadata) == (("trip",), {"turn": "3", "seen": "[1.5,null]"})
    assert served.mental_models.get("home").source_query == "Where does Ana live?"


def test_sending_again_doubles_nothing(told: Bank, served: Bank, server: FaultServer, path: Path) -> None:
    """Neither while the first writes wait, nor when they have arrived; what was retained by hand before is the same, too."""
    served.retain("Ana lives in Bern.")
    settle(served)
    told.export(path)
    server.stop()
    assert served.import_(path).queued == 9
    again = served.import_(path)
    assert (again.queued, again.known) == (0, 9)
    server.start()
    settle(served)
    known = dict(server.bank("alice").documents)
    assert len(known) == 9
    served.import_(path)
    settle(served)
    assert server.bank("alice").documents == known


def test_memories_share_batches(told: Bank, served: Bank, server: FaultServer, path: Path) -> None:
    """An import of many memories is not as many requests."""
    told.export(path)
    served.import_(path)
    settle(served)
    writes = [request for request in server.requests if request.method == "POST" and request.path.endswith("/memories")]
    assert len(writes) == 1


def test_a_server_that_is_away_keeps_nobody_waiting(told: Bank, served: Bank, server: FaultServer, path: Path) -> None:
    """The memories are queued; the mental model, which only the server can make, is rejected with the reason."""
    told.export(path)
    server.stop()
    report = served.import_(path)
    assert (report.queued, report.mental_models, report.rejected) == (9, 0, 2)
    assert {each.id for each in report.reasons} >= {"home"}
    server.start()
    settle(served)
    assert len(server.bank("alice").documents) == 9
    assert served.import_(path).mental_models == 1


def test_a_servers_bank_in_a_file(served: Bank, server: FaultServer, other: Bank, path: Path) -> None:
    """Memories oldest first, documents, mental models, directives; Mnemopi takes what it can keep."""
    for day, text in ((3, "Ana sings."), (1, "Ana lives in Oslo."), (2, "Ana lives in Bern.")):
        served.retain(text, timestamp=DAY.replace(day=day), session="s1", tags=["life"], document_id=f"d{day}", context="home")
    settle(served)
    old = next(memory for memory in facts(served) if "Oslo" in memory.text)
    served.invalidate(old.id)
    served.mental_models.create("home", name="Home", source_query="Where does Ana live?")
    served.directives.create("Polite", content="Be polite.", active=False)
    report = served.export(path)
    assert (report.documents, report.mental_models, report.directives) == (3, 1, 1)
    records = lines(path)
    assert records[0]["backend"] == "hindsight"
    said = [each for each in records if each["kind"] == "memory" and each["type"] != "observation"]
    assert [each["content"] for each in said] == ["Ana lives in Oslo.", "Ana lives in Bern.", "Ana sings."]
    assert ("invalidated_at" in said[0], "invalidated_at" in said[1]) == (True, False)
    assert [each["inactive"] for each in records if each["kind"] == "directive"] == [True]
    loaded = other.import_(path)
    assert (loaded.added, loaded.mental_models, loaded.rejected) == (report.memories, 1, 1)
    assert "no directives" in loaded.reasons[0].reason
    assert [memory.text for memory in other.list(types=("world",), session="s1")] == ["Ana sings.", "Ana lives in Bern."]
    assert other.get(old.id).invalidated_at is not None
    again = path.with_name("again.jsonl")
    served.export(again)
    assert other.import_(again).added == 0


def test_from_server_to_server(served: Bank, place: dict[str, Any], path: Path) -> None:
    """Facts are told, directives made once; observations are the other server's own to draw."""
    served.retain(["Ana sings.", "Ana lives in Oslo."])
    settle(served)
    served.directives.create("Polite", content="Be polite.")
    served.export(path)
    with open_bank(bank="bob", **place) as bob:
        report = bob.import_(path)
        observations = sum(each.get("type") == "observation" for each in lines(path))
        assert (report.queued, report.directives, report.rejected) == (2, 1, observations)
        settle(bob)
        assert texts(bob) == texts(served)
        assert bob.import_(path).directives == 0
        assert [each.name for each in bob.directives.list()] == ["Polite"]


def test_a_project_sees_and_gives_only_its_own(place: dict[str, Any], told: Bank, path: Path) -> None:
    """A scope that is a tag: what it may not read is not exported, and what it imports carries its tag."""
    with open_bank(bank="alice", project="Atlas", **place) as atlas, open_bank(bank="alice", project="Zeus", **place) as zeus:
        atlas.retain("Ana builds Atlas.")
        zeus.retain("Ana builds Zeus.")
        settle(atlas)
        settle(zeus)
        atlas.export(path)
        assert "Zeus" not in path.read_text(encoding="utf-8")
        told.export(path, overwrite=True)
        atlas.import_(path)
        settle(atlas)
        assert "project:atlas" in next(memory.tags for memory in facts(atlas) if "Bern" in memory.text)
        assert texts(zeus) == ["Ana builds Zeus."]


def test_a_dry_run_asks_and_tells_the_server_nothing(told: Bank, served: Bank, server: FaultServer, path: Path) -> None:
    """The numbers are those of an import into an empty bank."""
    told.export(path)
    asked = len(server.requests)
    report = served.import_(path, dry_run=True)
    assert (report.queued, report.rejected, report.mental_models, report.dry_run) == (9, 1, 1, True)
    assert len(server.requests) == asked
    assert served.outbox.list() == ()


def test_an_export_that_fails_leaves_no_file(served: Bank, server: FaultServer, path: Path) -> None:
    """A server that fails in the middle is no bank with less in it."""
    served.retain(["Ana sings.", "Ana lives in Oslo."])
    settle(served)
    server.fault(Fault(status=503), path="/documents$")
    with pytest.raises(UnavailableError):
        served.export(path)
    assert not path.exists()
    assert not list(path.parent.glob(".memories*"))


def test_an_outbox_that_stays_full_says_so(
    told: Bank, server: FaultServer, place: dict[str, Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing again, once there is room, tells the rest."""
    monkeypatch.setattr("lorebank._delivery.archive.PATIENCE", 0.1)
    told.export(path)
    server.stop()
    few = {**place, "outbox": {"batch_seconds": 0.02, "max_rows": 4}}
    with open_bank(bank="alice", **few) as small, pytest.raises(OutboxFullError):
        small.import_(path)
    server.start()
    with open_bank(bank="alice", **place) as roomy:
        roomy.import_(path)
        settle(roomy)
    assert len(server.bank("alice").documents) == 9


def test_chats_go_to_a_server_too(served: Bank, server: FaultServer, tmp_path: Path) -> None:
    """Message by message, the same words as often as they were said; a second import doubles nothing."""
    chat = [{"role": "user", "content": text} for text in ("My name is Ana.", "ok", "ok")]
    file = tmp_path / "thread.json"
    file.write_text(json.dumps(chat), encoding="utf-8")
    for _ in range(2):
        assert served.import_(file).queued == 3
        settle(served)
        assert sorted(server.bank("alice").documents.values()) == ["My name is Ana.", "ok", "ok"]
