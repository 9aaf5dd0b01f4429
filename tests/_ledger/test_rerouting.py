"""Rerouting in the ledger: what moves, what stays, and that it is one step."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import text as sql

from lorebank import Item, MissingError, RefusedError
from lorebank._delivery.drafts import draft
from lorebank._delivery.owner import own_name
from lorebank._delivery.rerouting import claims, renaming
from lorebank._domain.outbox import Rerouted
from lorebank._domain.scope import Scope
from lorebank._domain.settings import RetainSettings
from lorebank._ledger import inspection, settling
from lorebank._ledger.claims import Terms, claim_asking, claim_sending
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.rerouting import Move, reroute
from lorebank._ledger.values import Bounds, Claim, Draft, Queued, Route

OLD, NEW = Route("http://old", "key"), Route("http://new", "fresh")
BOUNDS = Bounds(rows=40_000, bytes=1_000_000_000, age=1000.0)
NOW = 1_700_000_000.0
LEASE = 60.0


def written(document: str, text: str, *, bank: str = "alice", append: bool = False) -> Draft:
    body = {"content": text, "document_id": document, "update_mode": "append" if append else "replace"}
    return Draft(bank, document, json.dumps(body), text, True, "same" if append else None, None, not append)


def put(ledger: Ledger, *drafts: Draft, **options: Any) -> list[Queued]:
    return ledger.enqueue(OLD, drafts, BOUNDS, NOW, **options)


def claimed(ledger: Ledger, owner: str = "one", now: float = NOW, route: Route = OLD) -> Claim | None:
    def compose(items: Any, operation: str) -> bytes:
        return json.dumps([operation, *(item["content"] for item in items)]).encode()

    terms = Terms(owner, rows=16, wait=5.0, lease=LEASE, longest=300.0, compose=compose, spoilt=lambda rows: None)
    return ledger.write(lambda c: claim_sending(c, route, terms, now, urgent=True))


def asked(ledger: Ledger) -> Claim | None:
    terms = Terms("one", rows=16, wait=5.0, lease=LEASE, longest=300.0, compose=lambda i, o: b"", spoilt=lambda rows: None)
    return ledger.write(lambda c: claim_asking(c, OLD, terms, NOW, urgent=True))


def moved(ledger: Ledger, ids: list[str] | None = None, *, now: float = NOW, dry_run: bool = False, **fields: Any) -> Rerouted:
    given: dict[str, Any] = {"url": OLD.url, "origin": "alice", "route": NEW, "bank": "alice"} | fields
    move = Move(**given, renamed=renaming(given["bank"]), busy=claims(now, LEASE))

    def body(connection: Any) -> Rerouted:
        places = None if ids is None else inspection.places_of(connection, ids)
        return reroute(connection, move, places, now, dry_run=dry_run)

    return ledger.write(body)


def rows(ledger: Ledger) -> list[tuple[str, str, str, str]]:
    """Route, key, bank and state of each row, in order."""
    return ledger.read(
        lambda c: [tuple(row) for row in c.execute(sql("SELECT route, key, bank, state FROM outbox ORDER BY seq"))]
    )


def test_what_waits_moves_in_its_order(ledger: Ledger) -> None:
    """Held rows stay held; rows of other banks and addresses are left alone; a dry run changes nothing."""
    mine = put(ledger, written("a", "one"), written("a", "two", append=True)) + put(ledger, written("b", "three"), held=True)
    put(ledger, written("c", "four", bank="ben"))
    before = rows(ledger)
    told = moved(ledger, dry_run=True)
    assert (told.ids, told.underway, told.dry_run) == (tuple(row.id for row in mine), (), True)
    assert rows(ledger) == before
    assert moved(ledger).ids == told.ids
    assert [row[:2] for row in rows(ledger)] == [("http://new", "fresh")] * 3 + [("http://old", "key")]
    assert [row[3] for row in rows(ledger)] == ["pending", "pending", "held", "pending"]
    assert moved(ledger) == Rerouted()
    claim = claimed(ledger, route=NEW)
    assert claim is not None
    assert json.loads(claim.body)[1:] == ["one"]


def test_a_sealed_batch_moves_to_the_same_bank_as_it_is(ledger: Ledger) -> None:
    """A server that has a new address knows its operation, and takes it once."""
    put(ledger, written("a", "one", append=True))
    before = claimed(ledger)
    assert before is not None
    ledger.write(lambda c: settling.troubled(c, before, OLD, settling.Trouble("down"), settling.Moment(NOW, 300.0, 0.5)))
    assert len(moved(ledger)) == 1
    after = claimed(ledger, route=NEW)
    assert after is not None
    assert (after.id, after.body, after.rows) == (before.id, before.body, before.rows)
    assert claimed(ledger, now=NOW + 400) is None


def test_a_sealed_batch_is_sealed_anew_for_another_bank(ledger: Ledger) -> None:
    """A server would take its operation for done."""
    put(ledger, written("a", "one", append=True))
    before = claimed(ledger)
    assert before is not None
    ledger.write(lambda c: settling.troubled(c, before, OLD, settling.Trouble("down"), settling.Moment(NOW, 300.0, 0.5)))
    assert len(moved(ledger, bank="ana", route=OLD)) == 1
    after = claimed(ledger, now=NOW + 400)
    assert after is not None
    assert (after.bank, after.id != before.id, json.loads(after.body)[1:]) == ("ana", True, ["one"])


@pytest.mark.parametrize("by_id", [False, True])
def test_what_is_under_way_stays(ledger: Ledger, by_id: bool) -> None:
    """A batch that is being sent, and one that the server took. Named, it is refused, and nothing else moves."""
    [sending] = put(ledger, written("a", "one"))
    assert claimed(ledger, owner=own_name()) is not None
    [waiting] = put(ledger, written("b", "two"))
    if by_id:
        with pytest.raises(RefusedError, match="sealed"):
            moved(ledger, [waiting.id, sending.id])
        assert {row[0] for row in rows(ledger)} == {OLD.url}
    else:
        told = moved(ledger)
        assert (told.ids, told.underway) == ((waiting.id,), (sending.id,))
    assert len(moved(ledger, now=NOW + LEASE + 1)) == (2 if by_id else 1)  # its lease is over


def test_what_the_server_took_stays(ledger: Ledger) -> None:
    """It is there: sent again to another place it would be twice in the world."""
    [row] = put(ledger, written("a", "one"))
    claim = claimed(ledger)
    assert claim is not None
    ledger.write(lambda c: settling.accepted(c, claim, OLD, NOW))
    told = moved(ledger, now=NOW + 1000)
    assert (told.ids, told.underway) == ((), (row.id,))
    assert asked(ledger) is None  # not due yet, but still the old route's
    assert rows(ledger) == [("http://old", "key", "alice", "accepted")]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 warns of threads, which the child does not use
def test_a_claim_of_a_process_that_is_gone_holds_nothing(ledger: Ledger) -> None:
    """Its lease need not be waited for."""
    put(ledger, written("a", "one"))
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    name = own_name().split("|")
    assert claimed(ledger, owner=f"{name[0]}|{child}|{name[2]}") is not None
    assert len(moved(ledger)) == 1


def test_dead_letters_move_by_their_ids_only(ledger: Ledger) -> None:
    """And wait again; an id that is none is told."""
    [row] = put(ledger, written("a", "one"))
    claim = claimed(ledger)
    assert claim is not None
    ledger.write(lambda c: settling.refused(c, claim, (0,), "no such bank", NOW))
    assert moved(ledger) == Rerouted()
    with pytest.raises(MissingError):
        moved(ledger, ["0" * 17])
    assert moved(ledger, [row.id], url=None, origin=None, bank="ana").ids == (row.id,)
    assert rows(ledger) == [("http://new", "fresh", "ana", "pending")]
    entry = ledger.read(lambda c: inspection.entry(c, row.id))
    assert (entry.state, entry.attempts, entry.reason) == ("pending", 0, None)


@pytest.mark.parametrize("fields", [{}, {"timestamp": "2026-03-01T08:00:00+00:00", "context": "travel", "tags": ["x"]}])
def test_what_is_named_after_its_bank_gets_the_name_of_the_new_one(ledger: Ledger, fields: dict[str, Any]) -> None:
    """So that saying it again there changes nothing: the row is what the new bank's would have been."""

    def said(bank: str) -> Draft:
        given = fields | ({"timestamp": datetime.fromisoformat(fields["timestamp"])} if "timestamp" in fields else {})
        return draft(Item("Ana sings.", **given), Scope(bank, (bank,)), RetainSettings(), NOW)

    put(ledger, said("alice"))
    assert len(moved(ledger, bank="ana")) == 1
    [again] = ledger.enqueue(NEW, [said("ana")], BOUNDS, NOW)
    assert again.known is True
    query = sql("SELECT document, body, digest, size FROM outbox")
    [(document, body, digest, size)] = ledger.read(lambda c: c.execute(query).all())
    expected = said("ana")
    assert (document, json.loads(body), digest) == (expected.document, json.loads(expected.body), expected.digest)
    assert size == len(body.encode())


def test_a_session_brings_what_it_knows(ledger: Ledger) -> None:
    """Its cursor goes with its messages; where the session is known already, that one learns which they were."""

    def add(number: int, place: str, known: str) -> None:
        ledger.write(
            lambda c: (
                c.execute(
                    sql("INSERT INTO sessions VALUES (:n, :p, 'alice', '', 's', '{}', 0, 0, 0, 0, NULL, 0, 0, 0, 0, NULL, NULL)"),
                    {"n": number, "p": place},
                ),
                c.execute(sql("INSERT INTO cursors VALUES (:n, :i, NULL, NULL, 1, 0)"), {"n": number, "i": known.encode()}),
            )
        )

    def known(place: str) -> list[bytes]:
        query = sql("SELECT identity FROM cursors c JOIN sessions s ON s.number = c.session WHERE place = :p ORDER BY identity")
        return list(ledger.read(lambda c: c.scalars(query, {"p": place}).all()))

    add(1, OLD.url, "m1")
    put(ledger, Draft("alice", "lorebank:s:0", '{"content": "one"}', "d", True, "f", "s", False))
    moved(ledger)
    assert (known(OLD.url), known(NEW.url)) == ([], [b"m1"])
    add(2, OLD.url, "m2")
    put(ledger, Draft("alice", "lorebank:s:1", '{"content": "two"}', "e", True, "f", "s", False))
    moved(ledger)
    assert known(NEW.url) == [b"m1", b"m2"]


def killed_at(ledger: Ledger, step: int, work: Callable[[], object]) -> bool:
    """Does the work in a process that is killed before the nth line of it; whether it was."""
    ledger.close()
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = step

    def count(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(("rerouting.py", "sqlite.py", "inspection.py")):
            return None
        if event == "line":
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    try:
        sys.settrace(count)
        work()
    finally:
        os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 warns of threads, which the child does not use
def test_killed_between_any_two_lines_all_have_moved_or_none(ledger: Ledger) -> None:
    """No write is lost, none is in two places, and the next try does what is left to do."""
    put(ledger, written("a", "one", append=True))
    claim = claimed(ledger)
    assert claim is not None
    ledger.write(lambda c: settling.troubled(c, claim, OLD, settling.Trouble("down"), settling.Moment(NOW, 300.0, 0.5)))
    put(ledger, written("b", "two"), written("c", "three"))
    there, back = {"bank": "ana"}, {"url": NEW.url, "origin": "ana", "route": OLD, "bank": "alice"}
    seen, step = set[tuple[str, ...]](), 1
    while killed_at(ledger, step, lambda: moved(ledger, **there)):
        places = tuple(f"{row[0]} {row[2]}" for row in rows(ledger))
        assert places in ((f"{OLD.url} alice",) * 3, (f"{NEW.url} ana",) * 3)
        seen.add(places)
        step += 17 if step > 10 else 1
        if places[0].startswith(NEW.url):
            moved(ledger, **back)
    assert step > 60
    assert (f"{OLD.url} alice",) * 3 in seen
    assert [row[2] for row in rows(ledger)] == ["ana"] * 3
    assert ledger.read(lambda c: c.execute(sql("SELECT rows FROM totals")).scalar()) == 3
