"""The ledger: what it takes, who may work on what, what a person sees and does. Times are passed in."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from lorebank import MissingError, OutboxFullError
from lorebank._delivery.owner import is_gone, own_name
from lorebank._ledger import inspection, settling
from lorebank._ledger.claims import HEADS, Terms, claim_asking, claim_sending, next_due
from lorebank._ledger.ledger import Ledger, expire, foreign, free_leases, left, release, take_over
from lorebank._ledger.values import Bounds, Claim, Draft, Moment, Queued, Route, Trouble

ROUTE, OTHER_KEY = Route("http://server", "key"), Route("http://server", "other")
BOUNDS = Bounds(rows=40_000, bytes=1_000_000_000, age=1000.0)
NOW = 1_700_000_000.0
CONTENT = "the cello is under the stairs"


def written(document: str, text: str, *, append: bool = False) -> Draft:
    body = {"content": text, "document_id": document, "update_mode": "append" if append else "replace"}
    solo = not document.startswith("lorebank:item:")
    return Draft("alice", document, json.dumps(body), text, solo, "same" if append else None, None, not append)


def terms(owner: str = "one", spoilt: Callable[[Sequence[str]], None] = lambda rows: None) -> Terms:
    def compose(items: Sequence[dict[str, Any]], operation: str) -> bytes:
        return json.dumps([item["content"] for item in items]).encode()

    return Terms(owner, rows=16, wait=5.0, lease=60.0, longest=300.0, compose=compose, spoilt=spoilt)


def put(ledger: Ledger, *drafts: Draft, now: float = NOW, route: Route = ROUTE, **options: Any) -> list[Queued]:
    return ledger.enqueue(route, drafts, BOUNDS, now, **options)


def claimed(ledger: Ledger, owner: str = "one", now: float = NOW, route: Route = ROUTE) -> Claim | None:
    return ledger.write(lambda c: claim_sending(c, route, terms(owner), now, urgent=True))


def must(claim: Claim | None) -> Claim:
    assert claim is not None
    return claim


def texts(claim: Claim | None) -> list[str]:
    return [] if claim is None else json.loads(claim.body)


def killed(ledger: Ledger, *drafts: Draft, now: float = NOW) -> list[str]:
    """Writes that the server refuses for good: their ids."""
    rows = put(ledger, *drafts, now=now)
    while (claim := claimed(ledger, now=now)) is not None:
        ledger.write(lambda c, claim=claim: settling.refused(c, claim, range(16), "no", now))  # type: ignore[misc]
    return [row.id for row in rows]


def delivered(ledger: Ledger, *drafts: Draft, now: float = NOW) -> None:
    put(ledger, *drafts, now=now)
    while (claim := claimed(ledger, now=now)) is not None:
        ledger.write(lambda c, claim=claim: settling.accepted(c, claim, ROUTE, now))  # type: ignore[misc]
        ledger.write(lambda c, claim=claim: settling.completed(c, claim, ROUTE, now, (1, 9)))  # type: ignore[misc]


def states(ledger: Ledger) -> dict[str, int]:
    return dict(ledger.read(lambda c: inspection.status(c, ROUTE, None)).rows)


@pytest.mark.parametrize("bounds", [Bounds(3, 10_000, 1.0), Bounds(100, 200, 1.0)])
def test_what_does_not_fit_is_refused_as_a_whole(ledger: Ledger, bounds: Bounds) -> None:
    """Neither rows nor bytes pass the bound, and of the call that would have nothing is queued."""
    ledger.enqueue(ROUTE, [written("a", "one"), written("b", "two")], bounds, NOW)
    with pytest.raises(OutboxFullError):
        ledger.enqueue(ROUTE, [written("c", "three"), written("d", "four")], bounds, NOW)
    assert states(ledger) == {"pending": 2}
    assert ledger.read(lambda c: c.execute(sql("SELECT rows FROM totals")).scalar()) == 2


def test_what_was_delivered_makes_room(ledger: Ledger) -> None:
    """Only undelivered rows count."""
    delivered(ledger, *[written(f"d{n}", "x") for n in range(3)])
    assert len(ledger.enqueue(ROUTE, [written("e", "y")], Bounds(1, 10_000, 1.0), NOW)) == 1


def test_the_same_write_is_queued_once_while_it_is_the_newest(ledger: Ledger) -> None:
    """Said again at once it is known; once something else was said of the document it is a new write."""
    [first] = put(ledger, written("a", "tea"))
    assert put(ledger, written("a", "tea")) == [Queued(first.id, known=True)]
    put(ledger, written("a", "coffee"))
    assert not put(ledger, written("a", "tea"))[0].known


def test_appends_are_never_duplicates(ledger: Ledger) -> None:
    """Two messages with the same words are two."""
    put(ledger, written("a", "yes", append=True), written("a", "yes", append=True))
    assert texts(claimed(ledger)) == ["yes\nyes"]


def test_held_rows_wait_for_their_release(ledger: Ledger) -> None:
    """They are not sent, they block what comes later for their document, and let go they are."""
    put(ledger, written("a", "first"), held=True)
    put(ledger, written("a", "second"))
    assert claimed(ledger) is None
    assert ledger.write(lambda c: release(c, ROUTE)) == 2
    assert texts(claimed(ledger)) == ["first"]


def test_items_go_together_and_documents_by_themselves(ledger: Ledger) -> None:
    """Up to sixteen items are one batch, however documents lie between them."""
    put(ledger, *[written(f"lorebank:item:{n}", f"i{n}") for n in range(17)], written("a", "doc"))
    assert [texts(claimed(ledger, str(n))) for n in range(4)] == [[f"i{n}" for n in range(16)], ["i16"], ["doc"], []]


def test_a_row_that_cannot_be_read_is_set_aside(ledger: Ledger) -> None:
    """It is `malformed` and told of; the rest of its batch is sent."""
    bad, _ = put(ledger, written("lorebank:item:1", "bad"), written("lorebank:item:2", "good"))
    ledger.write(lambda c: c.execute(sql("UPDATE outbox SET body = '{' WHERE seq = 1")))
    told: list[str] = []
    claim = ledger.write(lambda c: claim_sending(c, ROUTE, terms(spoilt=told.extend), NOW, urgent=True))
    assert (texts(claim), told, states(ledger)) == (["good"], [bad.id], {"malformed": 1, "sealed": 1})


def test_one_works_on_a_batch_until_the_lease_is_over(ledger: Ledger) -> None:
    """Another sender gets it, unchanged, only after the lease."""
    put(ledger, written("a", "tea"))
    first = must(claimed(ledger, "one"))
    assert claimed(ledger, "two", NOW + 59) is None
    again = must(claimed(ledger, "two", NOW + 61))
    assert (again.id, again.body) == (first.id, first.body)


def test_claims_of_dead_processes_are_freed(ledger: Ledger) -> None:
    """A process that has ended holds nothing; one that lives, or whose name says nothing, keeps its lease."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    node, _, part = own_name().split("|")
    owners = [f"{node}|{ended.pid}|{part}", own_name(), "elsewhere|1|x", "garbage"]
    put(ledger, *[written(f"d{n}", "x") for n in range(4)])
    for owner in owners:
        claimed(ledger, owner)
    assert ledger.write(lambda c: free_leases(c, is_gone)) == 1
    assert must(claimed(ledger, "new")).rows == (1,)


def test_a_clock_that_was_set_back_stops_nothing(ledger: Ledger) -> None:
    """An hour back: leases, waits and dues that lie beyond any wait have come."""
    put(ledger, written("a", "leased"), written("lorebank:item:1", "waits"))
    claimed(ledger, "gone")
    earlier = NOW - 3600
    assert ledger.read(lambda c: next_due(c, ROUTE, terms(), earlier)) == 0
    leased = ledger.write(lambda c: claim_sending(c, ROUTE, terms(), earlier, urgent=False))
    ledger.write(lambda c: settling.accepted(c, must(leased), ROUTE, NOW))
    asked = ledger.write(lambda c: claim_asking(c, ROUTE, terms(), earlier, urgent=False))
    other = ledger.write(lambda c: claim_sending(c, ROUTE, terms(), earlier, urgent=False))
    assert (texts(leased), texts(asked), texts(other)) == (["leased"], ["leased"], ["waits"])


def test_the_next_thing_due_is_known(ledger: Ledger) -> None:
    """Nothing; a row's company; a batch that somebody else holds; an operation."""

    def soon(now: float = NOW) -> float | None:
        return ledger.read(lambda c: next_due(c, ROUTE, terms("two"), now))

    assert soon() is None
    put(ledger, written("a", "x"))
    assert soon(NOW + 2) == 3
    claim = must(claimed(ledger))
    assert soon(NOW + 2) == 58
    ledger.write(lambda c: settling.accepted(c, claim, ROUTE, NOW))
    assert soon() == pytest.approx(settling.FIRST_POLL)


def test_looking_never_shows_content(ledger: Ledger) -> None:
    """Ids, states and counts; no word of what was written."""
    killed(ledger, written("a", CONTENT))
    put(ledger, written("b", CONTENT))
    entries = ledger.read(lambda c: inspection.entries(c, ROUTE, None, state=None, limit=9, offset=0))
    shown = repr((entries, ledger.read(lambda c: inspection.status(c, ROUTE, None))))
    assert len(entries) == 2
    assert "cello" not in shown


def test_pages_are_oldest_first(ledger: Ledger) -> None:
    """`limit` and `offset` page through what is not delivered; a state narrows it."""
    delivered(ledger, written("z", "x"))
    ids = [row.id for row in put(ledger, *[written(f"d{n}", "x") for n in range(5)])]
    page = ledger.read(lambda c: inspection.entries(c, ROUTE, "alice", state=None, limit=2, offset=1))
    done = ledger.read(lambda c: inspection.entries(c, ROUTE, None, state="completed", limit=9, offset=0))
    assert ([entry.id for entry in page], len(done), done[0].bytes) == (ids[1:3], 1, 0)


def test_a_row_is_found_by_its_whole_id_only(ledger: Ledger) -> None:
    """A place without its nonce, an unknown id, a delivered id of long ago: there is no such row."""
    [row] = put(ledger, written("a", "x"))
    assert ledger.read(lambda c: inspection.entry(c, row.id)).id == row.id
    for wrong in ("", "0" * 16 + "1", "no id", row.id[:16] + "ff", row.id[:16] + "-1"):
        with pytest.raises(MissingError):
            ledger.read(lambda c, wrong=wrong: inspection.entry(c, wrong))  # type: ignore[misc]


def test_a_dead_letter_waits_again_when_it_is_asked_for(ledger: Ledger) -> None:
    """It is sealed anew, under another operation id."""
    put(ledger, written("a", "tea"))
    first = must(claimed(ledger))
    ledger.write(lambda c: settling.refused(c, first, (), "no", NOW))
    assert ledger.write(lambda c: inspection.requeue(c, ROUTE, None, None, NOW)) == 1
    again = must(claimed(ledger))
    assert (texts(again), again.id == first.id) == (["tea"], False)


@pytest.mark.parametrize("days", [0, 2])
def test_a_later_write_stands(ledger: Ledger, days: int) -> None:
    """An old replacement does not come back over a newer one, even when the newer one's row is forgotten."""
    killed(ledger, written("a", "old"))
    delivered(ledger, written("a", "new"), now=NOW + 1)
    bounds = Bounds(99, 9999, 1e9)
    ledger.write(lambda c: expire(c, ROUTE, bounds, NOW + 2 + days * 86_400))
    assert ledger.write(lambda c: inspection.requeue(c, ROUTE, None, None, NOW + 3)) == 0
    [entry] = ledger.read(lambda c: inspection.entries(c, ROUTE, None, state="dead", limit=9, offset=0))
    assert entry.reason == "a later write of its document stands"


def test_an_append_comes_back_whatever_followed(ledger: Ledger) -> None:
    """What was added later says nothing against it."""
    killed(ledger, written("a", "old", append=True))
    delivered(ledger, written("a", "new", append=True), now=NOW + 1)
    assert ledger.write(lambda c: inspection.requeue(c, ROUTE, None, None, NOW + 2)) == 1


def test_purging_spares_what_is_underway(ledger: Ledger) -> None:
    """Waiting and dead rows go; a row that the server may have stays until that is known."""
    [dead] = killed(ledger, written("a", "x"))
    [sealed] = [row.id for row in put(ledger, written("b", "x"))]
    claimed(ledger)
    [waits] = [row.id for row in put(ledger, written("c", "x"))]
    assert ledger.write(lambda c: inspection.purge(c, ROUTE, None, [dead, sealed, waits])) == 2
    assert states(ledger) == {"sealed": 1}
    with pytest.raises(MissingError, match=dead):
        ledger.write(lambda c: inspection.purge(c, ROUTE, None, [dead]))


def test_any_number_of_rows_is_taken_out_at_once(ledger: Ledger) -> None:
    """More than one statement of SQLite's can name; what is underway is set apart, its batch is told."""
    put(ledger, *[written(f"lorebank:item:{n}", "tea") for n in range(33_000)])
    claim = must(claimed(ledger))
    rows, held = ledger.write(lambda c: inspection.doomed(c, ROUTE, "alice", range(1, 33_001)))
    assert (len(rows), held) == (33_000 - 16, [claim.id])
    assert claimed(ledger, "other", NOW + 1_000) is None
    ledger.write(lambda c: inspection.spared(c, held))
    assert must(claimed(ledger, "other", NOW + 1_000)).id == claim.id


def test_age_makes_dead_letters(ledger: Ledger) -> None:
    """What waits for too long is dead, not deleted, and can be requeued for as long again; deliveries are forgotten."""
    delivered(ledger, written("z", "x"))
    [row] = put(ledger, written("a", "x"))
    assert ledger.write(lambda c: expire(c, ROUTE, BOUNDS, NOW + 999)) == []
    assert ledger.write(lambda c: expire(c, ROUTE, BOUNDS, NOW + 1001)) == [("alice", row.id)]
    ledger.write(lambda c: inspection.requeue(c, ROUTE, None, [row.id], NOW + 1002))
    assert ledger.write(lambda c: expire(c, ROUTE, BOUNDS, NOW + 2001)) == []
    ledger.write(lambda c: expire(c, ROUTE, BOUNDS, NOW + 90_000))
    assert states(ledger) == {"dead": 1}


def test_rows_of_a_refused_key_are_taken_over(ledger: Ledger) -> None:
    """At once if the server refuses the old key, with what is sealed; else only when nobody has sent them for a while."""
    put(ledger, written("a", "sealed"), written("b", "waits"), now=NOW - 10)
    old = must(claimed(ledger, now=NOW - 10))
    assert ledger.read(lambda c: foreign(c, OTHER_KEY, NOW - 60)) == 0
    assert ledger.read(lambda c: foreign(c, OTHER_KEY, NOW)) == 2
    refusal = Trouble("401", refused=True)
    ledger.write(lambda c: settling.troubled(c, old, ROUTE, refusal, Moment(NOW, 300.0, 0.5)))
    assert ledger.write(lambda c: take_over(c, OTHER_KEY, NOW - 60)) == [("alice", 2)]
    new = must(claimed(ledger, "two", NOW, OTHER_KEY))
    assert (new.id, new.body, claimed(ledger)) == (old.id, old.body, None)


def test_an_answer_that_comes_too_late_changes_nothing(ledger: Ledger) -> None:
    """The batch was split by somebody else: its old claim completes, fails and refuses nothing."""
    put(ledger, written("lorebank:item:1", "x"), written("lorebank:item:2", "y"))
    stale = must(claimed(ledger))
    ledger.write(lambda c: settling.refused(c, stale, (), "no", NOW))
    fresh = must(claimed(ledger))
    ledger.write(lambda c: settling.accepted(c, fresh, ROUTE, NOW))
    before = ledger.read(lambda c: inspection.status(c, ROUTE, None))
    ledger.write(lambda c: settling.completed(c, stale, ROUTE, NOW, (1, 1)))
    ledger.write(lambda c: settling.failed(c, stale, "failed", NOW))
    ledger.write(lambda c: settling.refused(c, stale, (0,), "no", NOW))
    assert ledger.read(lambda c: inspection.status(c, ROUTE, None)).rows == before.rows
    assert ledger.read(lambda c: c.execute(sql("SELECT rows FROM totals")).scalar()) == 2


def test_a_failure_of_its_own_lets_others_pass_and_ends_after_five(ledger: Ledger) -> None:
    """A poison batch does not stand before the others; five failures while others pass, and it is a dead letter."""
    put(ledger, written("poison", "x"))
    now, dead, passed = NOW, list[str](), 0
    for turn in range(40):
        put(ledger, written(f"good {turn}", "y"), now=now)
        claim = must(claimed(ledger, now=now))
        if texts(claim) == ["x"]:
            trouble, moment = Trouble("500", suspect=True, broken=True), Moment(now, 300.0, 0.5)
            dead += ledger.write(lambda c: settling.troubled(c, claim, ROUTE, trouble, moment))[1]  # noqa: B023
        else:
            passed += 1
            ledger.write(lambda c: settling.accepted(c, claim, ROUTE, now))  # noqa: B023
        now += 301 if turn % 2 else 1
    assert (len(dead), passed > 10) == (1, True)


def test_a_server_that_takes_no_write_kills_none(ledger: Ledger) -> None:
    """While nothing passes, no failure counts against a batch, though the server answers questions."""
    put(ledger, written("a", "x"))
    for turn in range(20):
        now = NOW + 400 * turn
        claim, moment = must(claimed(ledger, now=now)), Moment(now, 300.0, 0.5)
        ledger.write(lambda c: settling.troubled(c, claim, ROUTE, Trouble("500", suspect=True, broken=True), moment))  # noqa: B023
        assert not ledger.write(lambda c: settling.answered(c, ROUTE, now)).ended  # noqa: B023
    assert states(ledger) == {"sealed": 1}


def test_what_is_left_is_counted_up_to_a_mark(ledger: Ledger) -> None:
    """`left` counts what was there at the mark, by how far it has come."""
    put(ledger, written("a", "x"), written("b", "y"))
    mark = ledger.write(lambda c: release(c, ROUTE))
    put(ledger, written("c", "z"))
    claim = must(claimed(ledger))
    ledger.write(lambda c: settling.accepted(c, claim, ROUTE, NOW))
    counts = [ledger.read(lambda c, a=a: left(c, ROUTE, mark, accepted=a)) for a in (True, False)]  # type: ignore[misc]
    assert counts == [1, 2]


def test_files_are_private(ledger: Ledger, place: Path) -> None:
    """0600 in a folder of 0700."""
    put(ledger, written("a", "x"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place.parent, place)] == [0o700, 0o600]


def test_ten_thousand_rows_are_worked_on(ledger: Ledger) -> None:
    """Every row is sent once, in order, though far more wait than are looked at."""
    put(ledger, *[written(f"lorebank:item:{n}", str(n)) for n in range(10_000)])
    sent: list[str] = []
    for _ in range(3):
        claim = must(claimed(ledger))
        sent += texts(claim)
        ledger.write(lambda c: settling.accepted(c, claim, ROUTE, NOW))  # noqa: B023
    assert sent == [str(n) for n in range(48)]
    assert HEADS < 10_000
    assert states(ledger) == {"pending": 9952, "accepted": 48}


WORKER = """
import sys, json, time
from lorebank._ledger import settling
from lorebank._ledger.claims import Terms, claim_sending
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.values import Bounds, Draft, Route
url, name = sys.argv[1:]
ledger, route, sent = Ledger(url, moved=print), Route("http://server"), []
terms = Terms(name, 4, 0.0, 60.0, 300.0, lambda items, _: json.dumps([i["content"] for i in items]).encode(), print)
for n in range(25):
    body = json.dumps({"content": f"{name} {n}", "document_id": "a", "update_mode": "append"})
    ledger.enqueue(route, [Draft("b", "a", body, body, True, "f", None, False)], Bounds(999, 99999, 1.0), time.time())
    claim = ledger.write(lambda c: claim_sending(c, route, terms, time.time(), urgent=True))
    if claim is not None:
        ledger.write(lambda c: settling.accepted(c, claim, route, time.time()))
        ledger.write(lambda c: settling.completed(c, claim, route, time.time(), (1, 1)))
        sent.append([claim.rows[0], json.loads(claim.body)[0].split(chr(10))])
print(json.dumps(sent))
ledger.close()
"""


def test_two_processes_share_a_ledger(ledger: Ledger, place: Path) -> None:
    """Both write and send at once: each text is sent once, and each writer's texts in their order."""
    command = [sys.executable, "-c", WORKER, f"sqlite:///{place}"]
    workers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "pq"]
    sent = [part for worker in workers for part in json.loads(worker.communicate(timeout=60)[0])]
    while (claim := claimed(ledger, route=Route("http://server"))) is not None:
        ledger.write(lambda c: settling.accepted(c, claim, Route("http://server"), NOW))
        ledger.write(lambda c: settling.completed(c, claim, Route("http://server"), NOW, (1, 1)))
        sent.append([claim.rows[0], texts(claim)[0].split("\n")])
    told = [text for _, part in sorted(sent) for text in part]
    assert [text for text in told if text[0] == "p"] == [f"p {n}" for n in range(25)]
    assert [text for text in told if text[0] == "q"] == [f"q {n}" for n in range(25)]
