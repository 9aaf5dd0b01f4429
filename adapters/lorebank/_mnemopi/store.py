"""Writing memories: duplicates, places in a session, documents that are replaced. All inside the caller's transaction."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lorebank._database.driver import Source, rows_of, run, run_many
from lorebank._domain.memory import Outcome, Receipt
from lorebank._mnemopi.dialects import spoken
from lorebank._mnemopi.facts import store as facts
from lorebank._mnemopi.jobs.marks import redo
from lorebank._mnemopi.rows import DRAFTED, PLACED, Draft
from lorebank._mnemopi.schema import OBSERVATION, key_range

_COLUMNS = PLACED + DRAFTED
_INSERT = f"INSERT INTO memories ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names
_KNOWN = """SELECT digest, key, id, invalidated_at IS NULL AND (valid_until IS NULL OR valid_until > ?) FROM memories
            WHERE bank = ? AND digest IN ({})"""
_KNOWN_AT_ONCE = 500
_AGAIN = spoken("""UPDATE memories SET evidence = evidence + ?, importance = {greater}(importance, ?),
            valid_until = CASE WHEN valid_until IS NULL OR CAST(? AS bigint) IS NULL THEN NULL
            ELSE {greater}(valid_until, CAST(? AS bigint)) END WHERE bank = ? AND key = ?""")
_REVIVE = """UPDATE memories SET evidence = evidence + ?, invalidated_at = NULL, superseded_by = NULL, valid_until = ?,
             mentioned_at = ? WHERE bank = ? AND key = ?"""
_INDEX = spoken("INSERT INTO memory_terms {indexed}")
_TERMS = _COLUMNS.index("terms")
_LAST_PLACE = "SELECT max(position) FROM memories WHERE bank = ? AND session = ?"
_BANK = "SELECT number FROM banks WHERE name = ?"
_SIZE = "SELECT size FROM banks WHERE number = ?"
_NEW_BANK = "INSERT INTO banks (name, sequence, size, length) VALUES (?, 0, 0, 0) RETURNING number"
_GROW = """UPDATE banks SET sequence = sequence + ?, size = size + ?, length = length + ? WHERE number = ?
           RETURNING sequence"""


@dataclass(frozen=True, slots=True)
class _Known:
    """A row that holds a statement already; `live` where it is neither invalidated nor expired."""

    key: int
    id: str
    live: bool


def bank_number(connection: Source, name: str) -> int | None:
    """The bank's number in this file, or `None` where it holds no such bank."""
    found = rows_of(connection, _BANK, (name,))
    return int(found[0][0]) if found else None


def bank_size(connection: Source, number: int) -> int:
    """How many memories a bank holds, in whatever state; observations, which repeat others, are not counted."""
    return int(rows_of(connection, _SIZE, (number,))[0][0])


def ensure_bank(connection: Source, name: str) -> int:
    """The bank's number; a new bank is made."""
    number = bank_number(connection, name)
    return number if number is not None else int(rows_of(connection, _NEW_BANK, (name,))[0][0])


def add(connection: Source, bank: str, drafts: Sequence[Draft], *, now: int) -> Receipt:
    """Writes the drafts, in order, and says what became of each.

    A statement that is there already gets one more piece of evidence; one that was invalidated or has expired lives
    again. `now` is in ticks.
    """
    number = ensure_bank(connection, bank)
    said = Counter([draft.digest for draft in drafts])
    first: dict[bytes, Draft] = {}
    for draft in drafts:
        first.setdefault(draft.digest, draft)
    known = _known(connection, number, list(first), now)
    fresh = [draft for digest, draft in first.items() if digest not in known]
    ids = _insert(connection, number, fresh, said, now)
    for digest, row in known.items():
        _say_again(connection, number, row, first[digest], said[digest])
    revived = [row.key for row in known.values() if not row.live]
    redo(connection, revived)
    facts.settle(connection, number, facts.slots_of(connection, number, revived), now)
    return _receipt(drafts, known, ids)


def grow(connection: Source, number: int, *, size: int, length: int, sequence: int = 0) -> int:
    """Counts memories and terms in or out of a bank; gives the last number of the sequence that was drawn."""
    return int(rows_of(connection, _GROW, (sequence, size, length, number))[0][0])


def _known(connection: Source, number: int, digests: Sequence[bytes], now: int) -> dict[bytes, _Known]:
    """The rows that hold these statements already."""
    found: dict[bytes, _Known] = {}
    for start in range(0, len(digests), _KNOWN_AT_ONCE):
        part = digests[start : start + _KNOWN_AT_ONCE]
        rows = rows_of(connection, _KNOWN.format(",".join("?" * len(part))), (now, number, *part))
        found |= {row[0]: _Known(row[1], row[2], bool(row[3])) for row in rows}
    return found


def _insert(connection: Source, number: int, fresh: Sequence[Draft], said: Mapping[bytes, int], now: int) -> dict[bytes, str]:
    """Writes new rows, each with the next key of its bank and the next place in its session; gives their ids.

    An id is the row's number in its bank and three random bytes: unique by the one, not to be guessed by the other, and
    growing, so that its index is appended to.
    """
    if not fresh:
        return {}
    count = len(fresh)
    counted = [draft.length for draft in fresh if draft.type != OBSERVATION]
    last = grow(connection, number, size=len(counted), length=sum(counted), sequence=count)
    chance = secrets.token_hex(3 * count)
    places: dict[str, int] = {}
    ids: dict[bytes, str] = {}
    rows: list[tuple[Any, ...]] = []
    base = key_range(number)[0]
    for place, draft in enumerate(fresh):
        sequence = last - count + 1 + place
        identity = ids[draft.digest] = f"{sequence:010x}{chance[6 * place : 6 * place + 6]}"
        at = None if draft.session is None else _next_place(connection, number, draft.session, places)
        rows.append((base + sequence, number, at, said[draft.digest], identity, *draft.row))
    run_many(connection, _INSERT, rows)
    index(connection, [(row[0], row[_TERMS]) for row in rows])
    told = [(row[0], draft.realm, draft.facts) for row, draft in zip(rows, fresh, strict=True) if draft.facts]
    facts.write(connection, number, told, now)
    return ids


def index(connection: Source, said: Sequence[tuple[int, str]]) -> None:
    """Puts new rows, their keys and terms, into the full-text index. With nothing else between them they become one piece of
    it; from a trigger each row would be one.
    """
    run_many(connection, _INDEX, said)


def _next_place(connection: Source, number: int, session: str, places: dict[str, int]) -> int:
    """The next place in a session; `places` remembers the last one of each."""
    if session not in places:
        places[session] = last_place(connection, number, session)
    places[session] += 1
    return places[session]


def last_place(connection: Source, number: int, session: str) -> int:
    """The last place that is taken in a session; -1 where it has none."""
    found = rows_of(connection, _LAST_PLACE, (number, session))[0][0]
    return -1 if found is None else int(found)


def _say_again(connection: Source, number: int, row: _Known, draft: Draft, times: int) -> None:
    """One more piece of evidence each time; a row that was out of recall comes back."""
    if row.live:
        run(connection, _AGAIN, (times, draft.importance, draft.valid_until, draft.valid_until, number, row.key))
    else:
        run(connection, _REVIVE, (times, draft.valid_until, draft.mentioned_at, number, row.key))


def _receipt(drafts: Sequence[Draft], known: Mapping[bytes, _Known], ids: Mapping[bytes, str]) -> Receipt:
    """What became of each draft, in order."""
    stored: list[Outcome] = []
    duplicates: list[Outcome] = []
    seen: set[bytes] = set()
    for draft in drafts:
        row = known.get(draft.digest)
        identity = ids[draft.digest] if row is None else row.id
        if draft.digest in seen or (row is not None and row.live):
            duplicates.append(Outcome(identity, "already known", draft.document))
        else:
            stored.append(Outcome(identity, None if row is None else "lives again", draft.document))
        seen.add(draft.digest)
    return Receipt(stored=tuple(stored), duplicates=tuple(duplicates))
