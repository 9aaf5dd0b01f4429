"""What a call records: which messages are new, what of them is retained where, in one transaction with the cursor.

A host that hands over a growing history pays for what it adds: the messages that were handled last are recognised by their
hashes, which never leave the process.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import compress
from typing import Any, TypeVar

from lorebank._domain.cursor import Claim, Mark, Sifted, marks_of, run_of, sift, skipped, spoken_in
from lorebank._domain.item import Item
from lorebank._domain.memory import MAX_TEXT, Receipt, storable
from lorebank._domain.message import Message, project
from lorebank._domain.ports import SessionLedger
from lorebank._domain.session import UNREADABLE, Choices, Progress, Stored, TurnReceipt, merged
from lorebank._domain.transcripts import ROLE, SOURCES, Handed, Spoken, document_name, documents, split_text
from lorebank._session.home import Home
from lorebank._session.view import Admission, Call, Handled, Judged, View, judge
from lorebank._writing import admit_items

T = TypeVar("T")
EVERY_TURNS = {"mnemopi": 4, "hindsight": 3}
"""After how many user turns what is held is let go; the backends' own defaults."""
LONGEST = {"mnemopi": MAX_TEXT, "hindsight": MAX_TEXT // 4}
"""Characters of one part of a long message; a transcript's JSON makes more of them."""
ASKED = 256
"""Messages of which it is still known what the user's gate made of them."""
LOOKED_UP = 16
"""From how many messages on it pays to ask the ledger first which of them it knows."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a call came to. `turn` tells user turns apart; `complete` says that all that the session has retained is among the
    messages; `fresh` are the new ones.
    """

    choices: Choices
    turn: tuple[int, bytes]
    receipt: TurnReceipt
    fresh: tuple[Message, ...] = ()
    complete: bool = False
    readable: bool = True


class Recorder:
    """Records the messages of one session. Not safe for threads: its session serialises the calls."""

    def __init__(self, home: Home, session: str, now: Callable[[], datetime]) -> None:
        self._home, self._session, self._now = home, session, now
        self._name = document_name(session, home.tagged)
        self._handled = Handled()
        self._asked: OrderedDict[bytes, Admission] = OrderedDict()
        self._skipping = True

    def record(self, call: Call, changed: Mapping[str, Any]) -> Recorded:
        """Records a call and stores what the user has changed, in one transaction."""
        view = self._view(call)
        done = self._write(lambda ledger: self._step(ledger, view, changed))
        if done is None:  # another process has recorded something since: what was looked up here says nothing
            self._handled = Handled()
            return self.record(call, changed)
        recorded, counted = done
        self._skipping = recorded.choices.skip is not None
        if call.full:
            self._handled = Handled(view.keys, view.chain, view.run, counted, view.unnamed, view.newest)
        return recorded

    def choices(self, changed: Mapping[str, Any]) -> tuple[Choices, bool]:
        """What the user has chosen, and whether that can be read."""
        return _chosen(self._read(lambda ledger: ledger.load()), changed)

    def store(self, changed: Mapping[str, Any]) -> None:
        """Stores what the user has changed."""

        def write(ledger: SessionLedger) -> None:
            stored = ledger.load()
            ledger.save(_chosen(stored, changed)[0], stored.progress)

        self._write(write)

    def release(self) -> int:
        """Lets go what is held; gives how many writes."""

        def write(ledger: SessionLedger) -> int:
            stored = ledger.load()
            count = ledger.release()
            if count and stored.choices is not None:
                ledger.save(stored.choices, replace(stored.progress, unreleased=0, window=None))
            return count

        return self._write(write)

    def trace(self, body: str, keep: int) -> None:
        """Keeps a turn's trace."""

        def write(ledger: SessionLedger) -> None:
            ledger.load()
            ledger.trace(body, keep)

        self._write(write)

    def last_trace(self) -> str | None:
        """The newest trace that was kept."""

        def read(ledger: SessionLedger) -> str | None:
            ledger.load()
            return ledger.last_trace()

        return self._read(read)

    def _write(self, body: Callable[[SessionLedger], T]) -> T:
        return self._home.backend.sessions.write(self._home.scope, self._session, body)

    def _read(self, body: Callable[[SessionLedger], T]) -> T:
        return self._home.backend.sessions.read(self._home.scope, self._session, body)

    def _view(self, call: Call) -> View:
        """The call's messages as far as they may be new, with what may be written of them."""
        spoken = [m.role != "system" and not m.injected for m in call.messages]
        said, keys = tuple(compress(call.messages, spoken)), list(compress(call.keys, spoken))
        known = self._handled
        whole = self._home.settings.retain.retain_mode != "append"
        unsure = not call.full or whole or self._skipping  # who answered whom must be seen while a run is skipped
        if unsure or not known.keys or keys[: len(known.keys)] != known.keys:
            known = Handled()
        new = said[len(known.keys) :]
        marks = marks_of(new, full=call.full, before=known.chain)
        run = None if call.run_id is None else run_of(call.run_id)
        wanted = range(len(new)) if whole else self._unknown(marks, run, known)
        admitted = {place: self._admitted(new[place], marks[place], run) for place in wanted}
        return View(call, known, keys, new, marks, run, admitted)

    def _unknown(self, marks: Sequence[Mark], run: bytes | None, handled: Handled) -> Sequence[int]:
        """The places of messages that are new, as far as can be told before the transaction: of a long list the ledger is asked,
        so that the user's own gate is not asked about messages of long ago again.
        """
        if len(marks) < LOOKED_UP:
            return range(len(marks))

        def sifted(ledger: SessionLedger) -> Sifted:
            former = ledger.load().progress
            return sift(marks, run=run, lookup=ledger.known, past=handled.past(ledger, former, run))

        return self._read(sifted).fresh

    def _admitted(self, message: Message, mark: Mark, run: bytes | None) -> Admission:
        """What may be written of a message: projected, without secrets, through the user's gate, which is asked once."""
        name = mark.id or mark.chain or spoken_in(run or b"", mark)
        found = self._asked.get(name)
        if found is None:
            found = self._asked[name] = self._admission(message, name)
            while len(self._asked) > ASKED:
                self._asked.popitem(last=False)
        return found

    def _admission(self, message: Message, name: bytes) -> Admission:
        settings = self._home.settings.retain
        text = project(message, settings.keep)
        if text is None:
            return Admission()
        admitted = admit_items([self._item(message, text)], settings)
        parts = [part for item in admitted.items for part in _parts(item, LONGEST[self._home.backend.name])]
        spoken = tuple(Spoken(item, name, message.role == "user" and not place) for place, item in enumerate(parts))
        return Admission(spoken, admitted.rejected, admitted.redactions)

    def _item(self, message: Message, text: str) -> Item:
        """A message as an item, however long it is."""
        settings = self._home.settings.retain
        speaker = _CONTROL.sub(" ", storable(message.name or message.role)).strip()[:512] or message.role
        item = Item(
            ".",
            session=self._session,
            speaker=speaker,
            timestamp=message.time or self._now(),
            context=settings.retain_context or None,
            metadata={ROLE: message.role} | ({SOURCES: "\n".join(message.sources)} if message.sources else {}),
        )
        return item.rewritten(content=storable(text))

    def _step(self, ledger: SessionLedger, view: View, changed: Mapping[str, Any]) -> tuple[Recorded, Counter[bytes]] | None:
        """The transaction: what is new, what becomes of it, and the cursor that says so. `None` where the view is out of date."""
        stored = ledger.load()
        handled, former = view.handled, stored.progress
        if handled.keys and view.unnamed and (former.history, former.head) != (len(handled.keys), handled.chain):
            return None
        choices, readable = _chosen(stored, changed)
        past = handled.past(ledger, former, view.run, former.opened if view.call.ending else None)
        sifted = sift(view.marks, run=view.run, lookup=ledger.known, past=past)
        if not view.admitted.keys() >= set(sifted.fresh):
            return None
        said = sum(view.messages[place].role == "user" for place in sifted.fresh)
        turns = former.turns + said
        newest = view.newest or former.opened or b""
        judged = judge(view, sifted, choices, self._home.settings.retain, (turns, newest))
        progress = replace(
            former,
            turns=turns,
            messages=former.messages + len(sifted.fresh),
            opened=None if view.call.ending else newest if said else former.opened,
        )
        goes_on = view.unnamed and bool(sifted.fresh)  # an older list handed over once more is not the last history
        if goes_on:
            progress = replace(progress, history=len(view.keys), head=view.chain)
        receipt, progress = self._retained(ledger, view, sifted, judged, progress)
        after = replace(choices, skip=judged.skip)
        if sifted.claims or progress != former or after != stored.choices:
            ledger.save(after if readable else None, progress)
            ledger.claim(_claims(view, sifted, judged), self._now().timestamp())
            if goes_on:
                ledger.keep_history([mark.digest for mark in view.marks], len(handled.keys))
        new = tuple(view.messages[place] for place in sifted.fresh)
        told = TurnReceipt(receipt, len(new), len(judged.passed), judged.echoes, judged.reason)
        known = len(handled.keys) + len(view.marks)
        complete = view.call.full and known >= progress.messages
        return Recorded(after, (turns, newest), told, new, complete, readable), sifted.counted

    def _retained(
        self, ledger: SessionLedger, view: View, sifted: Sifted, judged: Judged, progress: Progress
    ) -> tuple[Receipt, Progress]:
        """Writes what is new, and lets it go when its time has come."""
        settings = self._home.settings.retain
        out = judged.passed | sifted.passed
        said = [each for place in sifted.fresh if place not in out for each in view.spoken(place)]
        places = [place for place in range(len(view.marks)) if place not in out]
        history = [_dated(each, view, sifted, place) for place in places for each in view.spoken(place)]
        complete = len(view.handled.keys) + len(view.marks) >= progress.messages
        handed = Handed([_tagged(each, judged.tags) for each in history], complete, view.call.full)
        writes, progress = documents(settings, self._name, [_tagged(each, judged.tags) for each in said], handed, progress)
        receipt = ledger.retain(writes) if writes else Receipt()
        if writes:
            progress = replace(progress, unreleased=progress.unreleased + sum(each.user for each in said))
        if view.call.ending and progress.unreleased >= (settings.every_n_turns or EVERY_TURNS[self._home.backend.name]):
            ledger.release()
            progress = replace(progress, unreleased=0, window=None)
        news = [view.admitted[place] for place in sifted.fresh if place not in judged.lasting]
        rejected = tuple(outcome for each in news for outcome in each.rejected)
        redactions = sum(each.redactions for each in news)
        return replace(receipt, rejected=receipt.rejected + rejected, redactions=redactions), progress


def _parts(item: Item, longest: int) -> list[Item]:
    """An item in parts, where its text is too long for one."""
    return [item.rewritten(content=part) for part in split_text(item.content, longest)]


def _dated(spoken: Spoken, view: View, sifted: Sifted, place: int) -> Spoken:
    """A message that is sent once more has the time of its first sight, where the host does not tell another."""
    seen = sifted.seen.get(place)
    if seen is None or view.messages[place].time is not None:
        return spoken
    return replace(spoken, item=spoken.item.rewritten(timestamp=datetime.fromtimestamp(seen, UTC)))


def _tagged(spoken: Spoken, tags: tuple[str, ...]) -> Spoken:
    return replace(spoken, item=spoken.item.rewritten(tags=tags)) if tags else spoken


def _claims(view: View, sifted: Sifted, judged: Judged) -> list[Claim]:
    """The identities to take; a message that is passed over on purpose stays so, also where its place is in doubt."""
    claims = [replace(claim, kept=claim.kept and claim.place not in judged.passed) for claim in sifted.claims]
    unnamed = [place for place in judged.lasting if view.marks[place].id is None and view.call.full]
    return claims + [skipped(view.marks[place], place) for place in unnamed]


def _chosen(stored: Stored, changed: Mapping[str, Any]) -> tuple[Choices, bool]:
    """The choices that hold, and whether they could be read. What can't be read is ignored until a mode is set."""
    if stored.choices is None and "mode" not in changed:
        return UNREADABLE, False
    return merged(stored.choices or UNREADABLE, changed), True
