"""Edits on Mnemopi: what follows from the text changes with it; the projects' and the shared bank's part."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lorebank import Bank, MissingError, open_bank

Look = Callable[[str], list[Any]]


def test_an_update_keeps_what_is_not_of_the_text(timed: Bank, clock: Any) -> None:
    """Time, session, speaker, document, source, metadata and evidence stay."""
    known = timed.retain("Ana plays the cello.", session="s", speaker="Ana", document_id="d", metadata={"a": 1}).stored[0].id
    before = timed.get(known)
    clock.now += timedelta(days=3)
    after = timed.update(known, content="Ana plays the harp.")
    for name in (
        "id",
        "mentioned_at",
        "session",
        "speaker",
        "document_id",
        "metadata",
        "evidence",
        "importance",
        "source",
        "type",
    ):
        assert getattr(after, name) == getattr(before, name)


def test_an_update_keeps_the_place_in_the_session(bank: Bank, look: Look) -> None:
    """An edited message stays where it was said."""
    first = bank.retain(["one thing", "two things"], session="s").stored[0].id
    bank.update(first, content="another thing")
    assert look("SELECT content, position FROM memories ORDER BY position") == [("another thing", 0), ("two things", 1)]


def test_an_updated_memory_is_still_found_by_its_speaker_and_context(bank: Bank) -> None:
    """Search terms beside the text are derived anew, not lost."""
    known = bank.retain("I play it daily.", speaker="Ana", context="cello", entities=["Rostropovich"]).stored[0].id
    bank.update(known, content="I play it weekly.")
    assert [bank.recall(query)[0].id for query in ("Ana", "cello", "Rostropovich")] == [known] * 3


def test_an_update_to_a_known_text_leaves_both_memories_readable(bank: Bank) -> None:
    """Two memories may come to say the same; a recall shows the text once and a repeat is still a duplicate."""
    first, second = (bank.retain(text).stored[0].id for text in ("Ana plays the cello.", "Ana plays the harp."))
    bank.update(second, content="Ana plays the cello.")
    assert {m.id for m in bank.list()} == {first, second}
    assert len(bank.recall("cello")) == 1
    assert len(bank.retain("Ana plays the cello.").duplicates) == 1
    assert bank.check().problems == ()


def test_changed_metadata_can_be_emptied(bank: Bank) -> None:
    """An empty mapping takes the metadata away."""
    known = bank.retain("Ana plays the cello.", metadata={"a": 1}).stored[0].id
    assert bank.update(known, content="Ana plays the cello.", metadata={}).metadata == {}


def test_invalidation_is_stamped_with_the_time_of_the_first_call(timed: Bank, clock: Any) -> None:
    """A second call may name the successor, but the time stays."""
    old, new = (timed.retain(text).stored[0].id for text in ("Ana lives in Oslo.", "Ana lives in Rome."))
    timed.invalidate(old)
    clock.now += timedelta(days=1)
    gone = timed.invalidate(old, replacement=new)
    assert (gone.invalidated_at, gone.superseded_by) == (datetime(2026, 3, 4, 12, tzinfo=UTC), new)


def test_a_list_reads_past_thousands_of_memories_that_a_filter_hides(bank: Bank) -> None:
    """The page is full where enough memories match, however far down they stand."""
    times = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=n) for n in range(1_300)]
    bank.retain(
        [{"content": f"note {n}", "timestamp": time, "tags": ["x"] if n % 100 == 0 else ["y"]} for n, time in enumerate(times)]
    )
    expected = [f"note {n}" for n in range(1_200, -1, -100)]
    assert [m.text for m in bank.list(tags=["x"])] == expected
    assert [m.text for m in bank.list(tags=["x"], limit=3, offset=10)] == expected[10:]


def test_forgetting_many_at_once_removes_all(bank: Bank) -> None:
    """Removal goes page by page and misses none."""
    bank.retain([f"note {n}" for n in range(1_100)], session="s")
    assert (len(bank.forget(session="s")), bank.list(state="all"), bank.check().problems) == (1_100, (), ())


def test_a_project_may_edit_its_base_bank(url: str) -> None:
    """In `per-project-tagged`, memories of the base bank are read and edited beside the project's own."""
    with open_bank(url, bank="alice") as base, open_bank(url, bank="alice", project="Atlas") as project:
        known = base.retain("Ana plays the cello.").stored[0].id
        changed = project.update(known, content="Ana plays the harp.")
        assert (changed.bank, base.get(known).text) == ("alice", "Ana plays the harp.")
        assert project.forget(known).ids == (known,)
        with pytest.raises(MissingError):
            base.get(known)
        assert base.check().problems == ()


def test_a_filter_removes_from_the_projects_own_bank_only(url: str) -> None:
    """`forget` with a filter never reaches what all projects share."""
    with open_bank(url, bank="alice") as base, open_bank(url, bank="alice", project="Atlas") as project:
        base.retain("a base note", session="s")
        own = project.retain("a project note", session="s").stored[0].id
        assert project.forget(session="s").ids == (own,)
        assert [m.text for m in base.list()] == ["a base note"]


@pytest.mark.parametrize(("verb", "fields"), [("update", {"content": "x y"}), ("invalidate", {}), ("forget", {})])
def test_the_shared_bank_is_read_but_not_edited(url: str, verb: str, fields: dict[str, Any]) -> None:
    """A memory of the shared bank is missing to every edit through another bank."""
    with open_bank(url, bank="alice", shared="team") as bank:
        assert bank.shared is not None
        known = bank.shared.retain("The team meets on Monday.").stored[0].id
        assert bank.get(known).bank == "team"
        with pytest.raises(MissingError):
            getattr(bank, verb)(known, **fields)
        assert [m.text for m in bank.shared.list()] == ["The team meets on Monday."]


def test_a_memory_of_the_shared_bank_may_be_the_replacement(url: str) -> None:
    """What may be read may be named as the truth."""
    with open_bank(url, bank="alice", shared="team") as bank:
        assert bank.shared is not None
        new = bank.shared.retain("The team meets on Monday.").stored[0].id
        old = bank.retain("The team meets on Friday.").stored[0].id
        assert bank.invalidate(old, replacement=new).superseded_by == new
