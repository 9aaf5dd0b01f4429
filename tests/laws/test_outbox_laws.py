"""Laws of the outbox: the table of moves, the rests, and the ledger against a model, whatever happens in which order."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import select

from lorebank._domain.outbox import (
    FIRST_REST,
    LOST,
    STATES,
    TRANSITIONS,
    UNDERWAY,
    WAITING,
    RowState,
    is_due,
    move,
    rest,
    sources,
    target,
)
from lorebank._ledger import inspection, settling
from lorebank._ledger.claims import Terms, claim_asking, claim_sending
from lorebank._ledger.ledger import Ledger, expire, release
from lorebank._ledger.schema import batches, outbox, totals
from lorebank._ledger.values import Bounds, Claim, Draft, Moment, Route, Trouble

STEPS = sorted({step for _, step in TRANSITIONS})
SECONDS = st.floats(0, 1e6)


def reachable(state: RowState) -> set[RowState]:
    """The states that a row may come to from this one, and this one."""
    found = {state}
    while more := {after for (before, _), after in TRANSITIONS.items() if before in found} - found:
        found |= more
    return found


def test_nothing_leaves_completed() -> None:
    """What was delivered is not delivered again."""
    assert reachable("completed") == {"completed"}


def test_every_state_is_reached() -> None:
    """A row begins `held` or `pending`, and may come to every state."""
    assert reachable("held") | reachable("pending") == set(STATES)


@pytest.mark.parametrize("state", WAITING)
def test_every_waiting_row_can_be_delivered_or_be_a_dead_letter(state: RowState) -> None:
    """No state is a trap."""
    assert {"completed", "dead"} <= reachable(state)


def test_every_state_is_waiting_lost_or_completed() -> None:
    """The groups are apart and leave none out."""
    assert sorted((*WAITING, *LOST, "completed")) == sorted(STATES)


@given(st.sampled_from(STATES), st.sampled_from(STEPS))
def test_moves_sources_and_targets_agree(state: RowState, step: Any) -> None:
    """A step is possible from its sources only, and leads to its target."""
    if state in sources(step):
        assert move(state, step) == target(step)
    else:
        with pytest.raises(ValueError, match=state):
            move(state, step)


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 1e4))
def test_a_rest_is_bounded(failures: int, chance: float, longest: float) -> None:
    """Never longer than the longest, never less than half of what the failures ask for."""
    whole = min(FIRST_REST * 2 ** min(max(failures - 1, 0), 30), longest)
    assert whole / 2 <= rest(failures, chance, longest) <= longest


@given(SECONDS, SECONDS, st.floats(1, 1e4))
def test_nothing_is_put_off_for_longer_than_the_longest(due: float, now: float, longest: float) -> None:
    """What is not due yet is due within the longest wait."""
    assert is_due(due, now, longest) or is_due(due, now + longest, longest)


ROUTE = Route("http://server")
BOUNDS = Bounds(1000, 1_000_000, 500.0)
DOCUMENTS = ("lorebank:item:1", "lorebank:item:2", "replaced", "appended")
OWNERS, RARELY = st.sampled_from(["one", "two"]), st.sampled_from([False] * 7 + [True])
WHAT, BAD = st.integers(0, 11), st.lists(st.integers(0, 3), max_size=2, unique=True)
TURNS = st.lists(st.tuples(st.booleans(), OWNERS, RARELY, RARELY, WHAT, BAD), min_size=4, max_size=16)
Row = dict[str, Any]


def terms(owner: str) -> Terms:
    def compose(items: Any, operation: str) -> bytes:
        return json.dumps([operation, list(items)]).encode()

    return Terms(owner, rows=4, wait=5.0, lease=60.0, longest=300.0, compose=compose, spoilt=lambda rows: None)


class Outbox(RuleBasedStateMachine):
    """A ledger in a real file, and what must be true of it whatever is done. No draw depends on its state: ids are random."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = Ledger(f"sqlite:///{Path(self.folder.name) / 'outbox.db'}", moved=print, synchronous="off")
        self.now, self.count = 1_000_000.0, 0
        self.texts: dict[str, str] = {}
        self.purged: set[str] = set()
        self.claims: list[Claim] = []
        self.bodies: dict[str, tuple[bytes, str]] = {}
        self.before: dict[int, Row] = {}

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()

    def rows(self) -> dict[int, Row]:
        return self.ledger.read(lambda c: {row["seq"]: dict(row) for row in c.execute(select(outbox)).mappings()})

    def ids(self) -> dict[str, Row]:
        return {f"{row['nonce']}{row['seq']:x}": row for row in self.rows().values()}

    @rule(bank=st.sampled_from("ab"), document=st.sampled_from(DOCUMENTS), held=RARELY, many=st.integers(1, 3))
    def enqueue(self, bank: str, document: str, held: bool, many: int) -> None:
        drafts = []
        for _ in range(many):
            self.count += 1
            text = f"text {self.count}"
            append = document == "appended"
            body = json.dumps({"content": text, "document_id": document, "update_mode": "append" if append else "replace"})
            solo = not document.startswith("lorebank:")
            drafts.append(Draft(bank, document, body, text, solo, "same" if append else None, None, not append))
        queued = self.ledger.enqueue(ROUTE, drafts, BOUNDS, self.now, held=held)
        assert not any(row.known for row in queued)
        self.texts |= {row.id: draft.digest for row, draft in zip(queued, drafts, strict=True)}

    @initialize()
    def begin(self) -> None:
        """Some writes are there, so that there is work from the first step."""
        for document in (*DOCUMENTS, *DOCUMENTS):
            self.enqueue("a", document, False, 2)

    @rule(bank=st.sampled_from("ab"), text=st.text(max_size=3))
    def say_twice(self, bank: str, text: str) -> None:
        body = json.dumps({"content": text, "document_id": "twice", "update_mode": "replace"})
        one = Draft(bank, "twice", body, text, solo=True)
        first, second = self.ledger.enqueue(ROUTE, [one, one], BOUNDS, self.now)
        assert (second.id, second.known) == (first.id, True)
        self.texts.setdefault(first.id, text)

    @rule(turns=TURNS)
    def work(self, turns: list[tuple[bool, str, bool, bool, int, list[int]]]) -> None:
        """Senders at work, for some turns: each is a step of its own."""
        for asks, owner, waits, stays, what, bad in turns:
            if asks:
                self.ask(owner, stays, what, bad)
            else:
                self.send(owner, waits, stays, what, bad)
            self.promises_are_kept()

    def send(self, owner: str, waits: bool, stays: bool, what: int, bad: list[int]) -> None:
        """A batch is claimed and, mostly, answered at once."""
        before = self.rows()
        claim = self.ledger.write(lambda c: claim_sending(c, ROUTE, terms(owner), self.now, urgent=not waits))
        if claim is not None and claim.id not in {row["batch"] for row in before.values()}:
            self.check_sealed(claim, before)
        self.keep(claim)
        if claim is not None and not stays:
            self.settle(-1, what, bad)

    def ask(self, owner: str, stays: bool, what: int, bad: list[int]) -> None:
        """Some seconds later an operation is asked after and, mostly, answered."""
        self.now += 40
        claim = self.ledger.write(lambda c: claim_asking(c, ROUTE, terms(owner), self.now, urgent=False))
        self.keep(claim)
        if claim is not None and not stays:
            self.settle(-1, what, bad)

    def keep(self, claim: Claim | None) -> None:
        if claim is not None:
            self.claims = [*(known for known in self.claims if known.id != claim.id), claim]

    def check_sealed(self, claim: Claim, before: dict[int, Row]) -> None:
        """Rows are sealed in the order of their document, and only items share a batch."""
        for seq in claim.rows:
            mine = before[seq]
            others = [r for r in before.values() if (r["bank"], r["document"]) == (mine["bank"], mine["document"])]
            assert not [r for r in others if r["state"] in UNDERWAY]
            assert not [r for r in others if r["state"] in ("held", "pending") and r["seq"] < seq and r["seq"] not in claim.rows]
        documents = {before[seq]["document"] for seq in claim.rows}
        assert len(documents) == (1 if before[claim.rows[0]]["solo"] else len(claim.rows))
        assert len(documents) == 1 or all(document.startswith("lorebank:item:") for document in documents)
        assert {before[seq]["bank"] for seq in claim.rows} == {claim.bank}
        contents = [json.loads(before[seq]["body"])["content"] for seq in claim.rows]
        sent = [item["content"] for item in json.loads(claim.body)[1]]
        assert "\n".join(sent) == "\n".join(contents)

    @rule(pick=st.integers(0, 50), what=WHAT, bad=BAD)
    def settle(self, pick: int, what: int, bad: list[int]) -> None:
        """An answer for some claim, which may be stale: somebody else may have settled it."""
        if not self.claims:
            return
        claim = self.claims.pop(pick % len(self.claims))
        moment = Moment(self.now, 300.0, 0.5)
        if claim.state == "sealed":
            steps = (
                *[lambda c: settling.accepted(c, claim, ROUTE, self.now)] * 4,
                lambda c: settling.refused(c, claim, bad, "no", self.now),
                lambda c: settling.troubled(c, claim, ROUTE, Trouble("500", suspect=what % 2 == 0, broken=what % 2 == 0), moment),
            )
        elif claim.state == "accepted":
            steps = (
                lambda c: settling.running(c, claim, self.now, 5.0),
                lambda c: settling.completed(c, claim, ROUTE, self.now, (1, 1)),
                lambda c: settling.failed(c, claim, "failed", self.now),
                lambda c: settling.lost(c, claim, self.now),
            )
        else:
            steps = (lambda c: settling.retried(c, claim, self.now),)
        self.ledger.write(steps[what % len(steps)])

    @rule(seconds=st.sampled_from([0.0, 6.0, 61.0, 300.0, -3600.0]))
    def crash(self, seconds: float) -> None:
        """All that a process knew is gone; meanwhile time has passed, or the clock was set back."""
        self.claims = []
        self.now += seconds

    @rule(what=st.sampled_from(["release", "expire", "requeue"]))
    def care(self, what: str) -> None:
        """What is done about rows that are held, old or dead."""
        if what == "release":
            self.ledger.write(lambda c: release(c, ROUTE))
        elif what == "expire":
            self.ledger.write(lambda c: expire(c, ROUTE, BOUNDS, self.now))
        else:
            self.ledger.write(lambda c: inspection.requeue(c, ROUTE, None, None, self.now))

    @rule(pick=st.integers(0, 50))
    def purge(self, pick: int) -> None:
        if not (known := self.ids()):
            return
        name = sorted(known, key=lambda each: known[each]["seq"])[pick % len(known)]
        gone = self.ledger.write(lambda c: inspection.purge(c, ROUTE, None, [name]))
        assert gone == int(known[name]["state"] not in (*UNDERWAY, "completed"))
        self.purged |= {name} if gone else set()

    @invariant()
    def promises_are_kept(self) -> None:
        rows = self.rows()
        found, total = self.ledger.read(
            lambda c: ([dict(row) for row in c.execute(select(batches)).mappings()], c.execute(select(totals)).one())
        )
        self.nothing_vanishes(rows)
        self.moves_are_in_the_table(rows)
        self.batches_are_whole(rows, {batch["id"]: batch for batch in found})
        counted = [row["size"] for row in rows.values() if row["state"] != "completed"]
        assert total == (len(counted), sum(counted))

    def nothing_vanishes(self, rows: dict[int, Row]) -> None:
        known = {f"{row['nonce']}{row['seq']:x}": row for row in rows.values()}
        assert set(known) == set(self.texts) - self.purged
        for name, row in known.items():
            assert row["body"] is None if row["state"] == "completed" else self.texts[name] == json.loads(row["body"])["content"]

    def moves_are_in_the_table(self, rows: dict[int, Row]) -> None:
        for seq, row in rows.items():
            assert row["state"] in reachable(self.before.get(seq, row)["state"])
        self.before = rows

    def batches_are_whole(self, rows: dict[int, Row], found: dict[str, Row]) -> None:
        """Rows underway belong to a batch of their state; one for each document; none changes."""
        for name, batch in found.items():
            assert self.bodies.setdefault(name, (batch["body"], batch["rows"])) == (batch["body"], batch["rows"])
            assert {rows[seq]["state"] for seq in json.loads(batch["rows"])} == {batch["state"]}
            assert {rows[seq]["batch"] for seq in json.loads(batch["rows"])} == {name}
        underway = {(r["bank"], r["document"], r["batch"]) for r in rows.values() if r["state"] in UNDERWAY}
        assert {batch for *_, batch in underway} <= set(found)
        assert max(Counter((bank, document) for bank, document, _ in underway).values(), default=1) == 1


Outbox.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
test_the_ledger_keeps_its_promises_whatever_happens = Outbox.TestCase
