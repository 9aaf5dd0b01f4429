"""Where reads and writes go: bank ids, tags, and the three scopings.

Bank ids and tags are parsed once, here. A bank id of a project is `base::label`; since neither part may hold `::` or
begin or end with a colon, two different pairs never meet in one id.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

from lorebank.errors import UnsupportedError, UsageError

Scoping = Literal["global", "per-project", "per-project-tagged"]
TagsMatch = Literal["any", "all", "any_strict", "all_strict", "exact"]
MAX_ID_BYTES = 192
PROJECT = "project:"
"""How the tag of a project begins."""

SCOPINGS: tuple[Scoping, ...] = get_args(Scoping)
MATCHES: tuple[TagsMatch, ...] = get_args(TagsMatch)


def parse_bank_id(value: object, name: str = "bank") -> str:
    """One part of a bank id, NFC-normalised.

    Refused with a clear error: text that is empty, `.`, `..`, over 192 bytes, or that holds a control character, `/`
    or `::`, begins or ends with a colon or a blank.
    """
    text = _normal(value, name)
    if text in (".", ".."):
        raise UsageError(f"`{name}` must be a name; found {text!r}")
    for forbidden in ("/", "::"):
        if forbidden in text:
            raise UsageError(f"`{name}` must not hold {forbidden!r}; found {text!r}")
    if text != text.strip() or text != text.strip(":"):
        raise UsageError(f"`{name}` must not begin or end with a blank or a colon; found {text!r}")
    return text


def parse_tags(values: object) -> tuple[str, ...]:
    """Tags, NFC-normalised, trimmed, without repeats, in the order given."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"`tags` must be a list of texts; found {values!r}")
    return tuple(dict.fromkeys(_normal(value, "tags").strip() for value in cast("Iterable[object]", values)))


def _normal(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"`{name}` must be text; found {type(value).__name__} {value!r}")
    text = unicodedata.normalize("NFC", value)
    if not text.strip():
        raise UsageError(f"`{name}` must not be empty")
    if bad := [char for char in text if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]:
        raise UsageError(f"`{name}` must not hold the control character {bad[0]!r}; found {text!r}")
    if (size := len(text.encode())) > MAX_ID_BYTES:
        raise UsageError(f"`{name}` has {size} bytes; the limit is {MAX_ID_BYTES}")
    return text


class TagRule(Protocol):
    """Decides whether a memory with these tags may be read."""

    def admits(self, tags: Sequence[str]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Leaf:
    """One tag filter. `any` and `all` let untagged memories through, their strict forms don't; no tags admit nothing."""

    tags: tuple[str, ...]
    match: TagsMatch = "any_strict"

    def admits(self, tags: Sequence[str]) -> bool:
        if not self.tags:
            return False
        wanted, found = set(self.tags), set(tags)
        if not found:
            return self.match in ("any", "all")
        if self.match == "exact":
            return wanted == found
        return not wanted.isdisjoint(found) if self.match in ("any", "any_strict") else wanted <= found


@dataclass(frozen=True, slots=True)
class Every:
    """Admits what all of its rules admit."""

    rules: tuple[TagRule, ...]

    def admits(self, tags: Sequence[str]) -> bool:
        return all(rule.admits(tags) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Either:
    """Admits what one of its rules admits."""

    rules: tuple[TagRule, ...]

    def admits(self, tags: Sequence[str]) -> bool:
        return any(rule.admits(tags) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Neither:
    """Admits what its rule does not."""

    rule: TagRule

    def admits(self, tags: Sequence[str]) -> bool:
        return not self.rule.admits(tags)


def parse_match(value: object) -> TagsMatch:
    if value not in MATCHES:
        raise UsageError(f"`tags_match` must be one of {', '.join(MATCHES)}; found {value!r}")
    return value


def parse_filter(tags: object, match: object) -> Leaf | None:
    """The caller's `tags` and `tags_match`; an empty list is a mistake, since some servers read it as "no filter"."""
    mode = parse_match(match)
    if tags is None:
        return None
    parsed = parse_tags(tags)
    if not parsed:
        raise UsageError("`tags` is empty: leave it out to read without a filter")
    return Leaf(parsed, mode)


def parse_tag_groups(groups: object) -> tuple[TagRule, ...]:
    """Tag groups in Hindsight's grammar: `{"tags": [...], "match": ...}`, `{"and": [...]}`, `{"or": [...]}`, `{"not": ...}`."""
    if groups is None:
        return ()
    if isinstance(groups, (str, Mapping)) or not isinstance(groups, Iterable):
        raise UsageError(f"`tag_groups` must be a list of groups; found {groups!r}")
    parsed = tuple(_parse_group(group, depth=0) for group in cast("Iterable[object]", groups))
    if not parsed:
        raise UsageError("`tag_groups` is empty: leave it out to read without a filter")
    return parsed


def _parse_group(value: object, *, depth: int) -> TagRule:
    if not isinstance(value, Mapping) or depth > 16:
        raise UsageError(f"a tag group must be a mapping, nested at most 16 deep; found {value!r}")
    group = cast("Mapping[str, object]", value)
    if set(group) == {"and"} or set(group) == {"or"}:
        (word, parts), kind = next(iter(group.items())), Every if "and" in group else Either
        if not isinstance(parts, (list, tuple)) or not parts:
            raise UsageError(f"a tag group's {word!r} must be a list with at least one group, not empty; found {parts!r}")
        return kind(tuple(_parse_group(part, depth=depth + 1) for part in cast("Iterable[object]", parts)))
    if set(group) == {"not"}:
        return Neither(_parse_group(group["not"], depth=depth + 1))
    if "tags" not in group or not set(group) <= {"tags", "match", "resolve"}:
        raise UsageError(f"a tag group is a leaf with `tags`, or one of `and`, `or`, `not`; found {sorted(map(str, group))}")
    if group.get("resolve", "exact") != "exact":
        raise UnsupportedError(f"a tag group's `resolve` can only be exact here; found {group['resolve']!r}")
    tags = group["tags"]
    if not (parsed := parse_tags(tags)):
        raise UsageError("a tag group's `tags` is empty: name at least one tag")
    return Leaf(parsed, parse_match(group.get("match", "any_strict")))


@dataclass(frozen=True, slots=True)
class Scope:
    """Where one handle writes and reads.

    `bank` receives writes, `reads` may be read and edited, `shared` is read beside them and written by
    `retain_global` alone. `stamp` are tags put on each write, `required` is what a memory's tags must satisfy to be
    read.
    """

    bank: str
    reads: tuple[str, ...]
    stamp: tuple[str, ...] = ()
    required: TagRule | None = None
    shared: str | None = None

    @property
    def searched(self) -> tuple[str, ...]:
        """All banks that a recall searches, as one."""
        return self.reads if self.shared is None or self.shared in self.reads else (*self.reads, self.shared)

    def admits(self, tags: Sequence[str]) -> bool:
        """Whether a memory with these tags may be read."""
        return self.required is None or self.required.admits(tags)

    def narrowed(self, *rules: TagRule | None) -> TagRule | None:
        """The scope's rule and the caller's, AND-ed: a caller can narrow, never widen."""
        given = tuple(rule for rule in (self.required, *rules) if rule is not None)
        return Every(given) if len(given) > 1 else next(iter(given), None)


def parse_scoping(value: object, project: str | None) -> Scoping:
    """The scoping as given; else `per-project-tagged` once a project is named, `global` before."""
    if value is None:
        return "global" if project is None else "per-project-tagged"
    if value not in SCOPINGS:
        raise UsageError(f"`scoping` must be one of {', '.join(SCOPINGS)}; found {value!r}")
    if value != "global" and project is None:
        raise UsageError(f"`scoping={value!r}` needs a `project`: name one, or pass project='auto'")
    return value


def project_bank(base: str, label: str) -> str:
    """The bank of one project: `base::label`, within the length limit."""
    return _normal(f"{base}::{label}", "bank")


def scope_by_bank(base: str, scoping: Scoping, label: str | None) -> Scope:
    """The scope on a backend where a project has a bank of its own (Mnemopi)."""
    if scoping == "global" or label is None:
        return Scope(base, (base,))
    own = project_bank(base, label)
    return Scope(own, (own,) if scoping == "per-project" else (own, base))


def scope_by_tag(base: str, scoping: Scoping, label: str | None, *, strict: bool = False) -> Scope:
    """The scope on a backend where a project is a tag in a common bank (Hindsight).

    Untagged memories surface beside the project's, unless `strict`.
    """
    if scoping == "global" or label is None:
        return Scope(base, (base,))
    if scoping == "per-project":
        own = project_bank(base, label)
        return Scope(own, (own,))
    tags = parse_tags([f"{PROJECT}{label}"])
    return Scope(base, (base,), tags, Leaf(tags, "any_strict" if strict else "any"))


def parse_label(value: object) -> str:
    """A project's label: parsed as a bank id and lower-cased, so that spellings don't part a project's memory."""
    return parse_bank_id(parse_bank_id(value, "project").casefold(), "project")
