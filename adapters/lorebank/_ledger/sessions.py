"""One session's rows, read and written inside a transaction that somebody else holds: statements for the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from lorebank._database.driver import Source, rows_of, run, run_many
from lorebank._domain.cursor import SHORT, Claim, Known
from lorebank._domain.memory import Receipt
from lorebank._domain.session import UNREADABLE, Choices, DocumentWrite, Progress, SessionRecord, Stored, read_choices
from lorebank._ledger.session_schema import ADDRESS, PROGRESS, SESSION, named

CHUNK = 512
"""Digests in one row of `histories`."""
AT_ONCE = 500
"""Values bound in one statement."""
_FIND = f"SELECT number, choices, {named(PROGRESS)} FROM sessions WHERE {' = ? AND '.join(ADDRESS)} = ?"  # noqa: S608
_ADD = f"INSERT INTO sessions ({named(SESSION)}) VALUES ({', '.join('?' * len(SESSION))}) RETURNING number"  # noqa: S608
_SET = f"UPDATE sessions SET choices = coalesce(?, choices), {named(PROGRESS, ' = ?')} WHERE number = ?"  # noqa: S608
_KNOWN = "SELECT identity, run, holder, kept, seen FROM cursors WHERE session = ? AND identity IN ({})"
_CLAIM = """INSERT INTO cursors (session, identity, run, holder, kept, seen) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING"""
_HISTORY = "SELECT digests FROM histories WHERE session = ? ORDER BY chunk"
_KEEP = """INSERT INTO histories (session, chunk, digests) VALUES (?, ?, ?)
           ON CONFLICT (session, chunk) DO UPDATE SET digests = excluded.digests"""


@dataclass(frozen=True, slots=True)
class Address:
    """Which session: the server it belongs to (none: Mnemopi's own file), bank, project and id."""

    place: str
    bank: str
    label: str
    id: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.place, self.bank, self.label, self.id


class Writing(Protocol):
    """How a backend writes what a session retains, inside the session's transaction."""

    def retain(self, source: Source, address: Address, writes: Sequence[DocumentWrite]) -> Receipt: ...
    def release(self, source: Source, address: Address) -> int: ...


class SessionRows:
    """The rows of one session."""

    def __init__(self, source: Source, address: Address, writing: Writing) -> None:
        self._source, self._address, self._writing = source, address, writing
        self._number: int | None = None

    def load(self) -> Stored:
        """The session; a new one where the ledger has none."""
        found = rows_of(self._source, _FIND, self._address.key)
        if not found:
            return Stored()
        self._number, choices, *progress = found[0]
        return Stored(read_choices(choices), Progress.read(progress))

    def save(self, choices: Choices | None, progress: Progress) -> None:
        """Writes the session down; choices of `None` stay as they are."""
        values = [getattr(progress, name) for name in PROGRESS]
        text = None if choices is None else choices.as_json()
        if self._number is None:
            [(self._number,)] = rows_of(self._source, _ADD, (*self._address.key, text, *values))
        else:
            run(self._source, _SET, (text, *values, self._number))

    def known(self, identities: Sequence[bytes]) -> Mapping[bytes, Known]:
        """Those of the identities that are taken."""
        found: dict[bytes, Known] = {}
        for start in range(0, len(identities) if self._number is not None else 0, AT_ONCE):
            part = identities[start : start + AT_ONCE]
            rows = rows_of(self._source, _KNOWN.format(",".join("?" * len(part))), (self._number, *part))
            found |= {identity: Known(in_run, by, bool(kept), seen) for identity, in_run, by, kept, seen in rows}
        return found

    def claim(self, claims: Sequence[Claim], now: float) -> None:
        """Takes identities, seen now where a claim does not say when; `save` comes first."""
        rows = [
            (self._number, each.identity, each.run, each.holder, int(each.kept), now if each.seen is None else each.seen)
            for each in claims
        ]
        run_many(self._source, _CLAIM, rows)

    def history(self) -> list[bytes]:
        """The digests of the last full history."""
        joined = b"".join(row[0] for row in rows_of(self._source, _HISTORY, (self._number,)))
        return [joined[start : start + SHORT] for start in range(0, len(joined), SHORT)]

    def keep_history(self, digests: Sequence[bytes], before: int) -> None:
        """Writes a history down whose first `before` messages stand there already."""
        chunk, inside = divmod(before, CHUNK)
        held = rows_of(self._source, "SELECT digests FROM histories WHERE session = ? AND chunk = ?", (self._number, chunk))
        rest = (held[0][0] if held else b"")[: inside * SHORT] + b"".join(digest[:SHORT] for digest in digests)
        run(self._source, "DELETE FROM histories WHERE session = ? AND chunk > ?", (self._number, chunk))
        size = CHUNK * SHORT
        rows = [(self._number, chunk + start // size, rest[start : start + size]) for start in range(0, len(rest), size)]
        run_many(self._source, _KEEP, rows)

    def trace(self, body: str, keep: int) -> None:
        """Keeps the newest `keep` traces, this one among them."""
        last = rows_of(self._source, "SELECT max(number) FROM traces WHERE session = ?", (self._number,))[0][0]
        number = 0 if last is None else last + 1
        run(self._source, "INSERT INTO traces (session, number, body) VALUES (?, ?, ?)", (self._number, number, body))
        run(self._source, "DELETE FROM traces WHERE session = ? AND number <= ?", (self._number, number - keep))

    def retain(self, writes: Sequence[DocumentWrite]) -> Receipt:
        """Writes what is new of these documents."""
        return self._writing.retain(self._source, self._address, writes)

    def release(self) -> int:
        """Lets go what is held back for the cadence; gives how many writes."""
        return self._writing.release(self._source, self._address)

    def last_trace(self) -> str | None:
        found = rows_of(self._source, "SELECT body FROM traces WHERE session = ? ORDER BY number DESC LIMIT 1", (self._number,))
        return str(found[0][0]) if found else None

    def traces(self) -> list[str]:
        """All that are kept, newest first."""
        found = rows_of(self._source, "SELECT body FROM traces WHERE session = ? ORDER BY number DESC", (self._number,))
        return [str(row[0]) for row in found]


def records(source: Source, place: str, bank: str, label: str, *, limit: int, offset: int) -> tuple[SessionRecord, ...]:
    """One page of a bank's sessions, those with the newest messages first; what can't be read counts as ignored."""
    rows = rows_of(source, _RECORDS, (place, bank, label, limit, offset))
    return tuple(_record(*row) for row in rows)


def _record(id: str, choices: str, turns: int, messages: int, kept: int, seen: float | None) -> SessionRecord:
    mode = (read_choices(choices) or UNREADABLE).mode
    return SessionRecord(id, mode, turns, messages, kept, None if seen is None else datetime.fromtimestamp(seen, UTC))


_RECORDS = """SELECT s.id, s.choices, s.turns, s.messages, (SELECT count(*) FROM traces t WHERE t.session = s.number),
              (SELECT max(c.seen) FROM cursors c WHERE c.session = s.number) AS latest
              FROM sessions s WHERE s.place = ? AND s.bank = ? AND s.label = ?
              ORDER BY coalesce((SELECT max(c.seen) FROM cursors c WHERE c.session = s.number), 0) DESC, s.number DESC
              LIMIT ? OFFSET ?"""
_FORGET = """DELETE FROM traces WHERE session IN
             (SELECT number FROM sessions WHERE place = ? AND bank = ? AND (CAST(? AS text) IS NULL OR id = ?))"""


def forget_traces(source: Source, place: str, bank: str, session: str | None = None) -> None:
    """Deletes the traces of a bank's sessions, or of one of them: they hold queries."""
    run(source, _FORGET, (place, bank, session, session))
