"""`check_backend`: both backends keep every promise, and each promise is one that a backend can break."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hindsight_server import Hindsight

from lorebank import Item, Memory, Message, MissingError, RecallResult, Receipt, Removal, UnsupportedError, UsageError, open_bank
from lorebank._conformance import CHECKS
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import (
    Backend,
    Change,
    Event,
    Health,
    ListRequest,
    PartialBackend,
    RecallRequest,
    Scope,
    Selection,
    SessionFile,
    Skipped,
    Writer,
)
from lorebank.testing import FaultServer, check_backend

ONE = Scope("conformance", ("conformance",))


def test_the_embedded_engine_keeps_every_promise(url: str) -> None:
    """All of them, and it leaves nothing behind."""
    assert [str(promise) for promise in check_backend(lambda: MnemopiBackend(url)) if promise.state != "kept"] == []
    with open_bank(url, bank="conformance") as bank:
        assert bank.list(state="all") == ()


def served(url: str, folder: Path) -> Callable[[], Backend]:
    """Makes backends of a server, with the test's own outbox."""
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    return lambda: open_bank(url, ledger=ledger, outbox={"batch_seconds": 0.02}).connections.backend


def test_a_server_keeps_every_promise(tmp_path: Path) -> None:
    """Writes that are queued are waited for."""
    with FaultServer() as server:
        assert [str(promise) for promise in check_backend(served(server.url, tmp_path)) if promise.state != "kept"] == []


def test_the_real_server_keeps_them_as_the_small_one_does(hindsight: Hindsight, tmp_path: Path) -> None:
    """A sample: that each holds on it is what `tests/conformance` is for. What it does in the background is waited for."""
    sample = ("as_it_was_told", "banks_apart", "forgotten", "next_session_knows")
    found = check_backend(served(hindsight.url, tmp_path), only=sample, wait=60)
    assert [str(promise) for promise in found if promise.state != "kept"] == []


class Deaf(MnemopiBackend):
    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        return Receipt()


class Shouting(MnemopiBackend):
    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        return super().retain(scope, [replace(item, content=item.content.upper(), tags=()) for item in items], writer)


class Doubling(MnemopiBackend):
    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        found = super().recall(scope, request)
        return replace(found, memories=found.memories * 2)


class Strict(MnemopiBackend):
    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        if not self.list(scope, ListRequest(1)):
            raise MissingError("no such bank")
        return super().recall(scope, request)


class Leaky(MnemopiBackend):
    """All banks are one."""

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        return super().retain(ONE, items, writer)

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        return super().recall(ONE, request)


class Greedy(MnemopiBackend):
    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        everything = replace(request, limit=100, max_tokens=100_000, types=("world", "experience", "observation"), rule=None)
        return super().recall(scope, everything)


class Mistyping(MnemopiBackend):
    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        return super().recall(scope, replace(request, types=("world",)))


class Vague(MnemopiBackend):
    def get(self, scope: Scope, memory_id: str) -> Memory:
        return Memory(memory_id, "?")


class Unpaged(MnemopiBackend):
    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        return super().list(scope, replace(request, offset=0))


class Stubborn(MnemopiBackend):
    """Nothing changes, nothing goes."""

    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory:
        return self.get(scope, memory_id)

    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
        return self.get(scope, memory_id)

    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        return Removal(selection.ids)

    def clear(self, scope: Scope) -> Removal:
        return Removal(())


class Stiff(MnemopiBackend):
    """What is no longer true stays so."""

    def revalidate(self, scope: Scope, memory_id: str) -> Memory:
        return self.get(scope, memory_id)


class Rash(MnemopiBackend):
    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        return super().forget(scope, selection, dry_run=False)


class Dropping(MnemopiBackend):
    """Keeps what the first thread says."""

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        return Receipt() if items[0].content.endswith(" 7.") else super().retain(scope, items, writer)


class Rambling(MnemopiBackend):
    """Its sessions are forgotten when they end."""

    @property
    def sessions(self) -> SessionFile:
        return SessionFile(f"{self.database.place.url}.{uuid.uuid4().hex}", self.retain)

    @sessions.setter
    def sessions(self, _own: object) -> None:
        """Not its own."""


class Sealed(MnemopiBackend):
    """Messages go where no recall looks."""

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        return super().recall(replace(scope, reads=("elsewhere",)), request)


BREAKERS: dict[str, type[MnemopiBackend]] = {
    "found_by_words": Deaf,
    "as_it_was_told": Shouting,
    "receipt_for_each": Deaf,
    "told_twice": Doubling,
    "unknown_bank": Strict,
    "banks_apart": Leaky,
    "projects_apart": Leaky,
    "bounds": Greedy,
    "types_narrow": Mistyping,
    "tags_narrow": Greedy,
    "unknown_id": Vague,
    "pages": Unpaged,
    "updated": Stubborn,
    "invalidated": Stubborn,
    "revalidated": Stiff,
    "forgotten": Stubborn,
    "cleared": Stubborn,
    "many_threads": Dropping,
    "turn_kept_once": Rambling,
    "next_session_knows": Sealed,
}


def test_each_promise_has_a_backend_that_breaks_it() -> None:
    assert list(BREAKERS) == list(CHECKS)


@pytest.mark.parametrize("name", BREAKERS)
def test_a_backend_that_breaks_a_promise_is_caught(name: str, url: str) -> None:
    """With the reason."""
    [promise] = check_backend(lambda: BREAKERS[name](url), only=[name])
    assert promise.state == "broken"
    assert promise.reason
    assert str(promise) == f"broken: {promise.text} ({promise.reason})"


def test_a_dry_run_that_forgets_is_caught(url: str) -> None:
    [promise] = check_backend(lambda: Rash(url), only=["forgotten"])
    assert promise.reason == "the dry run removed it"


def test_a_backend_that_raises_is_told_of() -> None:
    """Whatever it raises: the other checks go on."""

    class Failing(PartialBackend):
        def retain(self, *_: Any) -> Receipt:
            raise ZeroDivisionError("the shelf fell")

    [promise, other] = check_backend(Failing, only=["told_twice", "unknown_bank"])
    assert (promise.state, promise.reason) == ("broken", "ZeroDivisionError: the shelf fell")
    assert other.state == "unsupported"


def test_an_unknown_check_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="no check 'nope'; there are found_by_words, "):
        check_backend(PartialBackend, only=["nope"])


def test_a_partial_backend_names_the_verb_that_it_lacks() -> None:
    """Verbs and ports; what needs no work of its own is there."""

    class Shelf(PartialBackend):
        """Has nothing yet."""

    with open_bank(backend=Shelf(), bank="ana") as bank:
        for verb, act in (
            ("retain", lambda: bank.retain("x")),
            ("recall", lambda: bank.recall("x")),
            ("documents.list", bank.documents.list),
            ("outbox.status", bank.outbox.status),
            ("models.refresh", lambda: Shelf().models.refresh(bank.scope, "x")),
        ):
            with pytest.raises(UnsupportedError, match=f"the backend `Shelf` has no `{verb}`: write it, or do without"):
                act()
        assert bank.health() == Health(True, "mnemopi", "Shelf")
        assert bank.flush().done
        assert isinstance(Shelf(), Backend)


def test_a_backend_without_sessions_breaks_no_turn() -> None:
    """Nothing is recalled or retained on its own then, and events say so."""
    events: list[Event] = []
    with open_bank(backend=PartialBackend(), bank="ana", on_event=events.append) as bank, bank.session("monday") as session:
        assert session.before_turn([Message("user", "Which seats?")]).memories == ""
        assert session.after_turn([Message("user", "Which seats?"), Message("assistant", "Aisle.")]).kept == 0
    assert {(event.verb, event.reason) for event in events if isinstance(event, Skipped)} >= {
        ("before_turn", "UnsupportedError"),
        ("after_turn", "UnsupportedError"),
    }
