"""`bank.documents`, `.operations`, `.directives`, `.outbox` and `tags()`: on Mnemopi, and what is refused anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import (
    Bank,
    Directive,
    MissingError,
    Operation,
    OutboxEntry,
    OutboxStatus,
    UnavailableError,
    UnsupportedError,
    UsageError,
    open_bank,
)
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import RowState, Scope

Caller = Callable[..., Any]
DAY = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(params=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Caller:
    """`call(bank.documents, "list", ...)`: the blocking verb, or its twin in a loop of its own."""
    if request.param == "blocking":
        return lambda target, verb, *args, **kwargs: getattr(target, verb)(*args, **kwargs)
    return lambda target, verb, *args, **kwargs: asyncio.run(getattr(target, f"a{verb}")(*args, **kwargs))


# Documents and tags


@pytest.fixture
def told(bank: Bank) -> Bank:
    """Two documents, and a memory of none."""
    for day, text, document, tags in (
        (1, "Ana was born in Lisbon.", "cv", ["life"]),
        (2, "Ana flew to Oslo.", "trips", ["trip"]),
        (3, "Ana studied law.", "cv", ["school", "life"]),
        (4, "Ana plays the harp.", None, ["life"]),
    ):
        bank.retain(text, document_id=document, tags=tags, timestamp=DAY.replace(day=day))
    return bank


def test_documents_are_listed_newest_first(told: Bank, call: Caller) -> None:
    """Counts and tags of all their memories, no text; pages don't overlap."""
    cv, trips = call(told.documents, "list")
    assert (cv.id, cv.memories, cv.tags, cv.text) == ("cv", 2, ("life", "school"), None)
    assert (cv.created_at, cv.updated_at) == (DAY, DAY.replace(day=3))
    assert (trips.id, trips.memories, trips.tags) == ("trips", 1, ("trip",))
    assert call(told.documents, "list", limit=1, offset=1) == (trips,)


def test_a_document_has_its_text(told: Bank, call: Caller) -> None:
    """Contents in the order in which they were written; what is no longer true is left out."""
    assert call(told.documents, "get", "cv").text == "Ana was born in Lisbon.\nAna studied law."
    told.invalidate(told.list(document="cv")[0].id)
    found = call(told.documents, "get", "cv")
    assert (found.text, found.memories, found.tags) == ("Ana was born in Lisbon.", 1, ("life",))
    told.retain("Ana was born in Porto.", document_id="cv", update_mode="replace")
    assert call(told.documents, "get", "cv").text == "Ana was born in Porto."


def test_documents_of_other_banks_are_missing(told: Bank, call: Caller) -> None:
    """Another bank's document and one that does not exist are the same to the caller."""
    bob = told.named("bob")
    assert (call(bob.documents, "list"), call(bob, "tags")) == ((), {})
    for name in ("cv", "none"):
        with pytest.raises(MissingError, match=name):
            call(bob.documents, "get", name)


def test_a_document_in_two_banks_of_one_scope_is_one(url: str) -> None:
    """The project's bank and the base are read together, the project's part first."""
    with open_bank(url, bank="alice", project="Atlas") as project, open_bank(url, bank="alice") as base:
        base.retain("Ana lives in Lisbon.", document_id="cv", tags=["life"])
        project.retain("Ana builds Atlas.", document_id="cv", tags=["work"])
        assert project.documents.get("cv").text == "Ana builds Atlas.\nAna lives in Lisbon."
        assert (project.documents.list()[0].memories, base.documents.list()[0].memories) == (2, 1)
        assert (dict(project.tags()), dict(base.tags())) == ({"life": 1, "work": 1}, {"life": 1})


def test_required_tags_hide_documents_and_tags(told: Bank) -> None:
    """A scope that requires a tag counts what it may read, and nothing else."""
    from lorebank._domain.scope import Leaf

    strict = Scope("alice", ("alice",), required=Leaf(("school",), "any_strict"))
    backend = told.connections.backend
    [document] = backend.documents.list(strict, limit=10, offset=0)
    assert (document.id, document.memories) == ("cv", 1)
    assert backend.documents.get(strict, "cv").text == "Ana studied law."
    assert backend.tags(strict) == {"life": 1, "school": 1}
    with pytest.raises(MissingError):
        backend.documents.get(strict, "trips")


def test_tags_are_counted_most_frequent_first(told: Bank, call: Caller) -> None:
    """Valid memories count; forgotten and invalidated ones don't."""
    assert list(call(told, "tags").items()) == [("life", 3), ("school", 1), ("trip", 1)]
    told.forget(tags=["trip"])
    told.invalidate(told.list(tags=["school"])[0].id)
    assert call(told, "tags") == {"life": 2}


# What Mnemopi has not


def test_mnemopi_has_no_operations(bank: Bank, call: Caller) -> None:
    """None are listed, none is found, none can be tried again or stopped."""
    assert call(bank.operations, "list") == call(bank.operations, "list", state="failed") == ()
    assert call(bank.operations, "get", "x") == Operation("x", "not_found")
    for verb in ("retry", "cancel"):
        with pytest.raises(MissingError, match="'x'"):
            call(bank.operations, verb, "x")


def test_mnemopi_has_no_directives(bank: Bank, call: Caller) -> None:
    """The error names the backend and the ability."""
    calls: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
        ("list", (), {}),
        ("create", ("tone",), {"content": "Be brief."}),
        ("update", ("tone",), {"active": False}),
        ("delete", ("tone",), {}),
    ]
    for verb, args, kwargs in calls:
        with pytest.raises(UnsupportedError, match=r"Mnemopi.*directives"):
            call(bank.directives, verb, *args, **kwargs)


def test_mnemopis_outbox_is_empty(bank: Bank, call: Caller) -> None:
    """Nothing waits, nothing is dead, no row is known."""
    bank.retain("Ana sings.")
    assert call(bank.outbox, "status") == call(bank.outbox, "status", everything=True) == OutboxStatus({})
    assert (call(bank.outbox, "status").waiting, call(bank.outbox, "list"), call(bank.outbox, "requeue")) == (0, (), 0)
    assert call(bank.outbox, "reroute", bank="bob", url="http://127.0.0.1:9").ids == ()
    for verb, argument in (("get", "r1"), ("requeue", ["r1"]), ("purge", ["r1"]), ("reroute", ["r1"])):
        with pytest.raises(MissingError, match="r1"):
            call(bank.outbox, verb, argument)


# What is checked before any call


@pytest.mark.parametrize(
    ("handle", "verb", "args", "kwargs"),
    [
        ("documents", "list", (), {"limit": 0}),
        ("documents", "list", (), {"offset": -1}),
        ("documents", "list", (), {"offset": 1.0}),
        ("documents", "list", (), {"offset": True}),
        ("documents", "get", ("",), {}),
        ("operations", "list", (), {"state": "not_found"}),
        ("operations", "list", (), {"state": "odd"}),
        ("operations", "list", (), {"limit": "3"}),
        ("operations", "get", ("a\nb",), {}),
        ("operations", "retry", (None,), {}),
        ("operations", "cancel", (" ",), {}),
        ("directives", "create", ("",), {"content": "x"}),
        ("directives", "create", ("x",), {"content": " "}),
        ("directives", "create", ("x",), {"content": "y", "priority": "high"}),
        ("directives", "create", ("x",), {"content": "y", "active": 1}),
        ("directives", "create", ("x",), {"content": "y", "tags": "z"}),
        ("directives", "update", ("x",), {}),
        ("directives", "update", ("x",), {"priority": True}),
        ("directives", "delete", ("",), {}),
        ("outbox", "list", (), {"state": "lost"}),
        ("outbox", "list", (), {"limit": -1}),
        ("outbox", "get", (5,), {}),
        ("outbox", "requeue", ([],), {}),
        ("outbox", "requeue", ("r1",), {}),
        ("outbox", "purge", (None,), {}),
        ("outbox", "purge", ([""],), {}),
        ("outbox", "reroute", (), {}),
        ("outbox", "reroute", ([],), {}),
        ("outbox", "reroute", (), {"bank": ""}),
        ("outbox", "reroute", (), {"bank": "bob", "dry_run": 1}),
    ],
)
def test_bad_arguments_are_refused_before_any_call(
    monkeypatch: pytest.MonkeyPatch, handle: str, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any], url: str
) -> None:
    """A `UsageError`, also where memory is off: nothing was asked."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    with open_bank(url) as bank, pytest.raises(UsageError):
        getattr(getattr(bank, handle), verb)(*args, **kwargs)


def test_all_is_refused_where_memory_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every handle says so."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    with open_bank() as bank:
        asked: list[Callable[[], object]] = [
            bank.tags,
            bank.documents.list,
            bank.operations.list,
            lambda: bank.operations.cancel("x"),
            bank.directives.list,
            bank.outbox.status,
            lambda: bank.outbox.purge(["x"]),
        ]
        for each in asked:
            with pytest.raises(UnavailableError, match="off"):
                each()


def test_handles_of_a_closed_bank_say_so(url: str) -> None:
    """Use after close is the caller's mistake."""
    bank = open_bank(url)
    handles = bank.documents, bank.operations, bank.directives, bank.outbox
    bank.close()
    for handle in handles:
        verb: Any = handle.status if handle is handles[3] else handle.list  # type: ignore[union-attr]
        with pytest.raises(UsageError, match="closed"):
            verb()


# What reaches a backend that has them


class Recording:
    """A backend's directives and outbox that write down what they are asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def create(self, scope: Scope, directive: Directive) -> Directive:
        self.asked.append(("create", scope.bank, directive))
        return directive

    def update(self, scope: Scope, directive_id: str, fields: Mapping[str, Any]) -> Directive:
        self.asked.append(("update", directive_id, dict(fields)))
        return Directive(directive_id, "tone", "x")

    def status(self, bank: str | None) -> OutboxStatus:
        self.asked.append(("status", bank))
        return OutboxStatus({"pending": 1})

    def list(self, bank: str | None, *, state: RowState | None, limit: int, offset: int) -> tuple[OutboxEntry, ...]:
        self.asked.append(("list", bank, state, limit, offset))
        return ()

    def get(self, row_id: str) -> OutboxEntry:
        return OutboxEntry(row_id, "alice", "d", "dead", DAY, 10)

    def requeue(self, bank: str | None, ids: Sequence[str] | None) -> int:
        self.asked.append(("requeue", bank, ids))
        return 2

    def purge(self, bank: str | None, ids: Sequence[str]) -> int:
        self.asked.append(("purge", bank, ids))
        return 1


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def serving(url: str, recording: Recording) -> Iterator[Bank]:
    """The bank `alice` of a backend with directives and an outbox."""
    backend = MnemopiBackend(url)
    backend.directives = backend.outbox = recording  # type: ignore[assignment]
    with open_bank(backend=backend, bank="alice") as bank:
        yield bank


def test_the_outbox_is_asked_for_this_bank(serving: Bank, recording: Recording, call: Caller) -> None:
    """`everything` asks for all banks; ids come once each."""
    call(serving.outbox, "status")
    call(serving.outbox, "status", everything=True)
    call(serving.outbox, "list", state="dead", limit=5, offset=2)
    assert (call(serving.outbox, "requeue"), call(serving.outbox, "purge", ["a", "b", "a"])) == (2, 1)
    assert recording.asked == [
        ("status", "alice"),
        ("status", None),
        ("list", "alice", "dead", 5, 2),
        ("requeue", "alice", None),
        ("purge", "alice", ("a", "b")),
    ]


def test_another_banks_row_is_missing(serving: Bank, call: Caller) -> None:
    """Banks share a ledger; their rows are their own."""
    assert call(serving.outbox, "get", "r1").state == "dead"
    with pytest.raises(MissingError, match="bob"):
        call(serving.named("bob").outbox, "get", "r1")


def test_directives_arrive_parsed(serving: Bank, recording: Recording, call: Caller) -> None:
    """Defaults are filled in; an update carries what was given, and nothing else."""
    call(serving.directives, "create", "tone", content="Be brief.", tags=["x", "x"])
    call(serving.directives, "update", "d1", active=False, tags=[])
    assert recording.asked == [
        ("create", "alice", Directive("", "tone", "Be brief.", 0, True, ("x",))),
        ("update", "d1", {"active": False, "tags": ()}),
    ]
