"""Which tags fit: the five modes, and groups with and, or, not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

__all__ = ["MODES", "TagTest", "every_group", "fits", "wildcard"]

MODES = ("any", "all", "any_strict", "all_strict", "exact")
TagTest = Callable[[Sequence[str]], bool]


def fits(tags: Sequence[str], wanted: Sequence[str], mode: str) -> bool:
    """Whether these tags are let through. No wanted tag is no filter, but for `exact`: then only the untagged.

    >>> fits(["a", "c"], ["a"], "any_strict"), fits([], ["a"], "any"), fits([], ["a"], "any_strict")
    (True, True, False)
    """
    return (not wanted and mode != "exact") or _matches(tags, wanted, mode)


def every_group(groups: Sequence[Mapping[str, Any]]) -> TagTest:
    """The AND of `tag_groups`, already checked for their shape."""
    tests = [_group(each) for each in groups]
    return lambda tags: all(test(tags) for test in tests)


def wildcard(tag: str, pattern: str | None) -> bool:
    """Whether a tag fits a pattern with `*`, in any case."""
    return pattern is None or fnmatchcase(tag.lower(), pattern.lower())


def _group(group: Mapping[str, Any]) -> TagTest:
    if "tags" in group:
        return _leaf(group["tags"], group.get("match") or "any_strict")
    if "not" in group:
        inner = _group(group["not"])
        return lambda tags: not inner(tags)
    parts = [_group(each) for each in group["and" if "and" in group else "or"]]
    joined = all if "and" in group else any
    return lambda tags: joined(part(tags) for part in parts)


def _leaf(wanted: Sequence[str], mode: str) -> TagTest:
    return lambda tags: _matches(tags, wanted, mode)


def _matches(tags: Sequence[str], wanted: Sequence[str], mode: str) -> bool:
    """As it stands: an empty leaf is a filter, and `all` of nothing is met by any tag."""
    have, want = set(tags), set(wanted)
    if mode == "exact":
        return have == want
    if not have:
        return not mode.endswith("_strict")
    return want <= have if mode.startswith("all") else bool(want & have)
