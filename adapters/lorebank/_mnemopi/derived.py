"""What was derived from memories, by extraction or consolidation, and goes when they change. All inside the caller's
transaction.

A derived memory repeats words of its sources. So where a source is deleted, changed or no longer true, it is deleted in the
same transaction; what its other sources say is derived anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lorebank._database.driver import Source, rows_of, run, run_many
from lorebank._mnemopi.dialects import spoken
from lorebank._mnemopi.facts import store as facts
from lorebank._mnemopi.jobs import marks
from lorebank._mnemopi.schema import OBSERVATION
from lorebank._mnemopi.search.kinds import count_terms
from lorebank._mnemopi.store import ensure_bank, grow

_DERIVED = spoken("SELECT DISTINCT m.key, m.bank, m.id FROM {sources_by_source} JOIN memories m ON m.key = s.key ORDER BY m.key")
_SOURCES = spoken("SELECT s.key, s.source, m.id FROM {sources_by_key} JOIN memories m ON m.key = s.source ORDER BY s.source")
_TERMS = spoken("SELECT m.terms FROM {memories_by_key} WHERE m.bank = ? AND m.type <> ?")
_DELETE = "DELETE FROM memories WHERE bank = ? AND key = ?"
_FREE = "UPDATE memories SET superseded_by = NULL WHERE bank = ? AND superseded_by = ?"
_KEYS = "SELECT id, key FROM memories WHERE bank = ? AND id IN ({})"
_LINK = "INSERT INTO sources (key, source) VALUES (?, ?) ON CONFLICT DO NOTHING"
_REPLACE = "UPDATE memories SET invalidated_at = ? WHERE bank = ? AND document = ? AND invalidated_at IS NULL RETURNING id, key"
_DANGLING = """SELECT count(*) FROM sources s LEFT JOIN memories m ON m.key = s.key LEFT JOIN memories o ON o.key = s.source
               WHERE m.key IS NULL OR o.key IS NULL OR m.bank <> o.bank"""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A memory that is to go: its row's key, its bank, its id."""

    key: int
    bank: int
    id: str


def derived_from(source: Source, keys: Sequence[int]) -> list[Chosen]:
    """The memories that were derived from these."""
    return [Chosen(*row) for row in rows_of(source, _DERIVED, (json.dumps(list(keys)),))] if keys else []


def sources_of(source: Source, keys: Sequence[int]) -> Mapping[int, Mapping[int, str]]:
    """The keys and ids of what these memories were derived from."""
    found: dict[int, dict[int, str]] = {}
    for key, origin, identity in rows_of(source, _SOURCES, (json.dumps(list(keys)),)) if keys else ():
        found.setdefault(key, {})[origin] = identity
    return found


def keys_of(source: Source, bank: int, ids: Sequence[str]) -> dict[str, int]:
    """The keys of memories of a bank, by their ids."""
    return dict(rows_of(source, _KEYS.format(",".join("?" * len(ids))), (bank, *ids))) if ids else {}


def link(source: Source, pairs: Sequence[tuple[int, int]]) -> None:
    """Notes what was derived from what: the derived memory's key, its source's."""
    if pairs:
        run_many(source, _LINK, pairs)


def drop(source: Source, keys: Sequence[int], now: int) -> list[str]:
    """Deletes what was derived from these memories; gives the ids. What it has owed to others is derived anew."""
    gone = derived_from(source, keys)
    others = {origin for each in sources_of(source, [each.key for each in gone]).values() for origin in each}
    delete(source, gone, now)
    marks.redo(source, sorted(others.difference(keys)))
    return [each.id for each in gone]


def changed(source: Source, key: int, now: int, *, own: bool) -> list[str]:
    """As `drop`, and what the memory says now is derived anew. With `own`, one that was derived itself has got a text of
    somebody's own, and owes nothing to its sources any longer.
    """
    if own:
        run(source, "DELETE FROM sources WHERE key = ?", (key,))
    gone = drop(source, [key], now)
    marks.redo(source, [key])
    return gone


def remove(source: Source, chosen: Sequence[Chosen], now: int) -> None:
    """Deletes memories with all that was derived from them."""
    drop(source, [each.key for each in chosen], now)
    delete(source, chosen, now)


def delete(source: Source, chosen: Sequence[Chosen], now: int) -> None:
    """Deletes memories and (by trigger) their index entries, facts and links; who was superseded by one of them no longer says
    so.
    """
    for bank in {each.bank for each in chosen}:
        gone = [each for each in chosen if each.bank == bank]
        keys = [each.key for each in gone]
        spoken_of = facts.slots_of(source, bank, keys)
        lengths = [count_terms(row[0]) for row in rows_of(source, _TERMS, (json.dumps(keys), bank, OBSERVATION))]
        run_many(source, _DELETE, [(bank, key) for key in keys])
        grow(source, bank, size=-len(lengths), length=-sum(lengths))
        run_many(source, _FREE, [(bank, each.id) for each in gone])
        facts.settle(source, bank, spoken_of, now)


def retire(source: Source, bank: str, documents: Sequence[str], now: int) -> list[str]:
    """Takes all that these documents hold out of recall, with what was derived from it; gives the memories' ids."""
    number = ensure_bank(source, bank)
    retired = [row for document in documents for row in rows_of(source, _REPLACE, (now, number, document))]
    keys = [row[1] for row in retired]
    gone = drop(source, keys, now)
    facts.settle(source, number, facts.slots_of(source, number, keys), now)
    return [*(str(row[0]) for row in retired), *gone]


def dangling(source: Source) -> int:
    """How many links lead nowhere, or into another bank."""
    return int(rows_of(source, _DANGLING)[0][0])
