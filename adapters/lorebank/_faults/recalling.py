"""Recall and reflect: facts that share words with the query, the larger share first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks
from lorebank._faults.shapes import evidence, found_fact, usage
from lorebank._faults.state import Banks
from lorebank._faults.tags import MODES, TagTest, every_group, fits
from lorebank._faults.text import tokens, words
from lorebank._faults.values import Bank, Fact
from lorebank._faults.wire import RefusalError

__all__ = ["Found", "recall", "reflect", "search", "tag_test"]

TYPES = ("world", "experience", "observation")
CANDIDATES = {"low": 100, "mid": 300, "high": 1000}
NOTHING = "Nothing is recorded about that."


@dataclass(frozen=True, slots=True)
class Found:
    """A fact and its scores: `final` is at most 1, `keyword` 0.1 for each shared word."""

    fact: Fact
    final: float
    semantic: float
    keyword: float


def search(bank: Bank, query: str, *, types: Sequence[str], test: TagTest) -> list[Found]:
    """Valid facts of these types that share a word with the query, best first, the earlier one where equal."""
    wanted = words(query)
    found = [
        _scored(fact, len(shared), len(wanted))
        for fact in bank.facts.values()
        if (shared := wanted & fact.words) and fact.state == "valid" and fact.type in types and test(fact.tags)
    ]
    return sorted(found, key=lambda each: -each.final)


def tag_test(tags: Sequence[str], mode: str, groups: Sequence[Mapping[str, Any]] | None) -> TagTest:
    """Which tags are let through."""
    return every_group(groups) if groups else lambda have: fits(have, tags, mode)


def recall(banks: Banks, call: Call) -> dict[str, Any]:
    """`results` within `max_tokens`, and what `include` asks for."""
    checks, body = Checks(), call.body
    query = checks.question(body)
    types = checks.texts(body, "types")
    budget = checks.one_of(body.get("budget"), ("body", "budget"), tuple(CANDIDATES), "mid", "enum")
    room = checks.whole(body.get("max_tokens"), ("body", "max_tokens"), 4096)
    test = _tags(checks, body)
    checks.done()
    _check_types(types or ())
    _check_query_time(body.get("query_timestamp"))
    bank = banks.known(call.bank)
    found = search(bank, query, types=types or TYPES, test=test)[: CANDIDATES[budget]]
    bounds: Mapping[str, Any] = body.get("min_scores") or {}
    least: float = bounds.get("final") or 0.0
    wanted = [each for each in found if each.final >= least]
    if body.get("prefer_observations"):
        wanted = _without_covered(wanted)
    return _answer(bank, _within(wanted, room), body.get("include") or {})


def reflect(banks: Banks, call: Call) -> dict[str, Any]:
    """The found texts as a list, or a sentence that says there is none."""
    checks, body = Checks(), call.body
    query = checks.needed_text(body, "query")
    if isinstance(body.get("query"), str) and not query.strip():
        checks.wrong(("body",), "'query' must not be empty or whitespace-only.", body)
    checks.one_of(body.get("budget"), ("body", "budget"), tuple(CANDIDATES), "low", "enum")
    schema = body.get("response_schema")
    if schema is not None and (not isinstance(schema, dict) or cast("dict[str, Any]", schema).get("type") != "object"):
        message = 'response_schema must be an object schema (its "type" must be "object")'
        checks.wrong(("body", "response_schema"), message, schema)
    types = checks.texts(body, "fact_types") or TYPES
    for index, kind in enumerate(types):
        checks.one_of(kind, ("body", "fact_types", index), TYPES, "world")
    test = _tags(checks, body)
    checks.done()
    bank = banks.open(call.bank)
    facts = [each.fact for each in search(bank, f"{query} {body.get('context') or ''}", types=types, test=test)]
    lines = tuple(dict.fromkeys(fact.text for fact in facts))
    return _reflection(bank, facts, lines, body)


def _reflection(bank: Bank, facts: Sequence[Fact], lines: Sequence[str], body: Mapping[str, Any]) -> dict[str, Any]:
    text = "\n".join(f"- {line}" for line in lines) or NOTHING
    include: Mapping[str, Any] = body.get("include") or {}
    schema: Mapping[str, Any] | None = body.get("response_schema")
    calls = [{"tool": "recall", "input": {"query": body["query"]}, "duration_ms": 0}]
    return {
        "text": text,
        "based_on": None if include.get("facts") is None else _based_on(bank, facts, body),
        "structured_output": None if schema is None else fill(schema, lines),
        "structured_output_error": None,
        "usage": usage(tokens(body["query"]) + tokens(text)),
        "trace": None if include.get("tool_calls") is None else {"tool_calls": calls, "llm_calls": []},
    }


def fill(schema: Mapping[str, Any], lines: Sequence[str]) -> Any:
    """A value that fits a JSON Schema, made of the texts."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        properties: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
        return {name: fill(each, lines) for name, each in properties.items()}
    if kind == "array":
        return [fill(schema.get("items") or {"type": "string"}, [line]) for line in lines[:5]]
    numbers: dict[Any, Any] = {"integer": 0, "number": 0.0, "boolean": False, "null": None}
    return numbers[kind] if kind in numbers else "\n".join(lines)


def _based_on(bank: Bank, facts: Sequence[Fact], body: Mapping[str, Any]) -> dict[str, Any]:
    tags, mode = body.get("tags") or (), body.get("tags_match") or "any"
    left_out: set[str] = set(body.get("exclude_mental_model_ids") or ())
    models = () if body.get("exclude_mental_models") else tuple(bank.mental_models.values())
    rules = [
        each
        for each in bank.directives.values()
        if each.is_active and (not each.tags or body.get("apply_all_directives") or (tags and fits(each.tags, tags, mode)))
    ]
    return {
        "memories": [evidence(bank, fact) for fact in facts if fact.type != "observation"],
        "mental_models": [
            {"id": each.id, "text": f"{each.name}: {each.content}", "context": "concept (structural)"}
            for each in models
            if each.id not in left_out and fits(each.tags, tags, mode)
        ],
        "directives": [{"id": each.id, "name": each.name, "content": each.content} for each in rules],
    }


def _scored(fact: Fact, shared: int, wanted: int) -> Found:
    share, alike = shared / wanted, shared / (wanted + len(fact.words) - shared)
    return Found(fact, round(0.9 * share + 0.1 * alike, 6), round(alike, 6), round(0.1 * shared, 6))


def _tags(checks: Checks, body: Mapping[str, Any]) -> TagTest:
    tags = checks.texts(body, "tags") or ()
    mode = checks.one_of(body.get("tags_match"), ("body", "tags_match"), MODES, "any")
    groups = checks.tag_groups(body)
    checks.done()
    return tag_test(tags, mode, groups)


def _check_types(types: Sequence[str]) -> None:
    wrong = sorted(set(types) - {*TYPES, "opinion"})
    if wrong:
        raise RefusalError(422, f"Invalid fact type(s): {', '.join(wrong)}. Must be one of: {', '.join(sorted(TYPES))}")


def _check_query_time(text: str | None) -> None:
    try:
        if text is not None:
            datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        expected = "Expected ISO format (e.g., '2023-05-30T23:40:00')"
        raise RefusalError(400, f"Invalid query_timestamp format. {expected}: {error}") from error


def _within(found: Sequence[Found], room: int) -> list[Found]:
    kept: list[Found] = []
    for each in found:
        room -= tokens(each.fact.text)
        if room < 0:
            break
        kept.append(each)
    return kept


def _without_covered(found: Sequence[Found]) -> list[Found]:
    covered = {source for each in found for source in each.fact.sources}
    return [each for each in found if each.fact.id not in covered]


def _answer(bank: Bank, found: Sequence[Found], include: Mapping[str, Any]) -> dict[str, Any]:
    entities = include.get("entities", {}) is not None
    sources = include.get("source_facts") is not None
    facts = [each.fact for each in found]
    names = dict.fromkeys(name for fact in facts for name in fact.entities)
    return {
        "results": [found_fact(bank, each.fact, _scores(each), entities=entities, sources=sources) for each in found],
        "trace": None,
        "entities": {name: _entity(bank, name) for name in names} or None if entities else None,
        "chunks": _chunks(bank, facts) if include.get("chunks") is not None else None,
        "source_facts": _source_facts(bank, facts) if sources else None,
        "source_facts_truncated": False if sources else None,
    }


def _scores(found: Found) -> dict[str, float | None]:
    return {"final": found.final, "reranker": None, "semantic": found.semantic, "keyword": found.keyword}


def _entity(bank: Bank, name: str) -> dict[str, Any]:
    return {"entity_id": bank.entities[name], "canonical_name": name, "observations": []}


def _chunks(bank: Bank, facts: Sequence[Fact]) -> dict[str, Any]:
    places = {(fact.document_id, fact.chunk) for fact in facts if fact.document_id is not None}
    chunks: dict[str, Any] = {}
    for document_id, index in sorted(places):
        name = f"{bank.id}_{document_id}_{index}"
        text = bank.documents[document_id].chunks[index]
        chunks[name] = {"id": name, "text": text, "chunk_index": index, "truncated": False, "attachments": None}
    return chunks


def _source_facts(bank: Bank, facts: Sequence[Fact]) -> dict[str, Any]:
    ids = dict.fromkeys(source for fact in facts for source in fact.sources if source in bank.facts)
    none: dict[str, float | None] = dict.fromkeys(("final", "reranker", "semantic", "keyword"))
    return {each: found_fact(bank, bank.facts[each], none, entities=False, sources=False) for each in ids}
