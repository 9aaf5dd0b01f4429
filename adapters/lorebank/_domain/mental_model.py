"""Mental models: standing questions whose curated answers a bank keeps, and how they share a budget."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import SequenceMatcher
from typing import Literal, cast, get_args

from lorebank._domain.memory import parse_text
from lorebank._domain.scope import Scoping, parse_tags
from lorebank.errors import UsageError

Trigger = Literal["delta", "full"]
MODEL_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class MentalModel:
    """A named standing question (`source_query`) and its present answer (`content`, empty before the first refresh).

    With the `trigger` `delta` a refresh keeps of the answer what still holds, with `full` it writes anew.
    """

    id: str
    name: str
    source_query: str
    content: str = ""
    tags: tuple[str, ...] = ()
    max_tokens: int = 800
    trigger: Trigger = "delta"
    refreshed_at: datetime | None = None
    based_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Revision:
    """What a mental model said before a change, and when it was replaced.

    `diff` is what changed then: the lines that went (`- line`) and those that came (`+ line`), without the others.
    """

    content: str
    replaced_at: datetime
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Seed:
    """A mental model that every bank of some scopings starts with."""

    id: str
    name: str
    source_query: str
    max_tokens: int
    scopings: tuple[Scoping, ...] = ("global", "per-project", "per-project-tagged")
    project: bool = False
    tags: tuple[str, ...] = field(default=())

    def resolved(self, scoping: Scoping, label: str | None) -> MentalModel | None:
        """The model this seed becomes under a scoping, or `None` where it does not apply.

        In `per-project-tagged`, a project's seed carries the project in its id and as a tag, so that projects don't
        share one model.
        """
        if scoping not in self.scopings:
            return None
        if self.project and scoping == "per-project-tagged" and label is not None:
            suffix = _suffix(label)
            tags = (*self.tags, f"project:{label}")
            return MentalModel(f"{self.id}-{suffix}", self.name, self.source_query, "", tags, self.max_tokens)
        return MentalModel(self.id, self.name, self.source_query, "", self.tags, self.max_tokens)


def _suffix(label: str) -> str:
    """A project's label as part of an id: as it is where an id may hold it, else shortened, with a digest that keeps
    projects apart.
    """
    plain = re.sub(r"[^a-z0-9._-]+", "-", label).strip("-")[:64]
    return plain if plain == label else f"{plain or 'project'}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


_PROJECTS: tuple[Scoping, ...] = ("per-project", "per-project-tagged")
SEEDS: tuple[Seed, ...] = (
    Seed("user-preferences", "User Preferences", "What does the user like, dislike, prefer, always want or never want?", 600),
    Seed(
        "project-conventions",
        "Project Conventions",
        "Which conventions, style rules, tools and workflows does this project follow?",
        800,
        _PROJECTS,
        project=True,
    ),
    Seed(
        "project-decisions",
        "Project Decisions",
        "Which decisions were made in this project, what was chosen, rejected and why?",
        800,
        _PROJECTS,
        project=True,
    ),
)


def parse_model_id(value: object) -> str:
    """Lower-case letters, digits, `.`, `_`, `-`; at most 128 characters."""
    if not isinstance(value, str) or MODEL_ID.fullmatch(value) is None:
        raise UsageError(f"a mental model's id must match {MODEL_ID.pattern}; found {value!r}")
    return value


def parse_model(fields: Mapping[str, object]) -> MentalModel:
    """A mental model from what a user typed."""
    name = parse_text(fields.get("name"), "name", limit=512).strip()
    query = parse_text(fields.get("source_query"), "source_query").strip()
    tokens = fields.get("max_tokens", 800)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 64 <= tokens <= 8192:
        raise UsageError(f"a mental model's `max_tokens` must be from 64 to 8192; found {tokens!r}")
    trigger = fields.get("trigger", "delta")
    if trigger not in get_args(Trigger):
        raise UsageError(f"a mental model's `trigger` must be one of {', '.join(get_args(Trigger))}; found {trigger!r}")
    tags = parse_tags(fields.get("tags", ()))
    return MentalModel(parse_model_id(fields.get("id")), name, query, "", tags, tokens, cast("Trigger", trigger))


def with_diffs(revisions: Sequence[Revision], content: str) -> tuple[Revision, ...]:
    """Revisions, newest first, each with what changed when it was replaced: by the next, the newest by the present content."""
    following = [content, *(revision.content for revision in revisions[:-1])]
    return tuple(
        replace(revision, diff=changes(revision.content, after)) for revision, after in zip(revisions, following, strict=True)
    )


def changes(before: str, after: str) -> str:
    """The lines of one text that the other lacks (`- line`), and the other way round (`+ line`), in their order."""
    old, new = before.splitlines(), after.splitlines()
    told: list[str] = []
    for kind, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            told += [f"- {line}" for line in old[start:end]] + [f"+ {line}" for line in new[new_start:new_end]]
    return "\n".join(told)


def by_priority(models: Sequence[MentalModel]) -> list[MentalModel]:
    """`user-preferences` first, the others by name, then id."""
    return sorted(models, key=lambda model: (model.id != "user-preferences", model.name.casefold(), model.id))


def share_budget(sizes: Sequence[int], total: int) -> list[int]:
    """Shares `total` fairly: who needs less than an equal part leaves the rest to the others (water-filling).

    The shares sum to at most `total`, none is above its size, and none is cut while another holds more than it.
    """
    shares = [0] * len(sizes)
    left = max(0, total)
    waiting = sorted(range(len(sizes)), key=sizes.__getitem__)
    while waiting:
        first = waiting.pop(0)
        shares[first] = min(sizes[first], left // (len(waiting) + 1))
        left -= shares[first]
    return shares
