"""Bank ids, tags, tag rules and the three scopings."""

from collections.abc import Iterable

import pytest

from lorebank._domain.scope import (
    Either,
    Every,
    Leaf,
    Neither,
    Scope,
    TagsMatch,
    parse_bank_id,
    parse_filter,
    parse_label,
    parse_match,
    parse_scoping,
    parse_tag_groups,
    parse_tags,
    project_bank,
    scope_by_bank,
    scope_by_tag,
)
from lorebank.errors import UnsupportedError, UsageError


@pytest.mark.parametrize(
    ("given", "stored"), [("alice", "alice"), ("a:b", "a:b"), ("Jose\u0301", "Jos\u00e9"), ("a b", "a b"), ("日本", "日本")]
)
def test_a_good_bank_id_is_kept_in_nfc(given: str, stored: str) -> None:
    """Ids are NFC-normalised and otherwise kept, case and inner blanks included."""
    assert parse_bank_id(given) == stored


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "empty"),
        ("   ", "empty"),
        (".", "must be a name"),
        ("..", "must be a name"),
        ("a/b", "'/'"),
        ("a::b", "'::'"),
        ("a:", "colon"),
        (":a", "colon"),
        (" a", "blank"),
        ("a ", "blank"),
        ("a\nb", "control character"),
        ("a\x00b", "control character"),
        ("a\x7fb", "control character"),
        ("a\u2028b", "control character"),
        ("a\ud800", "control character"),
        ("x" * 193, "193 bytes; the limit is 192"),
        ("ä" * 97, "194 bytes; the limit is 192"),
        (None, "must be text; found NoneType"),
        (7, "must be text; found int"),
        (b"a", "must be text; found bytes"),
    ],
)
def test_a_bad_bank_id_is_refused_with_its_reason(value: object, why: str) -> None:
    """Every kind of bad id raises `UsageError` naming the field and the reason."""
    with pytest.raises(UsageError, match="`bank`") as caught:
        parse_bank_id(value)
    assert why in str(caught.value)


def test_192_bytes_are_allowed() -> None:
    """The limit itself is inside."""
    assert parse_bank_id("ä" * 96) == "ä" * 96


def test_the_error_names_the_field_that_was_asked() -> None:
    """The shared bank's error speaks of `shared`."""
    with pytest.raises(UsageError, match="`shared` must not be empty"):
        parse_bank_id("", "shared")


def test_a_label_is_lower_cased() -> None:
    """Spellings in other cases are one project."""
    assert parse_label("Acme-Shop") == "acme-shop"


def test_tags_are_trimmed_normalised_and_unique() -> None:
    """Tags keep their order; repeats go."""
    assert parse_tags([" b ", "a", "b", "e\u0301", "é"]) == ("b", "a", "é")


@pytest.mark.parametrize("values", ["trip", b"trip", 5, None])
def test_tags_that_are_no_list_are_refused(values: Iterable[object]) -> None:
    """A single text is not taken for a list of letters."""
    with pytest.raises(UsageError, match="`tags` must be a list of texts"):
        parse_tags(values)


@pytest.mark.parametrize("tag", ["", " ", "a\x01", "x" * 193, 3, None])
def test_a_bad_tag_is_refused(tag: object) -> None:
    """Tags follow the rules of ids where they can't be stored or sent."""
    with pytest.raises(UsageError, match="`tags`"):
        parse_tags([tag])


def test_tags_may_hold_slashes_and_colons() -> None:
    """`project:x` and paths are good tags."""
    assert parse_tags(["project:x", "a/b", "a::b"]) == ("project:x", "a/b", "a::b")


@pytest.mark.parametrize(
    ("match", "tags", "admitted"),
    [
        ("any", (), True),
        ("any", ("a",), True),
        ("any", ("a", "z"), True),
        ("any", ("z",), False),
        ("any_strict", (), False),
        ("any_strict", ("b",), True),
        ("any_strict", ("z",), False),
        ("all", (), True),
        ("all", ("a",), False),
        ("all", ("a", "b", "z"), True),
        ("all_strict", (), False),
        ("all_strict", ("b", "a"), True),
        ("all_strict", ("b",), False),
        ("exact", (), False),
        ("exact", ("b", "a"), True),
        ("exact", ("a", "b", "z"), False),
    ],
)
def test_a_leaf_admits_by_its_match(match: TagsMatch, tags: tuple[str, ...], admitted: bool) -> None:
    """The five matches, on tags a and b."""
    assert Leaf(("a", "b"), match).admits(tags) is admitted


@pytest.mark.parametrize("match", ["any", "all", "any_strict", "all_strict", "exact"])
def test_a_leaf_without_tags_admits_nothing(match: TagsMatch) -> None:
    """An empty required set is never "no filter"."""
    assert [Leaf((), match).admits(tags) for tags in ((), ("a",))] == [False, False]


def test_rules_combine() -> None:
    """and, or, not."""
    a, b = Leaf(("a",)), Leaf(("b",))
    assert [Every((a, b)).admits(t) for t in (("a",), ("a", "b"))] == [False, True]
    assert [Either((a, b)).admits(t) for t in (("b",), ("z",))] == [True, False]
    assert [Neither(a).admits(t) for t in (("a",), ("b",), ())] == [False, True, True]


def test_tag_groups_are_parsed_from_the_servers_grammar() -> None:
    """Leaves default to `any_strict`; and, or, not nest."""
    groups = [{"tags": ["a"]}, {"or": [{"tags": ["b"], "match": "all"}, {"not": {"and": [{"tags": ["c"], "resolve": "exact"}]}}]}]
    assert parse_tag_groups(groups) == (
        Leaf(("a",), "any_strict"),
        Either((Leaf(("b",), "all"), Neither(Every((Leaf(("c",), "any_strict"),))))),
    )


def test_no_tag_groups_are_no_rules() -> None:
    """`None` means that the caller filters nothing."""
    assert parse_tag_groups(None) == ()


@pytest.mark.parametrize("groups", [[], [{"tags": []}], [{"and": []}], [{"or": []}], [{"not": {"tags": []}}]])
def test_an_empty_tag_group_is_refused(groups: list[object]) -> None:
    """A required tag set that turns out empty is refused, never read as "no filter"."""
    with pytest.raises(UsageError, match="empty"):
        parse_tag_groups(groups)


@pytest.mark.parametrize(
    "groups",
    [
        "a",
        {"tags": ["a"]},
        5,
        ["a"],
        [None],
        [{}],
        [{"tags": "a"}],
        [{"tags": 5}],
        [{"tags": ["a"], "extra": 1}],
        [{"tags": ["a"], "match": "most"}],
        [{"and": {"tags": ["a"]}}],
        [{"or": "a"}],
        [{"not": ["a"]}],
        [{"and": [], "or": []}],
        [{1: 2, "a": 3}],
    ],
)
def test_a_bad_tag_group_is_refused(groups: Iterable[object]) -> None:
    """Anything outside the grammar raises `UsageError`."""
    with pytest.raises(UsageError, match="tag"):
        parse_tag_groups(groups)


def test_tag_groups_nest_at_most_16_deep() -> None:
    """A group nested without end is refused, not a crash."""
    group: dict[str, object] = {"tags": ["a"]}
    for _ in range(17):
        group = {"not": group}
    with pytest.raises(UsageError, match="16 deep"):
        parse_tag_groups([group])


def test_resolving_beyond_exact_is_unsupported() -> None:
    """What this backend cannot do is named."""
    with pytest.raises(UnsupportedError, match="`resolve`"):
        parse_tag_groups([{"tags": ["a"], "resolve": "prefix"}])


def test_a_filter_is_a_leaf() -> None:
    """The caller's `tags` and `tags_match`."""
    assert parse_filter(["x"], "all") == Leaf(("x",), "all")
    assert parse_filter(None, "any_strict") is None


def test_an_empty_filter_is_refused() -> None:
    """The server reads an empty list as "no filter"."""
    with pytest.raises(UsageError, match="`tags` is empty"):
        parse_filter([], "any")


@pytest.mark.parametrize("match", ["most", "", None, 1, ["any"]])
def test_an_unknown_match_is_refused_even_without_tags(match: object) -> None:
    """The error names `tags_match`, the value and the choices."""
    with pytest.raises(UsageError, match=r"`tags_match` must be one of any, all, any_strict, all_strict, exact; found"):
        parse_filter(None, match)


def test_match_is_returned_as_it_is() -> None:
    """Known choices pass."""
    assert parse_match("exact") == "exact"


@pytest.mark.parametrize(
    ("value", "project", "scoping"),
    [
        (None, None, "global"),
        (None, "shop", "per-project-tagged"),
        ("global", "shop", "global"),
        ("global", None, "global"),
        ("per-project", "shop", "per-project"),
    ],
)
def test_the_scoping_follows_the_project_unless_chosen(value: object, project: str | None, scoping: str) -> None:
    """An explicit choice wins over the default."""
    assert parse_scoping(value, project) == scoping


@pytest.mark.parametrize("value", ["projects", "", 1, ["global"]])
def test_an_unknown_scoping_is_refused(value: object) -> None:
    """The error names the field, the choices and the value."""
    with pytest.raises(UsageError, match=r"`scoping` must be one of global, per-project, per-project-tagged; found"):
        parse_scoping(value, "shop")


@pytest.mark.parametrize("value", ["per-project", "per-project-tagged"])
def test_a_project_scoping_needs_a_project(value: str) -> None:
    """No silent fallback to the global scoping."""
    with pytest.raises(UsageError, match=r"needs a `project`"):
        parse_scoping(value, None)


def test_a_project_bank_that_grows_too_long_is_refused() -> None:
    """`base::label` is bound by the limit as a whole."""
    with pytest.raises(UsageError, match="`bank` has 202 bytes"):
        project_bank("b" * 100, "l" * 100)


def test_by_bank_a_project_has_its_own_bank() -> None:
    """Mnemopi: the table of contract §4."""
    assert scope_by_bank("me", "global", "shop") == Scope("me", ("me",))
    assert scope_by_bank("me", "per-project", "shop") == Scope("me::shop", ("me::shop",))
    assert scope_by_bank("me", "per-project-tagged", "shop") == Scope("me::shop", ("me::shop", "me"))


def test_by_tag_a_project_is_a_tag() -> None:
    """Hindsight: the table of contract §4."""
    assert scope_by_tag("me", "global", "shop") == Scope("me", ("me",))
    assert scope_by_tag("me", "per-project", "shop") == Scope("me::shop", ("me::shop",))
    tagged = Scope("me", ("me",), ("project:shop",), Leaf(("project:shop",), "any"))
    assert scope_by_tag("me", "per-project-tagged", "shop") == tagged


def test_by_tag_untagged_memories_surface_unless_strict() -> None:
    """`any` shows untagged memories beside the project's, `any_strict` doesn't; neither shows another project's."""
    loose = scope_by_tag("me", "per-project-tagged", "shop")
    strict = scope_by_tag("me", "per-project-tagged", "shop", strict=True)
    cases: list[tuple[str, ...]] = [(), ("project:shop",), ("project:other",)]
    assert [loose.admits(tags) for tags in cases] == [True, True, False]
    assert [strict.admits(tags) for tags in cases] == [False, True, False]


def test_the_shared_bank_is_searched_beside_the_own_once() -> None:
    """`shared` is read beside, never twice."""
    assert Scope("a", ("a",), shared="team").searched == ("a", "team")
    assert Scope("a", ("a",), shared="a").searched == ("a",)


def test_a_caller_narrows_but_never_widens() -> None:
    """The scope's rule holds whatever the caller asks."""
    rule = Scope("a", ("a",), required=Leaf(("p",))).narrowed(None, Leaf(("x",)))
    assert rule is not None
    assert [rule.admits(tags) for tags in (("p",), ("x",), ("p", "x"))] == [False, False, True]


def test_without_rules_nothing_is_narrowed() -> None:
    """No scope rule and no caller rule: none."""
    assert Scope("a", ("a",)).narrowed(None) is None
