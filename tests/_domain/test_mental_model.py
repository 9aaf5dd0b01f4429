"""Mental models: seeds, ids, order and the shared budget."""

from datetime import UTC, datetime

import pytest

from lorebank._domain.mental_model import (
    SEEDS,
    MentalModel,
    Revision,
    by_priority,
    changes,
    parse_model,
    parse_model_id,
    share_budget,
    with_diffs,
)
from lorebank._domain.scope import Scoping
from lorebank.errors import UsageError

PREFERENCES, CONVENTIONS, DECISIONS = SEEDS
GOOD: dict[str, object] = {"id": "tone", "name": " Tone ", "source_query": " How does Ana write? "}


def ids(scoping: Scoping, label: str | None) -> list[str]:
    """The ids that the built-in seeds get."""
    models = [seed.resolved(scoping, label) for seed in SEEDS]
    return [model.id for model in models if model is not None]


def test_the_built_in_seeds_have_their_budgets() -> None:
    """600, 800 and 800 tokens, refreshed by delta."""
    models = [seed.resolved("per-project", "shop") for seed in SEEDS]
    assert [(m.id, m.max_tokens, m.trigger, m.tags) for m in models if m] == [
        ("user-preferences", 600, "delta", ()),
        ("project-conventions", 800, "delta", ()),
        ("project-decisions", 800, "delta", ()),
    ]


def test_global_banks_have_the_users_preferences_only() -> None:
    """Project seeds need a project."""
    assert ids("global", None) == ["user-preferences"]


def test_in_tagged_scoping_project_seeds_carry_the_project() -> None:
    """Id suffix and tag keep projects apart; the user's preferences stay untagged."""
    assert ids("per-project-tagged", "shop") == ["user-preferences", "project-conventions-shop", "project-decisions-shop"]
    model, user = CONVENTIONS.resolved("per-project-tagged", "shop"), PREFERENCES.resolved("per-project-tagged", "shop")
    assert model is not None
    assert user is not None
    assert (model.tags, user.tags) == (("project:shop",), ())


@pytest.mark.parametrize(("one", "other"), [("日本", "中国"), ("a b", "a-b"), ("a@b", "a-b"), ("é", "ü")])
def test_two_projects_never_share_a_seeded_model(one: str, other: str) -> None:
    """Different labels give different ids, whatever their script."""
    assert set(ids("per-project-tagged", one)) & set(ids("per-project-tagged", other)) == {"user-preferences"}


@pytest.mark.parametrize("label", ["x" * 150, "日本", ".hidden", "-", "a" * 184])
def test_a_seeds_id_is_always_a_good_model_id(label: str) -> None:
    """Whatever label is allowed, the seeded id can be asked for."""
    assert [parse_model_id(each) for each in ids("per-project-tagged", label)] == ids("per-project-tagged", label)


@pytest.mark.parametrize("value", ["a", "user-preferences", "a.b_c-1", "0", "a" * 128])
def test_a_good_model_id_is_kept(value: str) -> None:
    """Lower-case letters, digits, dot, underscore, hyphen."""
    assert parse_model_id(value) == value


@pytest.mark.parametrize("value", ["", "A", "-a", ".a", "a b", "a/b", "ä", "a\n", "a" * 129, None, 5])
def test_a_bad_model_id_is_refused(value: object) -> None:
    """The error says what an id looks like."""
    with pytest.raises(UsageError, match="a mental model's id must match"):
        parse_model_id(value)


def test_a_model_is_parsed_with_its_texts_trimmed() -> None:
    """800 tokens and no tags by default."""
    assert parse_model(GOOD) == MentalModel("tone", "Tone", "How does Ana write?", "", (), 800)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": ""}, "`name`"),
        ({"name": None}, "`name`"),
        ({"source_query": "  "}, "`source_query`"),
        ({"source_query": 5}, "`source_query`"),
        ({"max_tokens": 63}, "`max_tokens`"),
        ({"max_tokens": 8193}, "`max_tokens`"),
        ({"max_tokens": True}, "`max_tokens`"),
        ({"max_tokens": "800"}, "`max_tokens`"),
        ({"tags": [""]}, "`tags`"),
        ({"tags": None}, "`tags`"),
        ({"id": "No"}, "id"),
        ({"id": None}, "id"),
    ],
)
def test_a_bad_model_is_refused_by_field(change: dict[str, object], named: str) -> None:
    """Each mistake names its field."""
    with pytest.raises(UsageError, match=named):
        parse_model(GOOD | change)


def test_preferences_come_first_then_names() -> None:
    """`user-preferences`, then by name without case, then by id."""
    names = [("z", "alpha"), ("b", "Beta"), ("user-preferences", "Zeta"), ("a", "beta")]
    assert [m.id for m in by_priority([MentalModel(i, n, "?") for i, n in names])] == ["user-preferences", "z", "a", "b"]


@pytest.mark.parametrize(
    ("sizes", "total", "shares"),
    [
        ([], 10, []),
        ([5, 5], 100, [5, 5]),
        ([100, 100], 100, [50, 50]),
        ([10, 100, 100], 110, [10, 50, 50]),
        ([100, 10, 100], 110, [50, 10, 50]),
        ([100], 0, [0]),
        ([100, 5], -3, [0, 0]),
        ([0, 7], 7, [0, 7]),
    ],
)
def test_who_needs_less_leaves_the_rest_to_others(sizes: list[int], total: int, shares: list[int]) -> None:
    """Water-filling, in the order of the models."""
    assert share_budget(sizes, total) == shares


@pytest.mark.parametrize("trigger", ["delta", "full"])
def test_a_model_says_how_it_is_refreshed(trigger: str) -> None:
    """By delta or in full."""
    assert parse_model({**GOOD, "trigger": trigger}).trigger == trigger


@pytest.mark.parametrize("trigger", ["", "Delta", None, 5, []], ids=repr)
def test_an_unknown_trigger_is_refused(trigger: object) -> None:
    """The error names those that there are."""
    with pytest.raises(UsageError, match=r"`trigger` must be one of delta, full"):
        parse_model({**GOOD, "trigger": trigger})


@pytest.mark.parametrize(
    ("before", "after", "diff"),
    [
        ("a\nb\nc", "a\nx\nc", "- b\n+ x"),
        ("a\nb", "a\nb\nc", "+ c"),
        ("a\nb", "", "- a\n- b"),
        ("- a\n- b", "- b\n- c", "- - a\n+ - c"),
        ("a", "a", ""),
    ],
)
def test_a_diff_tells_the_lines_that_went_and_came(before: str, after: str, diff: str) -> None:
    """Lines that stay are left out."""
    assert changes(before, after) == diff


def test_each_revision_tells_what_changed_when_it_was_replaced() -> None:
    """The newest was replaced by the present content, each other by the one after it."""
    moment = datetime(2026, 3, 4, tzinfo=UTC)
    told = with_diffs([Revision("b\nc", moment), Revision("a\nb", moment)], "c\nd")
    assert [revision.diff for revision in told] == ["- b\n+ d", "- a\n+ c"]
    assert [revision.content for revision in told] == ["b\nc", "a\nb"]
