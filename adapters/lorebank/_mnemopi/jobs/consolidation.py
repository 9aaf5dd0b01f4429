"""Observations: what several memories say about one thing, with links to them.

Without a completer an observation is extractive: the sentences of its sources that have most in common with the others, word for
word, what holds now before what was superseded. With one, the completer writes it from its sources, and what they do not say is
dropped. Sources stay as they are. An observation is written anew when memories join it, and goes when a source does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from lorebank._database.driver import Source, run_many
from lorebank._domain.consolidation import MAX_TOKENS, observation_prompt, weakest
from lorebank._domain.events import Consolidated
from lorebank._domain.memory import CONSOLIDATION
from lorebank._domain.synthesis import SCHEMA, parse_statements, within
from lorebank._mnemopi import derived, store
from lorebank._mnemopi.derived import Chosen
from lorebank._mnemopi.jobs.extraction import derived_draft
from lorebank._mnemopi.jobs.grouping import LEAST, Group, Grouping
from lorebank._mnemopi.jobs.marks import Job, Kind
from lorebank._mnemopi.jobs.metering import Metered
from lorebank._mnemopi.jobs.refusals import unless_refused
from lorebank._mnemopi.jobs.told import Row, memory, stands, told_rows, unchanged
from lorebank._mnemopi.jobs.work import Written
from lorebank._mnemopi.rows import ROLES, Draft
from lorebank._mnemopi.search.terms import terms
from lorebank._mnemopi.synthesis import Asked, ask
from lorebank.errors import GarbledError

_SAME = "UPDATE memories SET id = ? WHERE key = ?"
LINES = 5
"""Sentences of an extractive observation."""
MAX_SENTENCE = 300
"""Characters of a sentence that is taken; longer ones are left to their memories, since nothing is cut."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.](?=\w)[^.!?。！？\n]*)*[.!?。！？]*[\"'”’»)\]]*")


@dataclass(frozen=True, slots=True)
class Observation:
    """What a group says together; `text` is empty where it says nothing that its memories don't say alone."""

    rows: Sequence[Row]
    former: tuple[int, str] | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Thought:
    """The observations of a batch, and what they have cost."""

    observations: Sequence[Observation]
    used: Metered | None = None


@dataclass(frozen=True, slots=True)
class Consolidating:
    """The job of writing observations."""

    kind: Kind = field(default="consolidation", init=False)
    size: int = field(default=40, init=False)

    def read(self, connection: Source, job: Job, keys: Sequence[int], now: int) -> list[Group]:
        """The groups that a batch belongs to, beside what is grouped already and has not changed."""
        placed = _placed(connection, keys)
        rows = [row for row in told_rows(connection, keys, now) if row["key"] not in placed]
        return Grouping(connection, job, now).grouped(rows)

    def think(self, material: Sequence[Group], completer: Metered | None) -> Thought:
        found: list[Observation] = []
        for group in material:
            rows = group.in_order()
            text = written(rows, completer) if completer is not None else extract(rows)
            found.append(Observation(rows, group.observation, text))
        return Thought(found, completer)

    def write(self, connection: Source, job: Job, thought: Thought, now: int) -> Written:
        """Writes the observations whose sources are all as they were, in place of the former ones."""
        same = unchanged(connection, [row for each in thought.observations for row in each.rows], now)
        stale = {row["key"] for each in thought.observations for row in each.rows if row["key"] not in same}
        whole = [each for each in thought.observations if each.text and stale.isdisjoint(row["key"] for row in each.rows)]
        torn = [each for each in thought.observations if not stale.isdisjoint(row["key"] for row in each.rows)]
        former = [Chosen(each.former[0], job.bank, each.former[1]) for each in whole if each.former is not None]
        derived.delete(connection, former, now)
        receipt = store.add(connection, job.name, [_draft(each) for each in whole], now=now)
        ids = [outcome.id or "" for outcome in receipt.stored]
        keys = derived.keys_of(connection, job.bank, ids)
        renamed = [(each.former[1], keys[identity]) for identity, each in zip(ids, whole, strict=True) if each.former is not None]
        run_many(connection, _SAME, renamed)
        pairs = [(keys[identity], row["key"]) for identity, each in zip(ids, whole, strict=True) for row in each.rows]
        derived.link(connection, pairs)
        again = sorted({row["key"] for each in torn for row in each.rows})
        return Written(len(whole), len({key for _, key in pairs}), again, _event(job, len(whole), len(pairs), thought.used))


def _placed(connection: Source, keys: Sequence[int]) -> set[int]:
    """Those of these memories that an observation is made of."""
    observations = [each.key for each in derived.derived_from(connection, keys)]
    return {origin for origins in derived.sources_of(connection, observations).values() for origin in origins}


def _event(job: Job, observations: int, sources: int, used: Metered | None) -> Consolidated | None:
    requests, sent, received = (used.requests, used.sent, used.received) if used is not None else (0, 0, 0)
    return Consolidated(job.name, observations, sources, requests, sent, received) if observations or requests else None


def _draft(found: Observation) -> Draft:
    """The observation's row: as old as its newest source, as trustworthy as the weakest, valid as long as all are."""
    ends = [row["valid_until"] for row in found.rows if row["valid_until"] is not None]
    newest = {**found.rows[-1], "valid_until": min(ends, default=None)}
    writer = replace(CONSOLIDATION, veracity=weakest(row["veracity"] for row in found.rows))
    return derived_draft(found.text, writer, newest)


def written(rows: Sequence[Row], completer: Metered) -> str:
    """What the completer writes of these memories, as far as they say it; extractive where it refuses or can't be read."""
    shown = [memory(row) for row in rows]
    count = len(shown)
    try:
        asked = Asked(observation_prompt(shown), SCHEMA, MAX_TOKENS)
        statements = unless_refused(completer, lambda: ask(completer, asked, lambda reply: parse_statements(reply, count)))
    except GarbledError:
        statements = None
    if statements is None:
        return extract(rows)
    kept = [each for each in statements if stands(each.text, [rows[number - 1] for number in each.cited])]
    return "\n".join(each.text for each in within(kept, MAX_TOKENS))


def extract(rows: Sequence[Row]) -> str:
    """The sentences that have most in common with other memories, one a memory: what holds now first, newest first."""
    held = Counter(term for row in rows for term in set(row["terms"].split()))
    common = {term: count for term, count in held.items() if count > 1}
    topic = {term for term, count in held.items() if count == len(rows)} or common.keys()
    found: dict[str, tuple[int, Row]] = {}
    for row in rows:
        weighed = {sentence: _weight(sentence, topic, common) for sentence in _sentences(row)}
        central = max(weighed, key=lambda sentence: weighed[sentence], default="")
        weight = weighed.get(central, 0)
        if central and weight and central.casefold() not in {known.casefold() for known in found}:
            found[central] = (weight, row)
    best = sorted(found.items(), key=lambda each: (-each[1][0], -each[1][1]["mentioned_at"]))[:LINES]
    if len(best) < LEAST - 1:
        return ""
    best.sort(key=lambda each: (each[1][1]["superseded_by"] is not None, -each[1][1]["mentioned_at"], -each[1][1]["key"]))
    return "\n".join(_named(sentence, row) for sentence, (_, row) in best)


def _weight(sentence: str, topic: AbstractSet[str], common: Mapping[str, int]) -> int:
    """How many other memories say what a sentence says; 0 where it is not about what all of them are about."""
    said = set(terms(sentence))
    return 0 if said.isdisjoint(topic) else sum(common.get(term, 0) for term in said)


def _sentences(row: Row) -> list[str]:
    found = (match[0].strip() for match in _SENTENCE.finditer(row["content"]))
    return [sentence for sentence in found if sentence and len(sentence) <= MAX_SENTENCE]


def _named(sentence: str, row: Row) -> str:
    """A sentence after the one who said it, where that one has a name."""
    speaker = row["speaker"]
    named = speaker and speaker.casefold() not in ROLES and not sentence.startswith(speaker)
    return f"{speaker}: {sentence}" if named else sentence
