"""What the server is asked: bodies of recall, reflect and mental models, and tag rules in its grammar. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lorebank._domain.mental_model import MentalModel
from lorebank._domain.requests import RecallRequest, ReflectRequest
from lorebank._domain.scope import Either, Every, Leaf, Neither, Scope, TagRule
from lorebank._domain.toolbook import reflect_query
from lorebank.errors import UnsupportedError, UsageError

MOST_TOKENS = 100_000
"""Tokens that are asked for at most, whatever the caller allows."""
LONG_QUERY = 480
"""Bytes below which no query has 500 tokens; also the pieces to which a longer one is cut."""
MODEL_TOKENS = (256, 8192)
_WORD = re.compile(r"[^\W_]")
_PIECE = re.compile(r"[A-Za-z]{1,4}|[^A-Za-z\s]")


def tag_groups(rule: TagRule | None) -> list[dict[str, Any]] | None:
    """A rule as the server's AND-ed groups. One without tags is refused: a server may read it as "no filter"."""
    if rule is None:
        return None
    return [_group(each) for each in rule.rules] if isinstance(rule, Every) and rule.rules else [_group(rule)]


def _group(rule: TagRule) -> dict[str, Any]:
    if isinstance(rule, Leaf) and rule.tags:
        return {"tags": list(rule.tags), "match": rule.match}
    if isinstance(rule, Every | Either) and rule.rules:
        return {"and" if isinstance(rule, Every) else "or": [_group(each) for each in rule.rules]}
    if isinstance(rule, Neither):
        return {"not": _group(rule.rule)}
    raise UsageError(f"a tag rule without tags can't be sent, since it could be read as no rule; found {rule!r}")


def askable(query: str) -> bool:
    """Whether there is a word in it; a server refuses a query without one."""
    return _WORD.search(query) is not None


def is_long(query: str) -> bool:
    """Whether a query may have more tokens than older servers accept."""
    return len(query.encode()) > LONG_QUERY


def shortened(query: str) -> str:
    """The start of a query that has fewer than 500 tokens for certain."""
    left = LONG_QUERY
    for piece in _PIECE.finditer(query):
        left -= 1 if piece[0].isascii() else len(piece[0].encode())
        if left < 0:
            return query[: piece.start()].rstrip()
    return query


def recall_body(request: RecallRequest, rule: TagRule | None) -> dict[str, Any]:
    """A recall; whatever has a default that differs between servers is said."""
    body: dict[str, Any] = {
        "query": request.query,
        "types": list(request.types),
        "budget": request.budget,
        "max_tokens": min(request.max_tokens, MOST_TOKENS),
        "query_timestamp": request.moment.isoformat(),
        "prefer_observations": request.prefer_observations,
        "include": {"entities": None, "chunks": None, "source_facts": {} if request.include_source_facts else None},
        "trace": False,
    }
    if request.min_score is not None:
        body["min_scores"] = {"final": request.min_score}
    if groups := tag_groups(rule):
        body["tag_groups"] = groups
    return body


def reflect_body(request: ReflectRequest, rule: TagRule | None) -> dict[str, Any]:
    """A reflect. Under a tag rule no mental model is read: its answer may rest on what the rule forbids."""
    body: dict[str, Any] = {
        "query": reflect_query(request.recall.query, request.context),
        "budget": request.recall.budget,
        "include": {"facts": {}, "tool_calls": None},
    }
    if groups := tag_groups(rule):
        body |= {"tag_groups": groups, "exclude_mental_models": True}
    if request.response_schema is not None:
        body["response_schema"] = _object_schema(request.response_schema)
    return body


def _object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "object":
        raise UsageError(f"`response_schema` must be a JSON Schema with type 'object'; found {schema.get('type')!r}")
    return dict(schema)


def model_body(model: MentalModel, scope: Scope) -> dict[str, Any]:
    """A new mental model, kept fresh by the server."""
    return {
        "id": model.id,
        "name": model.name,
        "source_query": model.source_query,
        "tags": list(model.tags),
        "max_tokens": _tokens(model.max_tokens),
        "trigger": {"mode": model.trigger, "refresh_after_consolidation": True, **_reading(model.tags, scope)},
    }


def model_change(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What of a mental model is changed; its content is the server's own work."""
    if "content" in fields:
        raise UnsupportedError("Hindsight writes a mental model's `content` itself: change `source_query`, or use Mnemopi")
    if "max_tokens" in fields:
        _tokens(fields["max_tokens"])
    return dict(fields)


def _tokens(count: int) -> int:
    low, high = MODEL_TOKENS
    if not low <= count <= high:
        raise UnsupportedError(f"Hindsight's mental models have `max_tokens` from {low} to {high}; found {count}")
    return count


def _reading(tags: Sequence[str], scope: Scope) -> dict[str, Any]:
    """A model that carries the scope's tags reads what the scope reads."""
    rule = scope.required
    if isinstance(rule, Leaf) and tags and set(tags) == set(rule.tags):
        return {"tags_match": rule.match}
    return {}
