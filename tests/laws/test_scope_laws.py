"""Laws of bank ids, tags and tag rules."""

import unicodedata

from hypothesis import assume, given
from hypothesis import strategies as st

from lorebank._domain.scope import (
    MATCHES,
    Either,
    Every,
    Leaf,
    Scope,
    TagRule,
    TagsMatch,
    parse_bank_id,
    parse_label,
    parse_tags,
    project_bank,
    scope_by_bank,
    scope_by_tag,
)
from lorebank.errors import UsageError

TEXTS = st.text(max_size=12) | st.text(alphabet="ab:/. é\u0301", max_size=6)
PARTS = st.text(alphabet="ab:", max_size=5) | st.text(max_size=8)
TAGS = st.lists(st.sampled_from("abcd"), max_size=4)
STRICT = st.sampled_from(["any_strict", "all_strict", "exact"])


def parsed(text: str) -> str | None:
    """The parsed id, or `None` where it is refused."""
    try:
        return parse_bank_id(text)
    except UsageError:
        return None


@given(TEXTS)
def test_parsing_a_bank_id_twice_changes_nothing(text: str) -> None:
    """What was parsed once is an id."""
    once = parsed(text)
    assume(once is not None)
    assert once is not None
    assert parse_bank_id(once) == once
    assert unicodedata.is_normalized("NFC", once)


@given(TEXTS)
def test_parsing_a_label_twice_changes_nothing(text: str) -> None:
    """A label found again is the same label."""
    assume(parsed(text) is not None)
    try:
        once = parse_label(text)
    except UsageError:
        return  # grew over the limit by lower-casing
    assert parse_label(once) == once


@given(st.text(max_size=12))
def test_composed_and_decomposed_ids_are_one(text: str) -> None:
    """An id's Unicode form doesn't part a bank."""
    assert parsed(unicodedata.normalize("NFD", text)) == parsed(unicodedata.normalize("NFC", text))


@given(PARTS, PARTS, PARTS, PARTS)
def test_two_projects_never_share_a_bank(base: str, label: str, other_base: str, other_label: str) -> None:
    """Different (base, label) pairs have different banks, and none is a plain base."""
    one, two = (parsed(base), parsed(label)), (parsed(other_base), parsed(other_label))
    banks = [project_bank(base, label) for base, label in {one, two} if base is not None and label is not None]
    assert len(set(banks)) == len(banks)
    assert [parsed(bank) for bank in banks] == [None] * len(banks)


@given(st.lists(TEXTS, max_size=5))
def test_parsing_tags_twice_changes_nothing(values: list[str]) -> None:
    """Tags are normal, trimmed and unique after one parse."""
    try:
        once = parse_tags(values)
    except UsageError:
        return
    assert parse_tags(once) == once
    assert len(set(once)) == len(once)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), st.sampled_from(MATCHES), TAGS)
def test_a_leaf_agrees_with_a_naive_model(wanted: list[str], match: TagsMatch, found: list[str]) -> None:
    """Counted tag by tag."""
    hits = [tag in found for tag in wanted]
    expected = {
        "any": not found or any(hits),
        "all": not found or all(hits),
        "any_strict": any(hits),
        "all_strict": all(hits),
        "exact": all(hits) and all(tag in wanted for tag in found),
    }[match]
    assert Leaf(tuple(wanted), match).admits(found) is expected


def strict_rules() -> st.SearchStrategy[TagRule]:
    """Rules built of strict leaves by `and` (of at least one) and `or`."""
    leaves: st.SearchStrategy[TagRule] = st.builds(Leaf, TAGS.map(tuple), STRICT)
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Every, st.lists(inner, min_size=1, max_size=3).map(tuple))
            | st.builds(Either, st.lists(inner, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )


@given(strict_rules())
def test_strict_rules_never_admit_untagged_memories(rule: TagRule) -> None:
    """However they are combined."""
    assert rule.admits(()) is False


@given(strict_rules(), strict_rules(), TAGS)
def test_a_caller_only_ever_narrows(own: TagRule, callers: TagRule, tags: list[str]) -> None:
    """What is read through both rules was allowed by each."""
    rule = Scope("a", ("a",), required=own).narrowed(callers)
    assert rule is not None
    assert rule.admits(tags) is (own.admits(tags) and callers.admits(tags))


@given(st.sampled_from("abc"), st.sampled_from("abc"), TAGS)
def test_no_project_reads_what_another_wrote(one: str, other: str, extra: list[str]) -> None:
    """By bank and by tag, whatever tags the writer adds (of those that are no project's)."""
    assume(one != other)
    for scoping in ("per-project", "per-project-tagged"):
        assert scope_by_bank("me", scoping, other).bank not in scope_by_bank("me", scoping, one).searched
    for strict in (False, True):
        written = (*scope_by_tag("me", "per-project-tagged", other).stamp, *extra)
        assert scope_by_tag("me", "per-project-tagged", one, strict=strict).admits(written) is False
