"""Mental models on Mnemopi: written from ranked memories, rewritten when these change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from lorebank import Bank, open_bank
from lorebank._mnemopi.schema import STEPS

Look = Callable[[str], list[Any]]
QUESTION = "What does Ana play?"


def made(bank: Bank, **fields: Any) -> Any:
    return bank.mental_models.create("music", name="Music", source_query=QUESTION, **fields)


def test_content_is_one_folded_line_for_each_memory(bank: Bank) -> None:
    """A memory of several lines is one bullet."""
    bank.retain("Ana plays\nthe   cello.")
    assert made(bank).content == "- Ana plays the cello."


def test_a_model_without_an_answer_is_empty(bank: Bank) -> None:
    """Nothing known gives no content, and no source."""
    model = made(bank)
    assert (model.content, model.based_on, model.refreshed_at is not None) == ("", (), True)


def test_content_keeps_to_the_token_bound(bank: Bank) -> None:
    """The answer holds as many whole memories as fit."""
    bank.retain([f"Ana plays the very same old cello on day {n:04}." for n in range(12)])
    assert len(made(bank, max_tokens=64).content.splitlines()) == 5


def test_an_update_of_a_source_rewrites_the_model(bank: Bank) -> None:
    """What a model says follows the memories it was written from."""
    known = bank.retain("Ana plays the cello.").stored[0].id
    made(bank)
    bank.update(known, content="Ana plays the harp.")
    assert bank.mental_models.get("music").content == "- Ana plays the harp."


def test_an_invalidated_source_leaves_the_model(bank: Bank) -> None:
    """What is no longer true is no longer said."""
    known = bank.retain("Ana plays the cello.").stored[0].id
    made(bank)
    bank.invalidate(known)
    model = bank.mental_models.get("music")
    assert (model.content, model.based_on) == ("", ())


def test_a_forgotten_source_leaves_the_model_and_its_history(bank: Bank) -> None:
    """Forgetting reaches the present answer and the former ones."""
    first, second = (bank.retain(text).stored[0].id for text in ("Ana plays the cello.", "Ana plays the harp."))
    made(bank)
    bank.invalidate(second)
    assert len(bank.mental_models.history("music")) == 1
    bank.forget(first)
    assert (bank.mental_models.get("music").content, bank.mental_models.history("music")) == ("", ())


def test_a_model_narrowed_by_tags_reads_those_and_the_untagged(bank: Bank) -> None:
    """Other tags stay out of a model's answer."""
    bank.retain(
        [{"content": f"Ana plays the {what}.", "tags": tags} for what, tags in (("cello", ["x"]), ("harp", ["y"]), ("drum", []))]
    )
    assert set(made(bank, tags=["x"]).content.splitlines()) == {"- Ana plays the cello.", "- Ana plays the drum."}


def test_times_come_from_the_clock(timed: Bank, clock: Any) -> None:
    """A revision says when it was replaced, a model when it was answered."""
    timed.retain("Ana plays the cello.")
    assert made(timed).refreshed_at == datetime(2026, 3, 4, 12, tzinfo=UTC)
    clock.now += timedelta(days=1)
    timed.mental_models.update("music", content="Cello.")
    assert [revision.replaced_at for revision in timed.mental_models.history("music")] == [datetime(2026, 3, 5, 12, tzinfo=UTC)]


def test_models_of_two_banks_with_one_id_stay_apart(bank: Bank) -> None:
    """Update, refresh and delete of one bank's model never touch another bank's."""
    bank.retain("Ana plays the cello.")
    mine = made(bank)
    other = bank.named("bob")
    made(other)
    other.mental_models.update("music", content="Silence.")
    other.mental_models.refresh("music")
    other.mental_models.delete("music")
    assert bank.mental_models.list() == (mine,)
    assert bank.mental_models.history("music") == ()


def test_a_models_answer_takes_in_the_shared_bank(url: str) -> None:
    """A model reads what its bank may read."""
    with open_bank(url, bank="alice", shared="team") as bank:
        assert bank.shared is not None
        bank.shared.retain("Ana plays the cello.")
        assert made(bank).content == "- Ana plays the cello."


def test_an_answer_never_holds_another_banks_memory(bank: Bank) -> None:
    """Models are written from the bank's own memories alone."""
    bank.named("bob").retain("Ana plays the harp.")
    assert made(bank).content == ""


def test_models_of_an_older_file_are_refreshed_by_delta(url: str, look: Look) -> None:
    """A file without the column for it is brought up to date, with its models."""
    with open_bank(url, bank="alice") as bank:
        bank.retain("Ana plays the cello.")
        model = made(bank)
    for statement in (
        *(each for each in STEPS[0] if "memories_added" in each),
        "DROP TRIGGER memories_removed_sources",
        "DROP TABLE sources",
        "DROP TABLE redo",
        "DROP TABLE jobs",
        "DROP INDEX memories_observations",
        "DROP TABLE facts",
        "DROP TRIGGER memories_removed_facts",
        "DROP TABLE vectors",
        "DROP TABLE embedding_models",
        "DROP TRIGGER memories_removed_vectors",
        "DROP TRIGGER memories_changed_vectors",
        "ALTER TABLE banks DROP COLUMN dropped",
        'ALTER TABLE mental_models DROP COLUMN "trigger"',
    ):
        look(statement)
    look("UPDATE lorebank_schema SET version = 1 WHERE component = 'mnemopi'")
    with open_bank(url, bank="alice") as bank:
        assert (bank.mental_models.get("music"), model.trigger) == (model, "delta")


def test_history_tells_what_changed(bank: Bank) -> None:
    """Each revision has the lines that went and came when it was replaced."""
    made(bank)
    for content in ("one\ntwo", "one\nthree", "four"):
        bank.mental_models.update("music", content=content)
    assert [revision.diff for revision in bank.mental_models.history("music")] == ["- one\n- three\n+ four", "- two\n+ three"]
