"""`SessionFile`: a backend of one's own recalls and retains on its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent

from langchain_lorebank import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel, shown_memories
from lorebank import Item, Memory, Message, Outcome, RecallResult, Receipt, UsageError, open_bank
from lorebank.seams import PartialBackend, RecallRequest, Scope, SessionFile, Writer

SAID = [Message("user", "I always take aisle seats."), Message("assistant", "I will book one.")]


class Shelf(PartialBackend):
    """Keeps what it is told in a list, and recalls all of it; `fails` is raised once it has kept something."""

    def __init__(self, url: str, told: list[Item]) -> None:
        self.told = told
        self.fails: Exception | None = None
        self.sessions = SessionFile(url, self.retain)

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        replaced = {item.document_id for item in items if item.update_mode == "replace"}
        self.told[:] = [item for item in self.told if item.document_id not in replaced] + list(items)
        if self.fails is not None:
            raise self.fails
        return Receipt(stored=tuple(Outcome(item.content) for item in items))

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        found = tuple(Memory(item.content, item.content, mentioned_at=datetime.now(UTC)) for item in self.told)
        return RecallResult("found" if found else "nothing", request.query, found)

    def close(self, timeout: float) -> None:
        self.sessions.close()


@pytest.fixture
def shelf(url: str) -> Callable[[], Shelf]:
    """A backend, opened anew each time on what was told so far."""
    told: list[Item] = []
    return lambda: Shelf(url, told)


def texts(backend: Shelf) -> list[str]:
    return [item.content for item in backend.told]


def test_an_agent_on_one_s_own_backend_remembers(shelf: Callable[[], Shelf]) -> None:
    """Recalled before the model, retained after the agent, in another process too."""
    model = StrictChatModel(script=["Noted.", "An aisle seat."])
    for day, text in (("monday", "I always take aisle seats."), ("tuesday", "Which seats do I take?")):
        with open_bank(backend=shelf(), bank="ana", mental_models={"enabled": False}) as bank:
            agent: Any = create_agent(model, [], middleware=[MemoryMiddleware(bank)])
            agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": day}})
    assert "I always take aisle seats." in shown_memories(model.seen[-1])
    assert texts(shelf())[:2] == ["I always take aisle seats.", "Noted."]


def test_a_history_that_is_handed_over_again_is_kept_once(shelf: Callable[[], Shelf]) -> None:
    """The file knows, also once it was closed."""
    for _ in range(2):
        with open_bank(backend=shelf(), bank="ana") as bank, bank.session("monday") as session:
            session.after_turn(SAID)
    assert texts(shelf()) == [message.text for message in SAID]
    assert {(item.session, item.document_id is not None) for item in shelf().told} == {("monday", True)}


def test_a_message_that_the_file_has_not_noted_is_told_once_more(shelf: Callable[[], Shelf]) -> None:
    """A backend that breaks off after it kept something loses nothing: what comes again has the same document."""
    backend = shelf()
    backend.fails = ConnectionError("gone")
    with open_bank(backend=backend, bank="ana") as bank, bank.session("monday") as session, pytest.raises(ConnectionError):
        session.after_turn(SAID)
    with open_bank(backend=shelf(), bank="ana") as bank, bank.session("monday") as session:
        assert session.after_turn(SAID).kept == 2
    first, second = backend.told[:2], backend.told[2:]
    assert [replace(item, timestamp=None) for item in first] == [replace(item, timestamp=None) for item in second]


def test_a_history_that_was_rewritten_takes_the_place_of_the_document(shelf: Callable[[], Shelf]) -> None:
    """With `on_rewrite="replace"` the backend hears `update_mode="replace"`."""
    settings = {"retain_mode": "full-session", "on_rewrite": "replace"}
    edited = [Message("user", "I always take window seats."), SAID[1]]
    for history in (SAID, edited):
        with open_bank(backend=shelf(), bank="ana", retain=settings) as bank, bank.session("monday") as session:
            session.after_turn(history)
    assert texts(shelf()) == [message.text for message in edited]


def test_sessions_of_banks_and_projects_are_apart(shelf: Callable[[], Shelf]) -> None:
    """The same session id in another bank or project is another session."""
    for where in ({"bank": "ana"}, {"bank": "ben"}, {"bank": "ana", "project": "atlas"}):
        with open_bank(backend=shelf(), **where) as bank, bank.session("monday") as session:
            assert session.after_turn(SAID).kept == 2


def test_only_a_file_will_do(tmp_path: Path) -> None:
    """Another URL is a mistake, named without what may be secret in it."""
    with pytest.raises(UsageError, match=r"`sqlite:///sessions\.db`; found 'postgresql'"):
        SessionFile("postgresql://ana:secret@host/db", Shelf(f"sqlite:///{tmp_path / 's.db'}", []).retain)
