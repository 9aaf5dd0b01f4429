"""Documents and tags of the embedded engine: memories that share a `document_id`, and what they are tagged with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from lorebank._database.engine import Database
from lorebank._domain.operations import Document
from lorebank._domain.scope import Scope
from lorebank._mnemopi.rows import from_ticks, tags_of
from lorebank._mnemopi.schema import banks, memories
from lorebank.errors import MissingError


@dataclass(slots=True)
class _Group:
    """What is known of a document while its rows are read: tags in the order of their first use, times in ticks."""

    tags: dict[str, None] = field(default_factory=dict[str, None])
    memories: int = 0
    first: int = 0
    last: int = 0

    def add(self, tags: tuple[str, ...], count: int, first: int, last: int) -> None:
        self.tags |= dict.fromkeys(tags)
        self.first, self.last = (min(self.first, first), max(self.last, last)) if self.memories else (first, last)
        self.memories += count

    def document(self, name: str) -> Document:
        created, updated = from_ticks(self.first), from_ticks(self.last)
        return Document(name, tuple(self.tags), memories=self.memories, created_at=created, updated_at=updated)


class DocumentStore:
    """The documents of a file, as one scope may read them: valid memories only. Their times are those of what was said."""

    def __init__(self, database: Database, now: Callable[[], int]) -> None:
        self._database, self._now = database, now

    def list(self, scope: Scope, *, limit: int, offset: int) -> tuple[Document, ...]:
        """One page, newest first."""
        with self._database.read() as connection:
            groups = self._groups(connection, scope)
        newest = sorted(groups.items(), key=lambda pair: (-pair[1].last, pair[0]))
        return tuple(group.document(name) for name, group in newest[offset : offset + limit])

    def get(self, scope: Scope, document_id: str) -> Document:
        """One document with its text: its memories' contents in the order in which they were written, one a line."""
        query = _of(scope, self._now(), memories.c.content, memories.c.tags, memories.c.mentioned_at, banks.c.name)
        query = query.where(memories.c.document == document_id).order_by(memories.c.key)
        with self._database.read() as connection:
            rows = [row for row in connection.execute(query) if scope.admits(tags_of(row.tags))]
        if not rows:
            raise MissingError(f"no document {document_id!r} in {' or '.join(map(repr, scope.searched))}")
        rows.sort(key=lambda row: scope.searched.index(row.name))
        group = _Group()
        for row in rows:
            group.add(tags_of(row.tags), 1, row.mentioned_at, row.mentioned_at)
        return replace(group.document(document_id), text="\n".join(row.content for row in rows))

    def tags(self, scope: Scope) -> Mapping[str, int]:
        """How many valid memories carry each tag, the most frequent first."""
        counts: dict[str, int] = {}
        query = _of(scope, self._now(), memories.c.tags, func.count().label("held")).group_by(memories.c.tags)
        with self._database.read() as connection:
            for row in connection.execute(query):
                names = tags_of(row.tags)
                for name in names if scope.admits(names) else ():
                    counts[name] = counts.get(name, 0) + int(row.held)
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def _groups(self, connection: Connection, scope: Scope) -> dict[str, _Group]:
        """All documents; their rows are counted by tag set, so that each is admitted or not as a whole."""
        said = memories.c.mentioned_at
        counted = (func.count().label("held"), func.min(said).label("first"), func.max(said).label("last"))
        query = _of(scope, self._now(), memories.c.document, memories.c.tags, *counted).where(memories.c.document.is_not(None))
        query = query.group_by(memories.c.document, memories.c.tags).order_by(func.min(memories.c.key))
        groups: dict[str, _Group] = {}
        for row in connection.execute(query):
            tags = tags_of(row.tags)
            if scope.admits(tags):
                groups.setdefault(row.document, _Group()).add(tags, row.held, row.first, row.last)
        return groups


def _of(scope: Scope, now: int, *columns: ColumnElement[Any]) -> Select[Any]:
    """Columns of the valid memories in the banks that a scope reads."""
    valid = and_(memories.c.invalidated_at.is_(None), or_(memories.c.valid_until.is_(None), memories.c.valid_until > now))
    joined = select(*columns).join(banks, banks.c.number == memories.c.bank)
    return joined.where(banks.c.name.in_(scope.searched), valid)
