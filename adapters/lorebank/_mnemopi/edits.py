"""Reading, changing and removing single memories. Every statement names the banks it may touch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, false, or_, select, update

from lorebank._domain.entities import NEWEST
from lorebank._domain.item import Item
from lorebank._domain.memory import TRANSCRIPT, Memory
from lorebank._domain.requests import Change, ListRequest, Selection
from lorebank._domain.scope import Scope
from lorebank._mnemopi import derived
from lorebank._mnemopi.derived import Chosen, derived_from
from lorebank._mnemopi.entities import entities_of
from lorebank._mnemopi.facts import store as facts
from lorebank._mnemopi.facts.rules import facts_of
from lorebank._mnemopi.jobs.marks import redo
from lorebank._mnemopi.rows import content_values, maybe_moment, tags_of, to_json, to_memory, to_ticks
from lorebank._mnemopi.schema import OBSERVATION, banks, memories
from lorebank._mnemopi.search.kinds import count_terms
from lorebank._mnemopi.search.terms import words
from lorebank._mnemopi.search.traits import TIMED
from lorebank._mnemopi.store import bank_number, grow
from lorebank.errors import MissingError

PAGE = 500


def fetch(connection: Connection, scope: Scope, memory_id: str, within: Sequence[str]) -> dict[str, Any]:
    """The row of a memory that the scope may read, from one of the banks `within`; `MissingError` otherwise.

    A memory of another bank and one that does not exist are the same to the caller.
    """
    query = (
        select(memories, banks.c.name.label("bank_name"))
        .join(banks, banks.c.number == memories.c.bank)
        .where(memories.c.id == memory_id, banks.c.name.in_(within))
    )
    found = [dict(row) for row in connection.execute(query).mappings() if scope.admits(tags_of(row["tags"]))]
    if not found:
        raise MissingError(f"no memory {memory_id!r} in {' or '.join(map(repr, within))}")
    return min(found, key=lambda row: within.index(row["bank_name"]))


def get(connection: Connection, scope: Scope, memory_id: str) -> Memory:
    """The memory, whatever its state."""
    row = fetch(connection, scope, memory_id, scope.searched)
    return _with_sources(connection, [row])[0]


def page(connection: Connection, scope: Scope, request: ListRequest, now: int) -> tuple[Memory, ...]:
    """One page of the memories that the scope may read, newest first."""
    query = (
        select(memories, banks.c.name.label("bank_name"))
        .join(banks, banks.c.number == memories.c.bank)
        .where(banks.c.name.in_(scope.searched), _kept(request, now), _matching(request.selection))
        .order_by(memories.c.mentioned_at.desc(), memories.c.key.desc())
    )
    if request.before is not None:
        query = query.where(memories.c.mentioned_at < to_ticks(request.before))
    if request.types is not None:
        query = query.where(memories.c.type.in_(request.types))
    found: list[dict[str, Any]] = []
    passed = 0
    with connection.execute(query.execution_options(yield_per=PAGE)) as rows:
        for row in rows.mappings():
            if _admitted(scope, request.selection, tags_of(row["tags"])):
                passed += 1
                if passed > request.offset:
                    found.append(dict(row))
                if len(found) == request.limit:
                    break
    return tuple(_with_sources(connection, found))


def _with_sources(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[Memory]:
    """The memories of these rows, with the ids of what they were derived from."""
    origins = derived.sources_of(connection, [row["key"] for row in rows])
    found = [(to_memory(row, row["bank_name"]), origins.get(row["key"])) for row in rows]
    return [replace(memory, derived_from=tuple(ids.values())) if ids else memory for memory, ids in found]


def _kept(request: ListRequest, now: int) -> ColumnElement[bool]:
    valid = and_(memories.c.invalidated_at.is_(None), or_(memories.c.valid_until.is_(None), memories.c.valid_until > now))
    return {"valid": valid, "invalidated": ~valid, "all": memories.c.key.is_not(None)}[request.kept]


def _matching(selection: Selection) -> ColumnElement[bool]:
    """What of a selection the database can decide."""
    clauses: list[ColumnElement[bool]] = [memories.c.key.is_not(None)]
    if selection.ids:
        clauses.append(memories.c.id.in_(selection.ids))
    if selection.session is not None:
        clauses.append(memories.c.session == selection.session)
    if selection.document is not None:
        clauses.append(memories.c.document == selection.document)
    return and_(*clauses)


def _admitted(scope: Scope, selection: Selection, tags: tuple[str, ...]) -> bool:
    rule = selection.rule
    return scope.admits(tags) and set(selection.tags) <= set(tags) and (rule is None or rule.admits(tags))


def change(connection: Connection, scope: Scope, memory_id: str, asked: Change, now: int) -> tuple[Memory, list[str]]:
    """Changes a memory; what was derived from the old text is derived anew. Gives the ids of what went with it, too."""
    row = fetch(connection, scope, memory_id, scope.reads)
    values: dict[str, Any] = {}
    gone: list[str] = []
    if asked.importance is not None:
        values["importance"] = asked.importance
    if asked.metadata is not None:
        values["metadata"] = to_json(asked.metadata)
    if asked.tags is not None:
        values["tags"] = to_json((*asked.tags, *(tag for tag in scope.stamp if tag not in asked.tags)))
    if asked.content is not None or asked.tags is not None:
        item = _item(row, asked.content or row["content"], tags_of(values.get("tags", row["tags"])))
        spoken = words(item.content)
        values |= content_values(item, row["type"], spoken, alone=row["source"] == TRANSCRIPT.source)
        if row["type"] != OBSERVATION:
            grow(connection, row["bank"], size=0, length=count_terms(values["terms"]) - count_terms(row["terms"]))
        told = (facts.realm(item.tags), facts_of(item.content, spoken, item.speaker))
        gone = derived.changed(connection, row["key"], now, own=asked.content is not None)
        facts.rewrite(connection, row["bank"], row["key"], told, now)
    if values:
        connection.execute(update(memories).where(memories.c.key == row["key"], memories.c.bank == row["bank"]).values(values))
    return get(connection, replace(scope, required=None), memory_id), gone


def _item(row: Mapping[str, Any], content: str, tags: tuple[str, ...]) -> Item:
    """The item a row would be retained as."""
    return Item(
        content,
        context=row["context"],
        tags=tags,
        session=row["session"],
        speaker=row["speaker"],
        document_id=row["document"],
        timestamp=maybe_moment(row["mentioned_at"]) if row["traits"] & TIMED else None,
        entities=tags_of(row["entities"]),
    )


def invalidate(
    connection: Connection, scope: Scope, memory_id: str, replacement: str | None, now: int
) -> tuple[Memory, list[str]]:
    """Takes a memory out of recall for good, but keeps it; `replacement` is the memory that holds the truth now. Gives the ids
    of what was derived from it, and is gone, too.
    """
    row = fetch(connection, scope, memory_id, scope.reads)
    if replacement is not None:
        fetch(connection, scope, replacement, scope.searched)
    values = {"invalidated_at": row["invalidated_at"] or now, "superseded_by": replacement or row["superseded_by"]}
    connection.execute(update(memories).where(memories.c.key == row["key"], memories.c.bank == row["bank"]).values(values))
    gone = derived.drop(connection, [row["key"]], now)
    facts.settle(connection, row["bank"], facts.slots_of(connection, row["bank"], [row["key"]]), now)
    return get(connection, scope, memory_id), gone


def revalidate(connection: Connection, scope: Scope, memory_id: str, now: int) -> Memory:
    """Brings an invalidated memory back into recall; one that is valid stays as it is. What was derived from it comes anew."""
    row = fetch(connection, scope, memory_id, scope.reads)
    if row["invalidated_at"] is not None:
        values = {"invalidated_at": None, "superseded_by": None}
        connection.execute(update(memories).where(memories.c.key == row["key"], memories.c.bank == row["bank"]).values(values))
        redo(connection, [row["key"]])
        facts.settle(connection, row["bank"], facts.slots_of(connection, row["bank"], [row["key"]]), now)
    return get(connection, scope, memory_id)


def names(connection: Connection, scope: Scope, now: int) -> list[tuple[str, ...]]:
    """The names in each of the newest valid memories that the scope may read; observations, which repeat others, aside."""
    query = (
        select(memories.c.content, memories.c.entities, memories.c.tags)
        .join(banks, banks.c.number == memories.c.bank)
        .where(banks.c.name.in_(scope.searched), _kept(ListRequest(1), now), memories.c.type != OBSERVATION)
        .order_by(memories.c.mentioned_at.desc(), memories.c.key.desc())
        .limit(NEWEST)
    )
    rows = [row for row in connection.execute(query).all() if scope.admits(tags_of(row.tags))]
    return [(*tags_of(row.entities), *entities_of(row.content)) for row in rows]


def choose(connection: Connection, scope: Scope, selection: Selection) -> list[Chosen]:
    """The memories that a selection means in the scope's own bank, and what was derived from them. One given by id must exist,
    there or in a bank the scope may edit.
    """
    meant = _meant(connection, scope, selection)
    return list(dict.fromkeys((*meant, *derived_from(connection, [each.key for each in meant]))))


def _meant(connection: Connection, scope: Scope, selection: Selection) -> list[Chosen]:
    if selection.ids and selection == Selection(ids=selection.ids):
        rows = [fetch(connection, scope, each, scope.reads) for each in selection.ids]
        return [Chosen(row["key"], row["bank"], row["id"]) for row in rows]
    number = bank_number(connection, scope.bank)
    clause = memories.c.bank == number if number is not None else false()
    columns = select(memories.c.key, memories.c.bank, memories.c.id, memories.c.tags)
    query = columns.where(clause, _matching(selection)).order_by(memories.c.key)
    found = connection.execute(query).all()
    return [Chosen(row.key, row.bank, row.id) for row in found if _admitted(scope, selection, tags_of(row.tags))]


def based_on(text: str | None) -> tuple[str, ...]:
    """The memory ids a mental model was written from."""
    return tuple(json.loads(text)) if text else ()
