"""Modes: tags; fail closed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lorebank import Bank, UnavailableError, UsageError, open_bank
from lorebank._domain.events import SessionUnreadable
from lorebank._mnemopi.backend import MnemopiBackend

from .rig import AISLE, UNREADABLE, Rig, answer, spoil, user


def test_tags_are_stamped_from_then_on(rig: Rig, bank: Bank) -> None:
    """On what is retained after they were set, not on what was; taken away, they are not stamped any more."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
        session.tags.add("trip")
        session.after_turn([user("One."), answer("Two.")])
        session.tags.discard("trip")
        session.after_turn([user("One."), answer("Two."), user("Three.")])
    tags = dict(rig.tagged(bank))
    if rig.server is None:
        assert tags == {"One.": (), "Two.": ("trip",), "Three.": ()}


def test_a_session_has_no_tag_of_its_own(rig: Rig, bank: Bank) -> None:
    """Session tags would split observations: none is there unless asked for."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    assert rig.tagged(bank) == [("One.", ())]


def test_base_tags_are_stamped_beside(rig: Rig) -> None:
    """Both the setting's and the session's."""
    bank = rig.open(retain={"base_tags": ("app",)})
    with bank.session("s") as session:
        session.tags.add("trip")
        session.after_turn([user("One.")])
    assert [set(tags) for _, tags in rig.tagged(bank)] == [{"app", "trip"}]


def test_tags_are_trimmed_and_there_once(bank: Bank) -> None:
    """In the order in which they came."""
    with bank.session("s") as session:
        for tag in ("  trip ", "trip", "work", "Trip"):
            session.tags.add(tag)
        assert list(session.tags) == ["trip", "work", "Trip"]
        assert (len(session.tags), " trip " in session.tags or "trip" in session.tags) == (3, True)
        session.tags.remove("work")
        session.tags.discard("unknown")
        with pytest.raises(KeyError):
            session.tags.remove("unknown")
        assert set(session.tags) == {"trip", "Trip"}
        session.tags.clear()
        assert not session.tags


def test_a_bad_tag_is_refused(bank: Bank) -> None:
    """Control characters, blanks, more than 80 characters, what is no text; the tags stay as they were."""
    bad: tuple[Any, ...] = ("", "  ", "a\nb", "a\x00b", "x" * 81, 5, None, "\ud800")
    with bank.session("s") as session:
        session.tags.add("x" * 80)
        for tag in bad:
            with pytest.raises(UsageError):
                session.tags.add(tag)
        assert list(session.tags) == ["x" * 80]


def test_tags_are_a_set_to_calculate_with(bank: Bank) -> None:
    """Unions and the like give plain sets; assigning in place works as with any set."""
    with bank.session("s") as session:
        session.tags.add("a")
        assert session.tags | {"b"} == {"a", "b"}
        assert session.tags & {"a", "b"} == {"a"}
        assert session.tags - {"a"} == set()
        assert {"a", "b"} - session.tags == {"b"}


def test_tags_can_be_added_to_in_place(bank: Bank) -> None:
    """`session.tags |= {...}` is what users type for a set."""
    with bank.session("s") as session:
        session.tags |= {"b", "c"}
        assert set(session.tags) == {"b", "c"}


def test_a_record_that_cant_be_read_means_ignored(rig: Rig, bank: Bank) -> None:
    """Nothing is recalled or retained, tools are refused, and one event tells of each session."""
    for case, text in UNREADABLE.items():
        with bank.session(case) as session:
            session.after_turn([user("One.")])
        rig.sql("UPDATE sessions SET choices = ? WHERE id = ?", text, case)
        with bank.session(case) as session:
            history = [user("One."), answer("Two."), user("Three.")]
            injection = session.before_turn(history)
            session.after_turn(history)
            session.before_turn([*history, user("Four.")])
            assert (injection.result, injection.memories, session.mode) == (None, "", "ignored"), case
            assert session.refusal("recall") is not None
    assert rig.kept(bank) == ["One."] * len(UNREADABLE)
    told = [event.session for event in rig.events if isinstance(event, SessionUnreadable)]
    assert told == list(UNREADABLE)


def test_a_record_in_bytes_means_ignored(rig: Rig, bank: Bank) -> None:
    """Garbage need not even be text."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    rig.sql("UPDATE sessions SET choices = ?", b"\xff\xfe\x00garbage")
    with bank.session("s") as session:
        assert session.before_turn([user("One."), user("Two.")]).result is None
        assert session.mode == "ignored"
    assert rig.kept(bank) == ["One."]


@pytest.mark.parametrize("column", ["turns", "messages", "segment", "head"])
def test_a_spoiled_counter_breaks_no_turn(rig: Rig, bank: Bank, column: str) -> None:
    """Also what a user did not choose may be unreadable: the host goes on."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    rig.sql(f"UPDATE sessions SET {column} = 'garbage'")  # noqa: S608 - a name of the test's own
    with bank.session("s") as session:
        session.before_turn([user("One."), answer("Two."), user("Three.")])
        session.after_turn([user("One."), answer("Two."), user("Three."), answer("Four.")])


def test_a_mode_makes_an_unreadable_session_readable_again(rig: Rig, bank: Bank) -> None:
    """Only that: a tag alone does not. What was seen meanwhile never resurfaces."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    spoil(rig, "{")
    with bank.session("s") as session:
        session.tags.add("x")
        session.after_turn([user("One."), answer("Two.")])
        assert session.mode == "ignored"
        session.mode = "normal"
        session.after_turn([user("One."), answer("Two."), user("Three.")])
        assert session.mode == "normal"
    with rig.open().session("s") as session:
        assert session.mode == "normal"
        session.after_turn([user("One."), answer("Two."), user("Three.")])
    assert rig.kept(bank) == ["One.", "Three."]


def test_an_unreadable_session_is_told_once_and_logged(rig: Rig, bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    """One event and one error line for a live session, whatever is asked of it; no content in either."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    spoil(rig, "secret words")
    with caplog.at_level(logging.ERROR, "lorebank"), bank.session("s") as session:
        assert session.mode == "ignored"
        session.before_turn([user("One."), user("Two.")])
        session.save()
        assert session.refusal("retain") is not None
    assert len(rig.of(SessionUnreadable)) == 1
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "secret words" not in errors[0]


def test_other_sessions_are_readable_still(rig: Rig, bank: Bank) -> None:
    """One spoiled record is one session's."""
    for name in ("s", "t"):
        with bank.session(name) as session:
            session.after_turn([user("One.")])
    rig.sql("UPDATE sessions SET choices = 'x' WHERE id = 's'")
    assert (bank.session("s").mode, bank.session("t").mode) == ("ignored", "normal")


def test_a_ledger_that_cant_be_asked_means_ignored_for_that_call(url: str) -> None:
    """Fail closed: a session whose choices can't be read recalls nothing; the host goes on."""

    class Deaf(MnemopiBackend):
        deaf = False

        @property
        def sessions(self) -> Any:
            if self.deaf:
                raise UnavailableError("the disk is gone")
            return self._kept

        @sessions.setter
        def sessions(self, value: Any) -> None:
            self._kept = value

    backend = Deaf(url)
    with open_bank(backend=backend, bank="alice") as bank, bank.session("s") as session:
        backend.deaf = True
        injection = session.before_turn([user(AISLE)])
        receipt = session.after_turn([user(AISLE)])
        assert (injection.memories, injection.result) == ("", None)
        assert receipt.reason is not None
        backend.deaf = False
        assert session.after_turn([user(AISLE)]).new == 1
        assert session.mode == "normal"


def test_a_mode_that_was_set_before_anything_is_a_mode(rig: Rig, bank: Bank) -> None:
    """Set before the first call, without a record in the ledger: it holds for the first call."""
    with bank.session("s") as session:
        session.mode = "ignored"
        assert session.before_turn([user(AISLE)]).result is None
    assert rig.kept(bank) == []
