"""Writing memories: duplicates, places in a session, documents that are replaced. All inside the caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lorebank._database.driver import Source, rows_of, run, run_many
from lorebank._domain.memory import Outcome, Receipt
from lorebank._mnemopi.rows import DRAFTED, PLACED, Draft
from lorebank._mnemopi.schema import key_range

_COLUMNS = PLACED + DRAFTED
_INSERT = f"INSERT INTO memories ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names
_KNOWN = """SELECT digest, key, id, invalidated_at IS NULL AND (valid_until IS NULL OR valid_until > ?) FROM memories
            WHERE bank = ? AND digest IN ({})"""
_KNOWN_AT_ONCE = 500
_AGAIN = """UPDATE memories SET evidence = evidence + ?, importance = max(importance, ?),
            valid_until = CASE WHEN valid_until IS NULL OR ? IS NULL THEN NULL ELSE max(valid_until, ?) END
            WHERE bank = ? AND key = ?"""
_REVIVE = """UPDATE memories SET evidence = evidence + ?, invalidated_at = NULL, superseded_by = NULL, valid_until = ?,
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


def bank_number(connection: Source, name: str) -> int | None:
    """The bank's number in this file, or `None` where it holds no such bank."""
    found = rows_of(connection, _BANK, (name,))
    return int(found[0][0]) if found else None


def ensure_bank(connection: Source, name: str) -> int:
    """The bank's number; a new bank is made."""
    number = bank_number(connection, name)
    return number if number is not None else int(rows_of(connection, _NEW_BANK, (name,))[0][0])


def add(connection: Source, bank: str, drafts: Sequence[Draft], *, replaced: Sequence[str], now: int) -> Receipt:
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
        run(connection, _AGAIN, (todo.said[draft.digest], draft.importance, draft.valid_until, draft.valid_until, number, key))
    for key, draft in todo.revived:
        run(connection, _REVIVE, (todo.said[draft.digest], draft.valid_until, draft.mentioned_at, number, key))
    return Receipt(stored=tuple(todo.stored), duplicates=tuple(todo.duplicates))


def grow(connection: Source, number: int, *, size: int, length: int, sequence: int = 0) -> int:
    """Counts memories and terms in or out of a bank; gives the last number of the sequence that was drawn."""
    return int(rows_of(connection, _GROW, (sequence, size, length, number))[0][0])


def _sort(connection: Source, number: int, drafts: Sequence[Draft], now: int) -> _Sorted:
    todo = _Sorted()
    known = _known(connection, number, drafts, now)
    for draft in drafts:
        document = draft.document
        todo.said[draft.digest] += 1
        if first := todo.fresh.get(draft.digest):
            todo.duplicates.append(Outcome(first.id, "already known", document))
        elif draft.digest not in known:
            todo.fresh[draft.digest] = draft
            todo.stored.append(Outcome(draft.id, None, document))
        else:
            key, identity, live = known[draft.digest]
            if todo.said[draft.digest] == 1:
                known[draft.digest] = (key, identity, True)
                (todo.again if live else todo.revived).append((key, draft))
            outcome = Outcome(identity, "already known" if live else "lives again", document)
            (todo.duplicates if live else todo.stored).append(outcome)
    return todo


def _known(connection: Source, number: int, drafts: Sequence[Draft], now: int) -> dict[bytes, tuple[int, str, bool]]:
    """The rows that hold the drafts' statements already: key, id, and whether they are live."""
    digests = list({draft.digest for draft in drafts})
    found: dict[bytes, tuple[int, str, bool]] = {}
    for start in range(0, len(digests), _KNOWN_AT_ONCE):
        part = digests[start : start + _KNOWN_AT_ONCE]
        rows = rows_of(connection, _KNOWN.format(",".join("?" * len(part))), (now, number, *part))
        found |= {row[0]: (row[1], row[2], bool(row[3])) for row in rows}
    return found


def _rows(connection: Source, number: int, todo: _Sorted) -> Iterator[tuple[object, ...]]:
    """The new rows, each with the next key of its bank and the next place in its session."""
    count = len(todo.fresh)
    last = grow(connection, number, size=count, length=sum(each.length for each in todo.fresh.values()), sequence=count)
    places: dict[str, int] = {}
    for key, (said, draft) in enumerate(todo.fresh.items(), key_range(number)[0] + last - count + 1):
        place = None if draft.session is None else _next_place(connection, number, draft.session, places)
        yield (key, number, place, todo.said[said], *draft.row)


def _next_place(connection: Source, number: int, session: str, places: dict[str, int]) -> int:
    """The next place in a session; `places` remembers the last one of each."""
    if session not in places:
        found = rows_of(connection, _LAST_PLACE, (number, session))[0][0]
        places[session] = -1 if found is None else found
    places[session] += 1
    return places[session]
