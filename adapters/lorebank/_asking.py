"""From what a caller types to a recall request: the bank's settings fill what is left out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

from lorebank._connections import AllSettings
from lorebank._domain.memory import Budget, parse_count, parse_moment, parse_text
from lorebank._domain.requests import RecallRequest
from lorebank._domain.scope import TagRule
from lorebank.errors import UsageError


def recall_request(
    settings: AllSettings,
    query: str,
    rule: TagRule | None,
    *,
    limit: int | None = None,
    max_tokens: int | None = None,
    budget: Budget | None = None,
    moment: datetime | None = None,
) -> RecallRequest:
    """The request for a query under a tag rule; `UsageError` names what is wrong."""
    recall, zone = settings.recall, settings.retain.zone()
    if budget is not None and budget not in get_args(Budget):
        raise UsageError(f"`budget` must be one of {', '.join(get_args(Budget))}; found {budget!r}")
    return RecallRequest(
        query=parse_text(query, "query"),
        limit=recall.limit if limit is None else parse_count(limit, "limit"),
        max_tokens=recall.max_tokens if max_tokens is None else parse_count(max_tokens, "max_tokens"),
        types=recall.types,
        moment=parse_moment(datetime.now(UTC) if moment is None else moment, "query_timestamp", zone, to=zone),
        count_tokens=recall.count_tokens,
        rule=rule,
        budget=budget or recall.budget,
        min_score=recall.min_score,
        prefer_observations=recall.prefer_observations,
        include_source_facts=recall.include_source_facts,
    )
