"""Memories of a file that go into a bank: which of them it holds already, and how the others are written. All inside the
caller's transaction.

A memory is known where the bank holds its id with its text, or where it held its statement before the import; what the
bank holds is never changed by it. A memory whose id another memory has gets a new id, and whatever names it follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from sqlalchemy import Connection

from lorebank._database.driver import rows_of, run_many
from lorebank._domain.archive import Entry
from lorebank._domain.scope import Scope
from lorebank._mnemopi.derived import keys_of, link
from lorebank._mnemopi.facts import store as facts
from lorebank._mnemopi.facts.rules import Fact, facts_of
from lorebank._mnemopi.rows import COLUMNS, content_values, digest, maybe_ticks, tags_of, to_json, to_ticks
from lorebank._mnemopi.schema import OBSERVATION, SEQUENCE_BITS, key_range
from lorebank._mnemopi.search.kinds import count_terms
from lorebank._mnemopi.search.terms import words
from lorebank._mnemopi.store import ensure_bank, grow, index, last_place

_INSERT = f"INSERT INTO memories ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - our own names
_BY_ID = "SELECT id, content, tags FROM memories WHERE bank = ? AND id IN ({})"
_BY_DIGEST = "SELECT digest, id FROM memories WHERE bank = ? AND key <= ? AND digest IN ({})"
_SEQUENCE = "SELECT sequence FROM banks WHERE number = ?"
_SUPERSEDED = "UPDATE memories SET superseded_by = ? WHERE key = ? AND bank = ?"


class _Fresh(NamedTuple):
    """A memory that is to be written: its id in the bank, what its row holds beside its place, and what it states."""

    entry: Entry
    id: str
    derived: dict[str, Any]
    facts: tuple[Fact, ...]

    @property
    def length(self) -> int:
        return count_terms(self.derived["terms"])


class Merge:
    """One import into one bank; without the bank's `number`, into one that does not exist, and without `writing` none at all."""

    def __init__(self, connection: Connection, scope: Scope, number: int | None, now: int, *, writing: bool = False) -> None:
        self._connection, self.scope, self.number, self.now, self.writing = connection, scope, number, now, writing
        held = rows_of(connection, _SEQUENCE, (number,))
        self._before = key_range(number)[0] + held[0][0] if number is not None and held else 0
        self._places: dict[str, int] = {}
        self._replaced: list[tuple[int, str]] = []
        self._derived: list[tuple[int, tuple[str, ...]]] = []
        self.ids: dict[str, str] = {}
        self.added = self.known = 0

    @classmethod
    def into(cls, connection: Connection, scope: Scope, now: int) -> Merge:
        """An import that writes; a new bank is made."""
        return cls(connection, scope, ensure_bank(connection, scope.bank), now, writing=True)

    def take(self, entries: Sequence[Entry]) -> None:
        """Sorts a page of memories, and writes those that are new."""
        stamped = [entry.with_item(entry.item.stamped(self.scope.stamp)) for entry in entries]
        digests = [entry.digest or digest(entry.item, entry.type) for entry in stamped]
        texts = self._texts([entry.id for entry in stamped])
        statements = dict(self._found(_BY_DIGEST, digests, self._before))
        fresh: list[tuple[Entry, str]] = []
        for entry, told in zip(stamped, digests, strict=True):
            identity, known = self._placed(entry, told, texts, statements)
            if identity != entry.id:
                self.ids[entry.id] = identity
            if known:
                self.known += 1
            else:
                texts[identity] = entry.item.content
                fresh.append((entry, identity))
        self.added += len(fresh)
        if fresh and self.writing and self.number is not None:
            self._write(self.number, [_fresh(entry, identity) for entry, identity in fresh])

    def finish(self) -> None:
        """Has what was superseded by a memory with a new id name that id, and links what was derived to its sources."""
        changed = [(self.ids[old], key, self.number) for key, old in self._replaced if old in self.ids]
        if changed:
            run_many(self._connection, _SUPERSEDED, changed)
        for key, origins in self._derived:
            keys = keys_of(self._connection, key >> SEQUENCE_BITS, [self.ids.get(each, each) for each in origins])
            link(self._connection, [(key, origin) for origin in keys.values()])

    def _placed(self, entry: Entry, told: bytes, texts: dict[str, str], statements: dict[bytes, str]) -> tuple[str, bool]:
        """The id that a memory has or gets in the bank, and whether it is there already."""
        held = texts.get(entry.id)
        if held is not None and held in (entry.item.content, entry.told):
            return entry.id, True
        if told in statements:
            return statements[told], True
        if held is None:
            return entry.id, False
        for attempt in count():
            spare = entry.spare_id(attempt)
            if spare not in texts:
                texts |= self._texts([spare])
            if spare not in texts or texts[spare] == entry.item.content:
                return spare, spare in texts
        raise AssertionError  # there is always another attempt

    def _texts(self, ids: Sequence[str]) -> dict[str, str]:
        """What the bank's memories with these ids say; what the scope may not read says nothing, but has its id."""
        found = self._found(_BY_ID, ids)
        return {identity: content if self.scope.admits(tags_of(tags)) else "" for identity, content, tags in found}

    def _found(self, statement: str, values: Sequence[object], *bounds: int) -> list[tuple[Any, ...]]:
        if self.number is None:
            return []
        return rows_of(self._connection, statement.format(",".join("?" * len(values))), (self.number, *bounds, *values))

    def _write(self, number: int, fresh: Sequence[_Fresh]) -> None:
        """Writes rows in the order of their arrival; those of a session keep their places, or come after what it holds."""
        counted = [each.length for each in fresh if each.entry.type != OBSERVATION]
        last = grow(self._connection, number, size=len(counted), length=sum(counted), sequence=len(fresh))
        first = key_range(number)[0] + last - len(fresh) + 1
        rows = [self._row(number, first + place, each) for place, each in enumerate(fresh)]
        run_many(self._connection, _INSERT, [tuple(row[name] for name in COLUMNS) for row in rows])
        index(self._connection, [(row["key"], row["terms"]) for row in rows])
        self._derived += [(row["key"], each.entry.sources) for row, each in zip(rows, fresh, strict=True) if each.entry.sources]
        told = [(row["key"], facts.realm(each.entry.item.tags), each.facts) for row, each in zip(rows, fresh, strict=True)]
        facts.write(self._connection, number, told, self.now)
        self._replaced += [(row["key"], row["superseded_by"]) for row in rows if row["superseded_by"] is not None]

    def _row(self, number: int, key: int, fresh: _Fresh) -> dict[str, Any]:
        entry, item = fresh.entry, fresh.entry.item
        return {
            **fresh.derived,
            "key": key,
            "bank": number,
            "id": fresh.id,
            "type": entry.type,
            "source": entry.source,
            "importance": entry.importance,
            "veracity": entry.veracity,
            "evidence": entry.evidence,
            "mentioned_at": self.now if entry.said is None else to_ticks(entry.said),
            "occurred_start": maybe_ticks(entry.occurred_start),
            "occurred_end": maybe_ticks(entry.occurred_end),
            "valid_until": maybe_ticks(item.valid_until),
            "invalidated_at": maybe_ticks(entry.invalidated_at),
            "superseded_by": entry.superseded_by,
            "session": item.session,
            "position": None if item.session is None else self._place(number, item.session, entry.position),
            "speaker": item.speaker,
            "document": item.document_id,
            "context": item.context,
            "tags": to_json(item.tags),
            "metadata": to_json(item.metadata),
            "entities": to_json(item.entities),
        }

    def _place(self, number: int, session: str, wanted: int | None) -> int:
        """A place in a session: the memory's own where it comes after all that is there, else the next one."""
        if session not in self._places:
            self._places[session] = last_place(self._connection, number, session)
        following = self._places[session] + 1
        self._places[session] = following if wanted is None else max(wanted, following)
        return self._places[session]


def _fresh(entry: Entry, identity: str) -> _Fresh:
    """What a memory's row holds; a statement that stands alone keeps what tells it from others."""
    spoken = words(entry.item.content)
    values = content_values(entry.item, entry.type, spoken, alone=False)
    derived = values if entry.digest is None else {**values, "digest": entry.digest}
    repeats = entry.type == OBSERVATION and entry.sources
    return _Fresh(entry, identity, derived, () if repeats else facts_of(entry.item.content, spoken, entry.item.speaker))
