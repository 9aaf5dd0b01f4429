"""`bank.mental_models`: standing questions, their answers, their history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lorebank import Bank, MissingError, RefusedError, Seed, UnsupportedError

Caller = Callable[..., Any]
Opener = Callable[..., Bank]
Told = Callable[..., list[str]]
Refused = Callable[..., Any]
Beside = Callable[[Bank, str], Bank]
MUSIC = {"name": "Music", "source_query": "What does Ana play?"}


def test_a_new_model_is_answered_at_once(bank: Bank, call: Caller, told: Told) -> None:
    """Its content comes from what the bank knows, and it says from which memories."""
    [known] = told(bank, "Ana plays the cello.")
    made = call(bank.mental_models, "create", "music", **MUSIC, tags=(), max_tokens=600)
    assert (made.id, made.name, made.source_query, made.max_tokens) == ("music", "Music", "What does Ana play?", 600)
    assert "Ana plays the cello." in made.content
    assert known in made.based_on
    assert call(bank.mental_models, "get", "music") == made


def test_models_are_listed_by_id(bank: Bank, call: Caller) -> None:
    """An empty bank has none; otherwise all come, in the order of their ids."""
    assert call(bank.mental_models, "list") == ()
    for name in ("b-model", "a-model"):
        call(bank.mental_models, "create", name, **MUSIC)
    assert [model.id for model in call(bank.mental_models, "list")] == ["a-model", "b-model"]


def test_an_existing_id_is_refused_and_stays_as_it_is(bank: Bank, call: Caller) -> None:
    """`create` never changes a model."""
    made = call(bank.mental_models, "create", "music", **MUSIC)
    with pytest.raises(RefusedError, match="music"):
        call(bank.mental_models, "create", "music", name="Other", source_query="Something else?")
    assert call(bank.mental_models, "list") == (made,)


@pytest.mark.backends("mnemopi")
def test_refresh_takes_in_what_is_new_and_keeps_the_old_answer_as_history(bank: Bank, call: Caller) -> None:
    """A changed answer leaves a revision; an unchanged one keeps its bytes and leaves none."""
    call(bank, "retain", "Ana plays the cello.")
    before = call(bank.mental_models, "create", "music", **MUSIC)
    assert call(bank.mental_models, "refresh", "music").content == before.content
    assert call(bank.mental_models, "history", "music") == ()
    call(bank, "retain", "Ana plays the harp.")
    assert "Ana plays the harp." in call(bank.mental_models, "refresh", "music").content
    assert [revision.content for revision in call(bank.mental_models, "history", "music")] == [before.content]


@pytest.mark.backends("hindsight")
def test_a_server_s_model_takes_in_what_is_new_and_keeps_the_old_answer(bank: Bank, call: Caller, told: Told) -> None:
    """A refresh asks anew (the server does so by itself, too); the former answer is in the history."""
    told(bank, "Ana plays the cello.")
    before = call(bank.mental_models, "create", "music", **MUSIC)
    told(bank, "Ana plays the harp.")
    assert "Ana plays the harp." in call(bank.mental_models, "refresh", "music").content
    assert before.content in [revision.content for revision in call(bank.mental_models, "history", "music")]


@pytest.mark.backends("mnemopi")
def test_update_changes_only_what_is_given(bank: Bank, call: Caller) -> None:
    """Fields that are not named stay; content written by hand stays until the next refresh."""
    call(bank.mental_models, "create", "music", **MUSIC, tags=["x"])
    changed = call(bank.mental_models, "update", "music", name="Songs", content=" Ana sings. ")
    assert (changed.name, changed.content, changed.source_query, changed.tags) == (
        "Songs",
        "Ana sings.",
        MUSIC["source_query"],
        ("x",),
    )
    changed = call(bank.mental_models, "update", "music", source_query="Songs?", tags=["y"], max_tokens=64)
    assert (changed.content, changed.source_query, changed.tags, changed.max_tokens) == ("Ana sings.", "Songs?", ("y",), 64)


@pytest.mark.backends("hindsight")
def test_update_changes_of_a_server_s_model_only_what_is_given(bank: Bank, call: Caller) -> None:
    """Fields that are not named stay; the content is the server's own work, and its bounds are narrower."""
    made = call(bank.mental_models, "create", "music", **MUSIC, tags=["x"])
    changed = call(bank.mental_models, "update", "music", name="Songs")
    assert (changed.name, changed.content, changed.source_query, changed.tags) == (
        "Songs",
        made.content,
        MUSIC["source_query"],
        ("x",),
    )
    changed = call(bank.mental_models, "update", "music", source_query="Songs?", tags=["y"], max_tokens=256)
    assert (changed.name, changed.source_query, changed.tags, changed.max_tokens) == ("Songs", "Songs?", ("y",), 256)


@pytest.mark.backends("hindsight")
@pytest.mark.parametrize("fields", [{"content": "Ana sings."}, {"max_tokens": 255}], ids=repr)
def test_what_a_server_s_model_lacks_is_refused_by_name(
    near: Bank, call: Caller, refused: Refused, fields: dict[str, Any]
) -> None:
    """Content by hand and answers under 256 tokens are refused before anything is sent."""
    call(near.mental_models, "create", "music", **MUSIC)
    with refused(f"Hindsight.*`{next(iter(fields))}`") as caught:
        call(near.mental_models, "update", "music", **fields)
    assert isinstance(caught.value, UnsupportedError)


@pytest.mark.backends("mnemopi")
def test_history_is_newest_first(bank: Bank, call: Caller) -> None:
    """Each former answer is kept with the time of its replacement."""
    call(bank.mental_models, "create", "music", **MUSIC)
    for content in ("first", "second", "third"):
        call(bank.mental_models, "update", "music", content=content)
    assert [revision.content for revision in call(bank.mental_models, "history", "music")] == ["second", "first"]


@pytest.mark.backends("mnemopi")
def test_delete_removes_the_model_and_its_history(bank: Bank, call: Caller) -> None:
    """A model made anew under the same id starts without a past."""
    call(bank.mental_models, "create", "music", **MUSIC)
    call(bank.mental_models, "update", "music", content="first")
    call(bank.mental_models, "update", "music", content="second")
    call(bank.mental_models, "delete", "music")
    assert call(bank.mental_models, "list") == ()
    call(bank.mental_models, "create", "music", **MUSIC)
    assert call(bank.mental_models, "history", "music") == ()


@pytest.mark.backends("hindsight")
def test_delete_removes_a_server_s_model(bank: Bank, call: Caller) -> None:
    """It is not listed, and can be made anew under the same id."""
    call(bank.mental_models, "create", "music", **MUSIC)
    call(bank.mental_models, "delete", "music")
    assert call(bank.mental_models, "list") == ()
    call(bank.mental_models, "create", "music", **{**MUSIC, "name": "Songs"})
    assert [model.name for model in call(bank.mental_models, "list")] == ["Songs"]


def test_ensure_creates_seeds_once_and_changes_nothing(bank: Bank, call: Caller) -> None:
    """A bank without a project gets `user-preferences` only; a second call creates nothing."""
    assert [model.id for model in call(bank.mental_models, "ensure")] == ["user-preferences"]
    edited = call(bank.mental_models, "update", "user-preferences", name="Tea, never coffee")
    assert call(bank.mental_models, "ensure") == ()
    assert call(bank.mental_models, "list") == (edited,)


def test_ensure_creates_the_users_own_seeds(bank: Bank, call: Caller) -> None:
    """Seeds may be given."""
    seeds = (Seed("music", "Music", "Which instrument?", 300),)
    assert [(model.id, model.max_tokens) for model in call(bank.mental_models, "ensure", seeds)] == [("music", 300)]


def test_a_project_gets_its_own_seeds(opened: Opener, call: Caller) -> None:
    """Per project, conventions and decisions come beside the preferences."""
    plain = opened(bank="alice", project="Atlas", scoping="per-project")
    assert [model.id for model in call(plain.mental_models, "ensure")] == [
        "user-preferences",
        "project-conventions",
        "project-decisions",
    ]
    tagged = opened(bank="bob", project="Atlas")
    made = call(tagged.mental_models, "ensure")
    assert [(model.id, model.tags) for model in made] == [
        ("user-preferences", ()),
        ("project-conventions-atlas", ("project:atlas",)),
        ("project-decisions-atlas", ("project:atlas",)),
    ]


def test_models_of_other_banks_are_not_seen(bank: Bank, call: Caller, beside: Beside) -> None:
    """The same id in two banks is two models."""
    call(bank.mental_models, "create", "music", **MUSIC)
    other = beside(bank, "bob").mental_models
    assert call(other, "list") == ()
    with pytest.raises(MissingError):
        call(other, "delete", "music")
    call(other, "create", "music", name="Bob's", source_query="Bob?")
    assert call(bank.mental_models, "get", "music").name == "Music"


def test_an_unknown_model_is_missing(bank: Bank, call: Caller) -> None:
    """Unknown ids raise `MissingError` in every verb, also in a bank that was never written to."""
    for verb, fields in (("get", {}), ("update", {"name": "x"}), ("refresh", {}), ("history", {}), ("delete", {})):
        with pytest.raises(MissingError, match="nope"):
            call(bank.mental_models, verb, "nope", **fields)


@pytest.mark.parametrize("bad", ["", "Upper", "a b", "é", "-a", "x" * 129, None, 5], ids=lambda bad: repr(bad)[:10])
@pytest.mark.parametrize(
    ("verb", "fields"),
    [("get", {}), ("create", MUSIC), ("update", {"name": "x"}), ("refresh", {}), ("history", {}), ("delete", {})],
)
def test_a_bad_model_id_is_refused(
    near: Bank, call: Caller, refused: Refused, verb: str, fields: dict[str, Any], bad: object
) -> None:
    """Ids are lower-case letters, digits, `.`, `_`, `-`; nothing is written under another."""
    with refused():
        call(near.mental_models, verb, bad, **fields)
    assert call(near.mental_models, "list") == ()


BAD_FIELDS: list[dict[str, Any]] = [
    {"name": ""},
    {"name": 5},
    {"source_query": " "},
    {"source_query": 5},
    {"max_tokens": 63},
    {"max_tokens": 8193},
    {"max_tokens": "600"},
    {"tags": [""]},
    {"tags": [5]},
    {"name": "\ud800"},
    {"source_query": "\ud800"},
]


@pytest.mark.parametrize("fields", BAD_FIELDS, ids=repr)
def test_a_bad_field_creates_no_model(near: Bank, call: Caller, refused: Refused, fields: dict[str, Any]) -> None:
    """A wrong value is a `UsageError`; nothing is written."""
    with refused():
        call(near.mental_models, "create", "music", **{**MUSIC, **fields})
    assert call(near.mental_models, "list") == ()


@pytest.mark.parametrize("fields", [*BAD_FIELDS, {}, {"content": ""}, {"content": 5}, {"content": "\ud800"}], ids=repr)
def test_a_bad_field_changes_no_model(near: Bank, call: Caller, refused: Refused, fields: dict[str, Any]) -> None:
    """A wrong value is a `UsageError`; the model stays as it was."""
    made = call(near.mental_models, "create", "music", **MUSIC)
    with refused():
        call(near.mental_models, "update", "music", **fields)
    assert call(near.mental_models, "list") == (made,)
