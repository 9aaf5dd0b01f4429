"""How far a bank's follow-up work has come: a mark for each bank and kind, and a list of what is to be done again.

All that lies above the mark is to be done; so no list of new work can get lost. Who works on a bank holds a lease of it: two
processes do not ask a completer the same thing, and a killed one's lease runs out. `day` and `spent` count the tokens of a day.
All inside the caller's transaction; times are in ticks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lorebank._database.driver import Source, rows_of, run, run_many
from lorebank._mnemopi.dialects import spoken
from lorebank._mnemopi.schema import key_range

Kind = Literal["extraction", "consolidation"]
LEASE = 600_000_000
"""Ticks of a lease, renewed with each batch: more than a completer takes for one."""
DAY = 86_400_000_000

_STATE = """SELECT b.sequence, j.done, (SELECT count(*) FROM redo r WHERE r.bank = b.number AND r.kind = ?)
            FROM banks b LEFT JOIN jobs j ON j.bank = b.number AND j.kind = ? WHERE b.number = ?"""
_BEGIN = "INSERT INTO jobs (bank, kind, done) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_CLAIM = "UPDATE jobs SET owner = ?, leased = ? WHERE bank = ? AND kind = ? AND (owner IS NULL OR leased <= ?)"
_RELEASE = "UPDATE jobs SET owner = NULL, leased = 0 WHERE bank = ? AND kind = ? AND owner = ?"
_SETTLE = spoken("""UPDATE jobs SET done = {greater}(done, ?), leased = ?, spent = CASE WHEN day = ? THEN spent ELSE 0 END + ?,
                    day = ? WHERE bank = ? AND kind = ? AND owner = ?""")
_SPENT = "SELECT coalesce(sum(spent), 0) FROM jobs WHERE bank = ? AND day = ?"
_AGAIN = "SELECT key FROM redo WHERE bank = ? AND kind = ? ORDER BY key LIMIT ?"
_NEW = "SELECT key FROM memories WHERE key > ? AND key <= ? ORDER BY key LIMIT ?"
_SPAN = "SELECT min(mentioned_at), max(mentioned_at) FROM memories WHERE key > ? AND key <= ?"
_REDO = spoken("""INSERT INTO redo (bank, kind, key) SELECT j.bank, j.kind, m.key FROM {memories_by_key}
                  JOIN jobs j ON j.bank = m.bank WHERE j.done >= m.key ON CONFLICT DO NOTHING""")
_REDO_ONE = """INSERT INTO redo (bank, kind, key) SELECT m.bank, j.kind, m.key FROM memories m JOIN jobs j ON j.bank = m.bank
               WHERE j.kind = ? AND m.bank = ? AND m.key = ? ON CONFLICT DO NOTHING"""
_REDONE = "DELETE FROM redo WHERE bank = ? AND kind = ? AND key = ?"


@dataclass(frozen=True, slots=True)
class Job:
    """One kind of work on one bank: the bank's number and name."""

    bank: int
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a job has come: the last key that is done, the last that is there, how many keys are to be done again."""

    done: int
    last: int
    again: int

    @property
    def waiting(self) -> int:
        """About how many memories are still to be worked on."""
        return self.last - self.done + self.again


def mark(source: Source, job: Job) -> Mark:
    """How far the job has come."""
    low = key_range(job.bank)[0]
    sequence, done, again = rows_of(source, _STATE, (job.kind, job.kind, job.bank))[0]
    return Mark(low if done is None else done, low + sequence, again)


def span(source: Source, found: Mark, now: int) -> tuple[int, int]:
    """When the oldest and the newest of the waiting memories were said, as far as that is past."""
    first, last = rows_of(source, _SPAN, (found.done, found.last))[0]
    return (now, now) if first is None else (min(first, now), min(last, now))


def claim(source: Source, job: Job, owner: str, now: int) -> bool:
    """Takes the lease of a job, unless somebody else has it."""
    run(source, _BEGIN, (job.bank, job.kind, key_range(job.bank)[0]))
    return run(source, _CLAIM, (owner, now + LEASE, job.bank, job.kind, now)) == 1


def release(source: Source, job: Job, owner: str) -> None:
    run(source, _RELEASE, (job.bank, job.kind, owner))


def batch(source: Source, job: Job, size: int) -> list[int]:
    """The next keys to be worked on: what is to be done again, then new ones."""
    found = mark(source, job)
    again = [row[0] for row in rows_of(source, _AGAIN, (job.bank, job.kind, size))]
    fresh = [row[0] for row in rows_of(source, _NEW, (found.done, found.last, size - len(again)))] if len(again) < size else []
    return list(dict.fromkeys((*again, *fresh)))


def spent(source: Source, bank: int, now: int) -> int:
    """The tokens that a bank's follow-up work has cost today (UTC)."""
    return int(rows_of(source, _SPENT, (bank, now // DAY))[0][0])


@dataclass(frozen=True, slots=True)
class Settled:
    """A batch that was worked on: its keys, those of them that changed meanwhile, what it has cost."""

    keys: Sequence[int]
    changed: Sequence[int] = ()
    tokens: int = 0


def settle(source: Source, job: Job, owner: str, done: Settled, now: int) -> bool:
    """Moves the mark over a batch; what has changed meanwhile is done again. `False` where the lease was lost."""
    today = now // DAY
    top = max(done.keys, default=0)
    values = (top, now + LEASE, today, done.tokens, today, job.bank, job.kind, owner)
    if run(source, _SETTLE, values) != 1:
        return False
    run_many(source, _REDONE, [(job.bank, job.kind, key) for key in done.keys])
    if done.changed:
        run_many(source, _REDO_ONE, [(job.kind, job.bank, key) for key in done.changed])
    return True


def finish(source: Source, job: Job) -> None:
    """Moves the mark to the last key, where nothing lies between: keys of memories that are gone."""
    run(source, "UPDATE jobs SET done = ? WHERE bank = ? AND kind = ?", (mark(source, job).last, job.bank, job.kind))


def redo(source: Source, keys: Sequence[int]) -> None:
    """Has whatever was done with these memories done again; what was never begun needs no note."""
    if keys:
        run(source, _REDO, (json.dumps(list(keys)),))
