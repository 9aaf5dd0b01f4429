"""Exports and imports of the embedded engine: one bank of a file, read in one snapshot, written in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from lorebank._database.driver import rows_of
from lorebank._database.engine import Database
from lorebank._domain.archive import Archived, Dump, Entry, Loaded, ModelEntry, Rejection, item_of
from lorebank._domain.operations import Directive
from lorebank._domain.scope import Scope
from lorebank._mnemopi.archived_models import dump_models, load_models
from lorebank._mnemopi.derived import sources_of
from lorebank._mnemopi.merging import Merge
from lorebank._mnemopi.rows import COLUMNS, digest, from_ticks, maybe_moment, tags_of
from lorebank._mnemopi.schema import key_range
from lorebank._mnemopi.search.traits import TIMED
from lorebank._mnemopi.store import bank_number, bank_size

PAGE = 500
"""Memories that are read or written at once."""
_ROWS = f"SELECT {', '.join(COLUMNS)} FROM memories WHERE key > ? AND key <= ? ORDER BY key LIMIT {PAGE}"  # noqa: S608 - our names
_NO_DIRECTIVES = "Mnemopi has no directives: they steer the reflect of a Hindsight server"


class BankArchive:
    """The banks of one file, taken out and put in whole. `written` hears of new memories: they lack vectors."""

    def __init__(self, database: Database, now: Callable[[], int], written: Callable[[str, int], None]) -> None:
        self._database, self._now, self._written = database, now, written

    @contextmanager
    def dump(self, scope: Scope) -> Generator[Dump]:
        """The scope's own bank as it is at one moment: what is written meanwhile is not in it, and waits for nothing."""
        with self._database.read() as connection:
            number = bank_number(connection, scope.bank)
            count = 0 if number is None else bank_size(connection, number)
            yield Dump(count, iter(()) if number is None else _records(connection, scope, number))

    def load(self, scope: Scope, records: Iterable[Archived], *, dry_run: bool) -> Loaded:
        """Writes what the bank does not hold, in one transaction: all of it is there in the end, or nothing.

        One transaction, however many memories come: what replaces what (`superseded_by`), the places in sessions and what
        is already known can be told only of a whole, a process that is killed leaves nothing half done, and a file that
        proves to be damaged at its end has changed nothing. The price: who else writes to this database waits meanwhile
        (and is told after the busy timeout that it is busy, some minutes for a million memories); readers don't. A dry
        run reads only, and nobody waits.
        """
        if dry_run:
            with self._database.read() as connection:
                return _load(connection, Merge(connection, scope, bank_number(connection, scope.bank), self._now()), records)
        with self._database.write() as connection:
            loaded = _load(connection, Merge.into(connection, scope, self._now()), records)
        if loaded.added:
            self._written(scope.bank, loaded.added)
        return loaded


def _load(connection: Connection, merge: Merge, records: Iterable[Archived]) -> Loaded:
    """Memories page by page, then what refers to them."""
    models: list[ModelEntry] = []
    rejected: list[Rejection] = []
    for page in _pages(_entries(records, models, rejected)):
        merge.take(page)
    merge.finish()
    added, refused = load_models(connection, merge, models)
    return Loaded(merge.added, merge.known, 0, added, rejected=(*rejected, *refused))


def _entries(records: Iterable[Archived], models: list[ModelEntry], rejected: list[Rejection]) -> Iterator[Entry]:
    """The memories; what else comes is put aside. Documents are what their memories are: there is nothing to write."""
    for record in records:
        if isinstance(record, Entry):
            yield record
        elif isinstance(record, ModelEntry):
            models.append(record)
        elif isinstance(record, Directive):
            rejected.append(Rejection(record.id, _NO_DIRECTIVES))


def _pages(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    while page := list(islice(entries, PAGE)):
        yield page


def _records(connection: Connection, scope: Scope, number: int) -> Iterator[Archived]:
    """Memories in the order of their arrival, then mental models; those that the scope may not read are left out."""
    last, high = key_range(number)
    while rows := rows_of(connection, _ROWS, (last, high)):
        last = rows[-1][0]
        origins = sources_of(connection, [row[0] for row in rows])
        for values in rows:
            entry = _entry(dict(zip(COLUMNS, values, strict=True)), origins.get(values[0], {}))
            if scope.admits(entry.item.tags):
                yield entry
    yield from dump_models(connection, scope, number)


def _entry(row: dict[str, Any], origins: Mapping[int, str]) -> Entry:
    said = from_ticks(row["mentioned_at"])
    item = item_of(
        content=row["content"],
        context=row["context"],
        tags=tags_of(row["tags"]),
        metadata=json.loads(row["metadata"]) if row["metadata"] else None,
        timestamp=said if row["traits"] & TIMED else None,
        document_id=row["document"],
        entities=tags_of(row["entities"]),
        session=row["session"],
        speaker=row["speaker"],
        valid_until=maybe_moment(row["valid_until"]),
        importance=row["importance"],
        type=row["type"],
    )
    own = row["digest"] if row["digest"] != digest(item, row["type"]) else None
    return Entry(
        row["id"],
        item,
        row["source"],
        row["veracity"],
        row["evidence"],
        said,
        maybe_moment(row["occurred_start"]),
        maybe_moment(row["occurred_end"]),
        maybe_moment(row["invalidated_at"]),
        row["superseded_by"],
        row["position"],
        own,
        tuple(origins.values()),
    )
