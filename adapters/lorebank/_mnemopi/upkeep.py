"""Care for the file: purging what was deleted, checking what is stored, counting, emptying a bank."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, delete, func, select, update

from lorebank._database.driver import Source, rows_of, run
from lorebank._database.engine import Database
from lorebank._domain.requests import Integrity, Stats
from lorebank._domain.scope import Scope
from lorebank._mnemopi.derived import dangling
from lorebank._mnemopi.dialects import speech, speech_of
from lorebank._mnemopi.rows import maybe_moment
from lorebank._mnemopi.schema import OBSERVATION, OWED, banks, key_range, memories, models, revisions
from lorebank._mnemopi.search.kinds import count_terms
from lorebank._mnemopi.store import bank_number

_STRAYS = """SELECT count(*) FROM vectors v WHERE v.bank = ?
             AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.key = v.key AND m.bank = v.bank)"""


def owe_purge(connection: Connection) -> None:
    """Notes, in the transaction that deletes, that the file is to be purged: a crash in between forgets nothing."""
    run(connection, "INSERT INTO chores (name) VALUES (?)", (f"purge {secrets.token_hex(8)}",))


def owes_purge(connection: Source) -> bool:
    return bool(rows_of(connection, OWED))


def purge(database: Database, wait: float, *, thorough: bool = False) -> str | None:
    """Removes what deleted rows have left; gives why it could not, or `None`. It stays noted until it has succeeded."""
    return speech_of(database).purge(database, wait, thorough=thorough)


def check(connection: Connection, scope: Scope) -> Integrity:
    """Whether the database is sound: its own check, the full-text index against the rows, the counts of the scope's banks."""
    problems = speech(connection).problems(connection)
    for name in scope.searched:
        number = bank_number(connection, name)
        if number is not None:
            problems += _miscounted(connection, name, number)
            if strays := rows_of(connection, _STRAYS, (number,))[0][0]:
                problems.append(f"bank {name!r} has {strays} vectors without a memory")
    if links := dangling(connection):
        problems.append(f"{links} links of derived memories to their sources lead nowhere")
    return Integrity(tuple(problems))


def _miscounted(connection: Connection, name: str, number: int) -> list[str]:
    size, length, last = rows_of(connection, "SELECT size, length, sequence FROM banks WHERE number = ?", (number,))[0]
    low, high = key_range(number)
    held = rows_of(connection, "SELECT key, terms, type FROM memories WHERE bank = ?", (number,))
    counted = [count_terms(terms) for _, terms, kind in held if kind != OBSERVATION]
    problems: list[str] = []
    if size != len(counted) or length != sum(counted):
        problems.append(f"bank {name!r} counts {size} memories and {length} terms; it holds {len(counted)}")
    if strays := [key for key, _, _ in held if not low < key <= min(high, low + last)]:
        problems.append(f"bank {name!r} has {len(strays)} memories outside its range of keys")
    return problems


def empty(connection: Connection, name: str) -> list[str]:
    """Deletes all that a bank holds; its name and its count of keys stay, so that no key is used twice. Gives the ids."""
    number = bank_number(connection, name)
    if number is None:
        return []
    ids = list(connection.scalars(select(memories.c.id).where(memories.c.bank == number).order_by(memories.c.key)))
    for table in (memories, models, revisions):
        connection.execute(delete(table).where(table.c.bank == number))
    connection.execute(update(banks).where(banks.c.number == number).values(size=0, length=0))
    return ids


def stats(connection: Connection, database: Database, scope: Scope) -> Stats:
    """Counts of the scope's own bank."""
    number = bank_number(connection, scope.bank) or 0
    mine = memories.c.bank == number

    def grouped(column: str) -> dict[str, int]:
        query = select(memories.c[column], func.count()).where(mine).group_by(memories.c[column]).order_by(memories.c[column])
        return {str(value): int(count) for value, count in connection.execute(query)}

    total = select(
        func.count(),
        func.count(memories.c.invalidated_at),
        func.count(func.distinct(memories.c.session)),
        func.min(memories.c.mentioned_at),
        func.max(memories.c.mentioned_at),
    ).where(mine)
    count, invalidated, sessions, oldest, newest = connection.execute(total).one()
    return Stats(
        bank=scope.bank,
        memories=count,
        invalidated=invalidated,
        by_type=grouped("type"),
        by_source=grouped("source"),
        sessions=sessions,
        mental_models=connection.scalar(select(func.count()).select_from(models).where(models.c.bank == number)) or 0,
        oldest=maybe_moment(oldest),
        newest=maybe_moment(newest),
        bytes=speech_of(database).size(connection, database),
    )
