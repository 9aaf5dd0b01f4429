"""Writing memories: duplicates, places in a session, documents that are replaced. All inside the caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from lorebank._database.driver import rows_of, run, run_many
from lorebank._domain.memory import Outcome, Receipt
from lorebank._mnemopi.rows import Draft
from lorebank._mnemopi.schema import key_range, memories

_COLUMNS = tuple(column.name for column in memories.columns)
_INSERT = f"INSERT INTO memories ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names
_KNOWN = """SELECT key, id, invalidated_at IS NULL AND (valid_until IS NULL OR valid_until > ?) FROM memories
            WHERE bank = ? AND digest = ?"""
_AGAIN = """UPDATE memories SET evidence = evidence + 1, importance = max(importance, ?),
            valid_until = CASE WHEN valid_until IS NULL OR ? IS NULL THEN NULL ELSE max(valid_until, ?) END
            WHERE bank = ? AND key = ?"""
_REVIVE = """UPDATE memories SET evidence = evidence + 1, invalidated_at = NULL, superseded_by = NULL, valid_until = ?,
             mentioned_at = ? WHERE bank = ? AND key = ?"""
_LAST_PLACE = "SELECT max(position) FROM memories WHERE bank = ? AND session = ?"
_BANK = "SELECT number FROM banks WHERE name = ?"
_NEW_BANK = "INSERT INTO banks (name, sequence, size, length) VALUES (?, 0, 0, 0) RETURNING number"
_GROW = """UPDATE banks SET sequence = sequence + ?, size = size + ?, length = length + ? WHERE number = ?
           RETURNING sequence"""
_REPLACE = "UPDATE memories SET invalidated_at = ? WHERE bank = ? AND document = ? AND invalidated_at IS NULL"


@dataclass(slots=True)
class _Sorted:
    """Drafts by what is to be done: new rows, with how often each was said, and rows that are there already."""

    fresh: dict[bytes, Draft] = field(default_factory=dict[bytes, Draft])
    said: Counter[bytes] = field(default_factory=Counter[bytes])
    again: list[tuple[int, Draft]] = field(default_factory=list[tuple[int, Draft]])
    revived: list[tuple[int, Draft]] = field(default_factory=list[tuple[int, Draft]])
    stored: list[Outcome] = field(default_factory=list[Outcome])
    duplicates: list[Outcome] = field(default_factory=list[Outcome])


def bank_number(connection: Connection, name: str) -> int | None:
    """The bank's number in this file, or `None` where it holds no such bank."""
    found = rows_of(connection, _BANK, (name,))
    return int(found[0][0]) if found else None


def ensure_bank(connection: Connection, name: str) -> int:
    """The bank's number; a new bank is made."""
    number = bank_number(connection, name)
    return number if number is not None else int(rows_of(connection, _NEW_BANK, (name,))[0][0])


def add(connection: Connection, bank: str, drafts: Sequence[Draft], *, replaced: Sequence[str], now: int) -> Receipt:
    """Writes the drafts, in order, and says what became of each.

    A statement that is there already gets one more piece of evidence; one that was invalidated or has expired lives
    again. `replaced` are the documents whose former memories the drafts replace. `now` is in ticks.
    """
    number = ensure_bank(connection, bank)
    for document in replaced:
        run(connection, _REPLACE, (now, number, document))
    todo = _sort(connection, number, drafts, now)
    if todo.fresh:
        run_many(connection, _INSERT, list(_rows(connection, number, todo)))
    for key, draft in todo.again:
        until = draft.values["valid_until"]
        run(connection, _AGAIN, (draft.values["importance"], until, until, number, key))
    for key, draft in todo.revived:
        run(connection, _REVIVE, (draft.values["valid_until"], draft.values["mentioned_at"], number, key))
    return Receipt(stored=tuple(todo.stored), duplicates=tuple(todo.duplicates))


def grow(connection: Connection, number: int, *, size: int, length: int, sequence: int = 0) -> int:
    """Counts memories and terms in or out of a bank; gives the last number of the sequence that was drawn."""
    return int(rows_of(connection, _GROW, (sequence, size, length, number))[0][0])


def _sort(connection: Connection, number: int, drafts: Sequence[Draft], now: int) -> _Sorted:
    todo = _Sorted()
    seen: dict[bytes, str] = {}
    for draft in drafts:
        document = draft.values["document"]
        todo.said[draft.digest] += 1
        if draft.digest in seen:
            todo.duplicates.append(Outcome(seen[draft.digest], "already known", document))
            continue
        known = rows_of(connection, _KNOWN, (now, number, draft.digest))
        seen[draft.digest] = known[0][1] if known else draft.id
        if not known:
            todo.fresh[draft.digest] = draft
            todo.stored.append(Outcome(draft.id, document_id=document))
        elif known[0][2]:
            todo.again.append((known[0][0], draft))
            todo.duplicates.append(Outcome(known[0][1], "already known", document))
        else:
            todo.revived.append((known[0][0], draft))
            todo.stored.append(Outcome(known[0][1], "lives again", document))
    return todo


def _rows(connection: Connection, number: int, todo: _Sorted) -> Iterator[tuple[object, ...]]:
    """The new rows, each with the next key of its bank and the next place in its session."""
    count = len(todo.fresh)
    last = grow(connection, number, size=count, length=sum(each.length for each in todo.fresh.values()), sequence=count)
    key = key_range(number)[0] + last - count
    places: dict[str, int] = {}
    for said, draft in todo.fresh.items():
        key += 1
        session: str | None = draft.values["session"]
        if session is not None and session not in places:
            found = rows_of(connection, _LAST_PLACE, (number, session))[0][0]
            places[session] = -1 if found is None else found
        if session is not None:
            places[session] += 1
        derived = {
            "key": key,
            "bank": number,
            "evidence": todo.said[said],
            "position": None if session is None else places[session],
        }
        row = {**draft.values, **derived}
        yield tuple(row.get(name) for name in _COLUMNS)
