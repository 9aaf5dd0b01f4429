"""Laws of the cursor by itself: a dict as lookup, no file, no clock."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lorebank._domain.cursor import SHORT as SIZE
from lorebank._domain.cursor import Claim, Known, Past, Sifted, marks_of, run_of, sift, skipped, tail
from lorebank._domain.message import Message

from .session_machine import OPERATIONS, Kinds, Step, World, drive, random_steps, talks_of
from .session_model import KINDS, NEXT, Line

EXAMPLES = int(os.environ.get("LOREBANK_SESSION_EXAMPLES", "100"))
HOSTS = st.lists(st.tuples(st.sampled_from(KINDS), st.booleans(), st.booleans()), min_size=1, max_size=2)
STEP = st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 1), st.integers(0, 1), st.integers(0, 11), st.integers(0, 7))
STEPS = st.lists(STEP, max_size=30)
DIGITS = st.lists(st.integers(0, 2), max_size=12).map(lambda each: [bytes([n]) for n in each])


@dataclass(slots=True)
class Rows:
    """What a ledger holds of one session."""

    taken: dict[bytes, Known] = field(default_factory=dict)
    last: list[bytes] = field(default_factory=list)
    head: bytes | None = None
    opened: bytes | None = None
    lines: list[Line] = field(default_factory=list)
    mode: str = "normal"
    retain: bool = True
    skip: object = None

    def known(self, identities: Sequence[bytes]) -> Mapping[bytes, Known]:
        return {each: self.taken[each] for each in identities if each in self.taken}

    def claim(self, claims: Sequence[Claim]) -> None:
        for each in claims:
            self.taken.setdefault(each.identity, Known(each.run, each.holder, each.kept))


class PlainSession:
    """A session of nothing but the cursor and a dict."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._changed = rows, dict[str, Any]()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("mode", "retain_enabled"):
            self._changed[name.removesuffix("_enabled")] = value
        else:
            object.__setattr__(self, name, value)

    def skip_next(self) -> None:
        self._changed["skip"] = NEXT

    def before_turn(self, messages: Sequence[Message], *, history: str, run_id: str | None = None) -> None:
        self._record(messages, history, run_id, ending=False, cancelled=False)

    def after_turn(
        self, messages: Sequence[Message], *, history: str, run_id: str | None = None, cancelled: bool = False
    ) -> None:
        self._record(messages, history, run_id, ending=True, cancelled=cancelled)

    def retain_now(self) -> None:
        """All is there at once."""

    def close(self) -> None:
        self._store()

    def _store(self) -> None:
        for name, value in self._changed.items():
            setattr(self._rows, name, value)
        self._changed.clear()

    def _record(self, messages: Sequence[Message], history: str, run_id: str | None, *, ending: bool, cancelled: bool) -> None:
        self._store()
        rows = self._rows
        said = [each for each in messages if each.role != "system"]
        full, run = history == "full", None if run_id is None else run_of(run_id)
        marks = marks_of(said, full=full)
        past = Past(lambda: rows.last, len(rows.last), rows.head, opened=rows.opened if ending else None)
        sifted = sift(marks, run=run, lookup=rows.known, past=past)
        out, lasting = self._out(said, sifted, run_id or len(rows.taken), ending=ending, cancelled=cancelled)
        users = [mark.digest for mark, each in zip(marks, said, strict=True) if each.role == "user"]
        rows.opened = None if ending else users[-1] if users else rows.opened
        rows.lines += [(said[place].role, said[place].text) for place in sifted.fresh if place not in out]
        rows.claim([replace(each, kept=each.kept and each.place not in out) for each in sifted.claims])
        rows.claim([skipped(marks[place], place) for place in lasting if full and marks[place].id is None])
        if full and sifted.fresh and any(each.id is None for each in said):
            rows.last = [mark.digest[:SIZE] for mark in marks]
            rows.head = marks[-1].chain

    def _out(
        self, said: Sequence[Message], sifted: Sifted, run: object, *, ending: bool, cancelled: bool
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Which of the new messages are opted out."""
        rows = self._rows
        if sifted.fresh and rows.skip == NEXT:
            rows.skip = run if isinstance(run, str) else "turn"
        elif rows.skip == "turn" and any(said[place].role == "user" for place in sifted.fresh):
            rows.skip = None
        withheld = rows.mode != "normal" or not rows.retain or rows.skip == (run if isinstance(run, str) else "turn")
        if ending and withheld and rows.skip != NEXT:
            rows.skip = None
        if withheld:
            return frozenset(sifted.fresh), frozenset(sifted.fresh)
        half = max((place + 1 for place, each in enumerate(said) if each.role == "user"), default=0)
        halves = frozenset(place for place in sifted.fresh if cancelled and place >= half)
        return halves, halves


class PlainBank:
    """Sessions in a dict."""

    def __init__(self, rows: dict[tuple[str, str], Rows], name: str, opened: list[PlainSession] | None = None) -> None:
        self._rows, self._name = rows, name
        self._opened: list[PlainSession] = [] if opened is None else opened

    def session(self, session_id: str) -> PlainSession:
        self._opened.append(PlainSession(self._rows.setdefault((self._name, session_id), Rows())))
        return self._opened[-1]

    def named(self, name: str) -> PlainBank:
        return PlainBank(self._rows, name, self._opened)

    def close(self) -> None:
        """What was changed of its sessions is stored."""
        for session in self._opened:
            session.close()


class PlainPlace:
    """Banks in a dict."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Rows] = {}

    def open(self, bank: str) -> PlainBank:
        return PlainBank(self._rows, bank)

    def outage(self, *, down: bool) -> None:
        """A dict is always there."""

    def read(self, banks: Sequence[str]) -> Mapping[tuple[str, str], list[Line]]:
        return {key: rows.lines for key, rows in self._rows.items()}

    def close(self) -> None:
        """A dict goes by itself."""


def test_many_histories() -> None:
    """The same from seeds, as many as time allows."""
    for seed in range(30 * EXAMPLES):
        chance = Random(seed)
        hosts: Kinds = [(chance.choice(KINDS), chance.random() < 0.5, chance.random() < 0.5) for _ in range(1 + seed % 2)]
        world = World(PlainPlace(), talks_of(hosts))
        drive(world, random_steps(chance, 30))
        try:
            world.check()
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")


@settings(max_examples=4 * EXAMPLES, phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink])
@given(HOSTS, STEPS)
def test_what_is_said_has_its_effect_and_what_is_opted_out_has_none(hosts: Kinds, steps: list[Step]) -> None:
    """Whatever hosts do to their histories: nothing is lost, nothing skipped comes back, and each is kept once where it can be
    told apart.
    """
    world = World(PlainPlace(), talks_of(hosts))
    drive(world, steps)
    world.check()


@given(DIGITS, DIGITS)
def test_the_tail_is_the_longest_run_that_the_last_history_ends_with(last: list[bytes], now: list[bytes]) -> None:
    """As found by looking everywhere; of equal ones the latest."""
    found = (0, 0)
    for start in range(len(now)):
        for end in range(start + 1, len(now) + 1):
            run = now[start:end]
            if run == last[len(last) - len(run) :] and len(run) <= len(last) and len(run) >= found[1]:
                found = start, len(run)
    assert tail(last, now) == found
