"""Facts that a completer finds in what people have said, kept as memories with a link to the one they come from.

Each must stand in its source: names, numbers and most words. It has its source's tags, time and end, so that it is read where
its source is, and what is newer wins. Beside the memory, the fact goes where the rules' facts are, and supersedes as they do. A
fact that says no more than its source is no memory of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_bytes

from lorebank._database.driver import Source, rows_of
from lorebank._domain.events import Extracted as Told
from lorebank._domain.extraction import SCHEMA, Extracted, extraction_prompt, parse_facts, shown
from lorebank._domain.item import Item
from lorebank._domain.memory import EXTRACTION, Writer, count_tokens
from lorebank._mnemopi import derived, store
from lorebank._mnemopi.facts.rules import MAX_VALUE, USER, Fact
from lorebank._mnemopi.jobs.marks import Job, Kind
from lorebank._mnemopi.jobs.metering import Metered
from lorebank._mnemopi.jobs.refusals import unless_refused
from lorebank._mnemopi.jobs.told import Row, memory, stands, told_rows, unchanged
from lorebank._mnemopi.jobs.work import Written
from lorebank._mnemopi.rows import DIGEST_BYTES, Draft, draft, from_ticks, maybe_moment, tags_of
from lorebank._mnemopi.search.terms import terms, words
from lorebank._mnemopi.synthesis import Asked, ask
from lorebank.errors import GarbledError

logger = logging.getLogger("lorebank")
MAX_SENT = 4_000
"""Tokens of messages in one request."""
MAX_TOKENS = 1_024
"""Tokens of an answer."""
_WITHOUT = """SELECT m.key FROM memories m WHERE m.key = ? AND EXISTS (SELECT 1 FROM sources s JOIN memories d ON d.key = s.key
              WHERE s.source = m.key AND d.source = 'extraction')"""
_RELATIONS = {
    "home": "home", "city": "home", "residence": "home", "address": "home", "work": "work", "employer": "work", "company": "work",
    "role": "role", "job": "role", "profession": "role", "occupation": "role", "name": "name", "age": "age", "diet": "diet",
    "car": "car",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Messages:
    """What the completer is shown, what it made of it, and what that cost."""

    rows: Sequence[Row]
    facts: Sequence[Extracted] = ()
    used: Metered | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """The job of finding facts."""

    kind: Kind = field(default="extraction", init=False)
    size: int = field(default=40, init=False)

    def read(self, connection: Source, job: Job, keys: Sequence[int], now: int) -> Messages:
        """The messages of a batch that somebody said, and that say something, as far as one request holds them."""
        del job
        rows = [row for row in told_rows(connection, keys, now) if row["veracity"] != "tool" and shown(row["content"])]
        return Messages([row for row in rows if not rows_of(connection, _WITHOUT, (row["key"],))])

    def think(self, material: Messages, completer: Metered | None) -> Messages:
        """Asks in as few requests as the bound allows. What can't be read, asked twice, is passed over, and so is a message that
        the completer refuses.
        """
        if completer is None:
            return material
        found = [fact for start, end in _parts(material.rows) for fact in _found(completer, material.rows, start, end)]
        return Messages(material.rows, found, completer)

    def write(self, connection: Source, job: Job, thought: Messages, now: int) -> Written:
        """Writes what stands in messages that are as they were."""
        if thought.used is None or not thought.rows:
            return Written()
        same = unchanged(connection, thought.rows, now)
        stale = [row["key"] for row in thought.rows if row["key"] not in same]
        made = [(row, each) for each in thought.facts if (row := thought.rows[each.message - 1])["key"] in same]
        kept = [(row, each) for row, each in made if stands(each.text, [row])]
        fresh = [(row, _draft(row, each)) for row, each in kept if _more(each.text, row)]
        receipt = store.add(connection, job.name, [each for _, each in fresh], now=now) if fresh else None
        ids = [outcome.id or "" for outcome in receipt.stored] if receipt else []
        keys = derived.keys_of(connection, job.bank, ids)
        derived.link(connection, [(keys[identity], row["key"]) for identity, (row, _) in zip(ids, fresh, strict=True)])
        used = thought.used
        told = Told(job.name, len(thought.rows), len(fresh), len(made) - len(kept), used.requests, used.sent, used.received)
        return Written(len(fresh), len(thought.rows), stale, told)


def _found(completer: Metered, rows: Sequence[Row], start: int, end: int) -> list[Extracted]:
    """The facts in some of the messages. A message that the completer refuses is found by halves."""
    told = [memory(row) for row in rows[start:end]]
    asked = Asked(extraction_prompt(told), SCHEMA, MAX_TOKENS)
    try:
        facts = unless_refused(completer, lambda: ask(completer, asked, partial(parse_facts, count=len(told))))
    except GarbledError:
        return []
    if facts is not None:
        return [replace(each, message=each.message + start) for each in facts]
    if end - start == 1:
        logger.warning("the completer refuses a message: no facts are found in it")
        return []
    middle = (start + end) // 2
    return [*_found(completer, rows, start, middle), *_found(completer, rows, middle, end)]


def derived_draft(text: str, writer: Writer, source: Row, told: Sequence[Fact] | None = None) -> Draft:
    """The row of a text that was derived, with its first source's tags and time. It equals no other statement."""
    item = Item(text, tags=tags_of(source["tags"]), valid_until=maybe_moment(source["valid_until"]))
    made = draft(item, writer, now=from_ticks(source["mentioned_at"]))
    digest = token_bytes(DIGEST_BYTES)
    facts = tuple(dict.fromkeys((*made.facts, *told))) if told is not None else ()
    return made._replace(digest=digest, row=(digest, *made.row[1:]), facts=facts)


def _draft(source: Row, found: Extracted) -> Draft:
    fact = _fact(found, source)
    return derived_draft(found.text, EXTRACTION, source, [] if fact is None else [fact])


def _parts(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Where each request's messages begin and end."""
    parts: list[tuple[int, int]] = []
    start = cost = 0
    for place, row in enumerate(rows):
        own = count_tokens(shown(row["content"])) + 16
        if place > start and cost + own > MAX_SENT:
            parts.append((start, place))
            start, cost = place, 0
        cost += own
    return [*parts, (start, len(rows))] if rows else []


def _more(text: str, row: Row) -> bool:
    """Whether a fact says something in other words than its source."""
    return set(terms(text)) != set(terms(row["content"]))


def _fact(found: Extracted, source: Row) -> Fact | None:
    """The fact as rules would have it, where it tells the one value of a relation in words of its source."""
    noun, value = terms(found.relation)[-2:], sorted(set(terms(found.value)))
    known = frozenset(terms(source["content"]))
    subject = words(found.subject)
    if not noun or not subject or not value or len(value) > MAX_VALUE or not known.issuperset(value):
        return None
    named = found.relation.casefold().strip()
    relation = _RELATIONS.get(named) or f"is {' '.join(sorted(noun))}"
    return Fact(USER if USER in subject else subject[0], relation, tuple(value))
