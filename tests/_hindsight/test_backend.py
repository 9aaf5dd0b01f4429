"""The backend on the real server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hindsight_server import Hindsight
from pydantic import SecretStr

from lorebank._domain.events import BankPrepared, Event
from lorebank._domain.item import Item
from lorebank._domain.memory import Memory, count_tokens
from lorebank._domain.mental_model import MentalModel
from lorebank._domain.operations import Directive
from lorebank._domain.requests import Change, ListRequest, RecallRequest, ReflectRequest, Selection
from lorebank._domain.scope import Leaf, Scope, TagRule, parse_tag_groups, scope_by_tag
from lorebank._domain.settings import ConnectionSettings, Missions, RetainSettings
from lorebank._hindsight.backend import HindsightBackend
from lorebank.errors import ForbiddenError, MissingError, RefusedError, UnavailableError, UnsupportedError, UsageError
from lorebank.testing import Fault, FaultServer

from .conftest import Write, settle

UNKNOWN = "00000000-0000-4000-8000-000000000000"
TEA = Item("Ana likes tea.", tags=("a",), session="s1", speaker="ana")
MATE = Item("Bob likes mate. Bob plays chess.", document_id="notes/1?", session="s2")


def asking(query: str, **fields: Any) -> RecallRequest:
    given: dict[str, Any] = {"limit": 8, "max_tokens": 1024, "types": ("world", "experience"), "moment": datetime.now(UTC)}
    return RecallRequest(query=query, count_tokens=count_tokens, **given | fields)


def facts(backend: HindsightBackend, scope: Scope, **fields: Any) -> dict[str, Memory]:
    """The facts of a bank, by their text."""
    found = backend.list(scope, ListRequest(100, types=("world", "experience"), **fields))
    return {memory.text: memory for memory in found}


@pytest.fixture
def scope(bank_id: str) -> Scope:
    return scope_by_tag(bank_id, "global", None)


def test_an_unknown_bank_knows_nothing(backend: HindsightBackend, scope: Scope) -> None:
    """Reads neither fail nor make it."""
    assert backend.recall(scope, asking("tea")).state == "nothing"
    assert not (*backend.list(scope, ListRequest(10)), *backend.models.list(scope), *backend.directives.list(scope))
    assert backend.documents.list(scope, limit=5, offset=0) == ()
    assert backend.operations.list(scope, state=None, limit=5, offset=0) == ()
    assert (backend.stats(scope).memories, backend.tags(scope), backend.check(scope).ok) == (0, {}, True)
    assert not backend.forget(scope, Selection(session="s"), dry_run=False).ids
    for unknown in (UNKNOWN, "x", "../y"):
        with pytest.raises(MissingError):
            backend.get(scope, unknown)
    assert backend.operations.get(scope, "x").state == "not_found"
    assert httpx.get(f"{backend.route}/v1/default/banks/{scope.bank}/stats").status_code == 404


def test_a_memory_is_recalled_as_it_was_written(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """Session, speaker, tags and times come back; the arms' scores with `explain`."""
    write(scope, [TEA, MATE])
    result = backend.recall(scope, asking("who likes tea?", explain=True))
    assert (result.state, result[0].text, result[0].tags) == ("found", "Ana likes tea.", ("a",))
    assert (result[0].session, result[0].speaker, result[0].metadata) == ("s1", "ana", {})
    assert (result[0].bank, result[0].backend) == (scope.bank, "hindsight")
    assert result[0].signals is not None
    assert "semantic" in result[0].signals
    assert result.trace is not None
    assert result.trace.pool >= 2
    assert len(backend.recall(scope, asking("likes", limit=1))) == 1
    assert backend.recall(scope, asking("?!")).state == "nothing"
    assert backend.recall(scope, asking("tea " * 1000)).memories
    assert not backend.recall(scope, asking("tea", min_score=50.0))


def test_observations_show_their_evidence_when_asked(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """The facts they were concluded from."""
    write(scope, [TEA])
    seen = backend.recall(scope, asking("tea", types=("observation",), include_source_facts=True))
    assert seen[0].metadata["source_facts"] == ["Ana likes tea."]
    assert "source_facts" not in backend.recall(scope, asking("tea", types=("observation",)))[0].metadata


RULES: list[Mapping[str, Any]] = [
    *(
        {"tags": tags, "match": match}
        for tags in (["a"], ["a", "c"])
        for match in ("any", "all", "any_strict", "all_strict", "exact")
    ),
    {"not": {"tags": ["a"], "match": "any"}},
    {"not": {"tags": ["a"], "match": "exact"}},
    {"and": [{"tags": ["a"], "match": "any"}, {"not": {"tags": ["c"]}}]},
    {"or": [{"tags": ["b"]}, {"not": {"tags": ["a", "b"]}}]},
]


def test_the_servers_tag_rules_are_ours(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """For each rule, the server finds exactly what the rule admits, untagged memories too."""
    kinds = [(), ("a",), ("b",), ("a", "c")]
    write(scope, [Item(f"Ana{place} likes tea.", tags=tags) for place, tags in enumerate(kinds)])
    for group in RULES:
        [rule] = parse_tag_groups([group])
        found = {tuple(sorted(memory.tags)) for memory in backend.recall(scope, asking("who likes tea", rule=rule))}
        assert found == {tags for tags in kinds if rule.admits(tags)}, group


def test_a_scope_reads_only_what_it_may(backend: HindsightBackend, bank_id: str, write: Write) -> None:
    """Under two projects in one bank, every read keeps to its own and the untagged; a caller can only narrow."""
    plain, x, y = (scope_by_tag(bank_id, "per-project-tagged" if label else "global", label) for label in (None, "x", "y"))
    for each, name in ((plain, "Untagged"), (x, "Xena"), (y, "Yuri")):
        write(each, [Item(f"{name} likes tea.", session="s")])
    everyone: TagRule = Leaf(("project:y", "project:x"), "any")
    for rule in (None, everyone):
        found = {memory.text for memory in backend.recall(x, asking("who likes tea", rule=rule))}
        assert found == {"Untagged likes tea.", "Xena likes tea."}
    hidden = facts(backend, y)["Yuri likes tea."]
    assert "Yuri likes tea." not in facts(backend, x)
    assert set(backend.tags(x)) == {"project:x"}
    assert len(backend.documents.list(x, limit=10, offset=0)) == 2
    for refused in (
        lambda: backend.get(x, hidden.id),
        lambda: backend.update(x, hidden.id, Change(content="z")),
        lambda: backend.invalidate(x, hidden.id, None),
        lambda: backend.forget(x, Selection((hidden.id,)), dry_run=False),
        lambda: backend.documents.get(x, hidden.document_id or ""),
    ):
        with pytest.raises(MissingError):
            refused()
    assert "Yuri" not in backend.reflect(x, ReflectRequest(asking("Who likes tea?"))).text
    assert len(backend.forget(x, Selection(session="s"), dry_run=False)) == 2
    assert set(facts(backend, y)) == {"Yuri likes tea."}


def test_two_banks_are_one_ranking(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """Shared memories stand beside own ones; the same text comes once."""
    other = scope_by_tag(f"{scope.bank}-shared", "global", None)
    write(scope, [TEA])
    write(other, [TEA, Item("Cleo likes tea.")])
    both = Scope(scope.bank, scope.reads, shared=other.bank)
    assert {memory.text for memory in backend.recall(both, asking("who likes tea?"))} == {"Ana likes tea.", "Cleo likes tea."}
    assert len(facts(backend, both)) == 2
    backend.clear(other)
    httpx.delete(f"{backend.route}/v1/default/banks/{other.bank}")


def test_a_bank_that_is_down_is_named(faulty: FaultServer) -> None:
    """The other one's answer stands; with none, the failure is raised."""
    backend = HindsightBackend(faulty.url, ConnectionSettings(recall_timeout=2), RetainSettings())
    faulty.fault(Fault(status=500), path="/down/memories/recall$")
    result = backend.recall(Scope("up", ("up",), shared="down"), asking("tea"))
    assert (result.state, result.unavailable) == ("partial", ("down",))
    with pytest.raises(UnavailableError):
        backend.recall(Scope("down", ("down",)), asking("tea"))
    backend.close()


def test_lists_are_filtered_and_paged(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """By session, tags, document, type and state; pages don't overlap."""
    write(scope, [TEA, MATE])
    listed = facts(backend, scope)
    assert set(listed) == {"Ana likes tea.", "Bob likes mate.", "Bob plays chess."}
    assert set(facts(backend, scope, selection=Selection(session="s2"))) == {"Bob likes mate.", "Bob plays chess."}
    assert set(facts(backend, scope, selection=Selection(tags=("a",)))) == {"Ana likes tea."}
    assert set(facts(backend, scope, selection=Selection(document="notes/1?"))) == {"Bob likes mate.", "Bob plays chess."}
    pages = [backend.list(scope, ListRequest(1, place, types=("world",)))[0].id for place in range(3)]
    assert len(set(pages)) == 3
    assert {memory.type for memory in backend.list(scope, ListRequest(9, types=("observation",)))} == {"observation"}


def test_a_memory_is_edited_as_far_as_the_server_can(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """Text always, tags where its document holds it alone; the rest is refused before anything is sent."""
    write(scope, [TEA, MATE])
    listed = facts(backend, scope)
    tea = backend.update(scope, listed["Ana likes tea."].id, Change(content="Ana likes green tea.", tags=("z",)))
    assert (tea.text, tea.tags, tea.session) == ("Ana likes green tea.", ("z",), "s1")
    with pytest.raises(UnsupportedError, match="holds 2"):
        backend.update(scope, listed["Bob likes mate."].id, Change(content="Bob likes milk.", tags=("z",)))
    assert "Bob likes mate." in facts(backend, scope)
    for change in (Change(importance=0.5), Change(metadata={"a": "b"})):
        with pytest.raises(UnsupportedError, match="Hindsight can't change"):
            backend.update(scope, "unasked", change)


def test_an_invalidated_memory_is_kept_out_of_recall(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """What replaces it is read back; a second time changes nothing; an unknown replacement is refused first."""
    write(scope, [TEA, MATE])
    listed = facts(backend, scope)
    old, new = listed["Bob likes mate."].id, listed["Ana likes tea."].id
    with pytest.raises(MissingError):
        backend.invalidate(scope, old, UNKNOWN)
    first = backend.invalidate(scope, old, new)
    assert first.superseded_by == new
    assert first.invalidated_at is not None
    assert backend.invalidate(scope, old, None).invalidated_at == first.invalidated_at
    assert "Bob likes mate." not in {memory.text for memory in backend.recall(scope, asking("Bob likes mate"))}
    assert set(facts(backend, scope, kept="invalidated")) == {"Bob likes mate."}
    assert len(facts(backend, scope, kept="all")) == 3


def test_forgetting_says_what_it_did(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """A memory alone in its document is deleted; one among others is invalidated."""
    write(scope, [TEA, MATE])
    listed = facts(backend, scope)
    among = backend.forget(scope, Selection((listed["Bob likes mate."].id,)), dry_run=False)
    assert not among.purged
    assert among.reason is not None
    assert "invalidated, not deleted" in among.reason
    tea = listed["Ana likes tea."].id
    assert backend.forget(scope, Selection((tea,)), dry_run=True).ids == (tea,)
    alone = backend.forget(scope, Selection((tea,)), dry_run=False)
    assert (alone.ids, alone.purged) == ((tea,), True)
    with pytest.raises(MissingError):
        backend.get(scope, tea)


def test_filters_forget_whole_documents(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """Filters are AND-ed; a dry run removes nothing; observations go with their facts."""
    write(scope, [TEA, MATE])
    assert not backend.forget(scope, Selection(session="s2", tags=("a",)), dry_run=False).ids
    assert len(backend.forget(scope, Selection(session="s2"), dry_run=True)) == 2
    removal = backend.forget(scope, Selection(document="notes/1?"), dry_run=False)
    settle(backend, scope)
    assert (len(removal), removal.purged) == (2, True)
    left = backend.list(scope, ListRequest(100, kept="all"))
    assert {memory.text for memory in left} == {"Ana likes tea."}


def test_a_model_keeps_nothing_of_what_was_forgotten(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """Content, history and sources; its definition stays."""
    write(scope, [TEA, Item("Cleo likes milk.")])
    backend.models.create(scope, MentalModel("m", "M", "Who likes what?", max_tokens=300))
    backend.forget(scope, Selection(session="s1"), dry_run=False)
    settle(backend, scope)
    whole = httpx.get(f"{backend.route}/v1/default/banks/{scope.bank}/mental-models/m").text
    assert "Ana" not in whole
    assert "Ana" not in str(backend.models.history(scope, "m"))
    assert "Cleo likes milk." in backend.models.get(scope, "m").content


def test_clearing_leaves_an_empty_bank(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """Memories in any state, documents, mental models; a second time removes nothing."""
    write(scope, [TEA, MATE])
    backend.models.create(scope, MentalModel("m", "M", "Who likes what?", max_tokens=300))
    backend.invalidate(scope, facts(backend, scope)["Ana likes tea."].id, None)
    removal = backend.clear(scope)
    assert len(removal) >= 3
    assert removal.purged
    assert not (*backend.list(scope, ListRequest(10, kept="all")), *backend.models.list(scope))
    assert backend.documents.list(scope, limit=5, offset=0) == ()
    assert backend.clear(scope).ids == ()


def test_reflect_answers_from_memories(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """With what it rests on, and in the form that is asked for."""
    write(scope, [TEA])
    answer = backend.reflect(scope, ReflectRequest(asking("What does Ana like?"), "drinks"))
    assert "tea" in answer.text
    assert "Ana likes tea." in {memory.text for memory in answer.based_on}
    schema = {"type": "object", "properties": {"drink": {"type": "string"}}, "required": ["drink"]}
    assert "drink" in (backend.reflect(scope, ReflectRequest(asking("What does Ana like?"), None, schema)).structured or {})
    with pytest.raises(UsageError, match="type 'object'"):
        backend.reflect(scope, ReflectRequest(asking("x"), None, {"type": "string"}))


def test_mental_models_live_on_the_server(backend: HindsightBackend, bank_id: str, write: Write) -> None:
    """Made with content, changed, refreshed, deleted; those of other projects are not shown."""
    x, y = (scope_by_tag(bank_id, "per-project-tagged", label) for label in "xy")
    write(x, [Item("Xena likes tea.")])
    made = backend.models.create(x, MentalModel("m", "M", "Who likes tea?", tags=("project:x",), max_tokens=300))
    assert "Xena likes tea." in made.content
    assert (made.trigger, made.tags) == ("delta", ("project:x",))
    assert made.based_on
    with pytest.raises(RefusedError, match="exists already"):
        backend.models.create(x, made)
    assert backend.models.update(x, "m", {"name": "N", "max_tokens": 400}).name == "N"
    with pytest.raises(UnsupportedError, match="`content`"):
        backend.models.update(x, "m", {"content": "z"})
    assert "Xena likes tea." in backend.models.refresh(x, "m").content
    assert [model.id for model in backend.models.list(x)] == ["m"]
    assert backend.models.list(x)[0].content
    assert backend.models.list(y) == ()
    with pytest.raises(MissingError):
        backend.models.get(y, "m")
    backend.models.delete(x, "m")
    with pytest.raises(MissingError):
        backend.models.refresh(x, "m")


def test_directives_live_on_the_server(backend: HindsightBackend, scope: Scope) -> None:
    """Inactive ones are listed, too; an unknown id is missing, whatever its form."""
    made = backend.directives.create(scope, Directive("", "tone", "Be polite.", 2, True, ("a",)))
    assert backend.directives.update(scope, made.id, {"active": False, "tags": ("b",)}).active is False
    assert backend.directives.list(scope)[0].tags == ("b",)
    backend.directives.delete(scope, made.id)
    for unknown in (made.id, "no-uuid"):
        with pytest.raises(MissingError):
            backend.directives.delete(scope, unknown)


def test_what_the_outbox_asks(backend: HindsightBackend, scope: Scope, write: Write) -> None:
    """Operations are counted, documents hold their text, and a quiet bank is told."""
    write(scope, [MATE])
    assert backend.holds(scope.bank, "notes/1?", "Bob plays")
    assert not backend.holds(scope.bank, "notes/1?", "Ana")
    assert not backend.holds(scope.bank, "other", "Ana")
    assert backend.quiet(scope.bank, 5)
    operation = next(
        each for each in backend.operations.list(scope, state=None, limit=200, offset=0) if each.kind == "batch_retain"
    )
    assert backend.progress(scope.bank, operation.id).items == 1
    with pytest.raises(RefusedError):
        backend.operations.cancel(scope, operation.id)
    stats = backend.stats(scope)
    assert (stats.by_type["world"], stats.invalidated, stats.newest is not None) == (2, 0, True)


class Book:
    """Missions in memory."""

    def __init__(self) -> None:
        self.pages: dict[str, Mapping[str, str]] = {}

    def sent(self, bank: str) -> Mapping[str, str] | None:
        return self.pages.get(bank)

    def note(self, bank: str, sent: Mapping[str, str]) -> None:
        self.pages[bank] = dict(sent)


def missions(backend: HindsightBackend, bank: str) -> Any:
    return httpx.get(f"{backend.route}/v1/default/banks/{bank}/config").json()["config"]["retain_mission"]


def test_a_bank_is_made_once_with_its_missions(hindsight: Hindsight, bank_id: str) -> None:
    """Changed settings are sent again; what somebody else has set is left alone."""
    book = Book()
    told: list[Event] = []

    def prepared(mission: str) -> HindsightBackend:
        settings = RetainSettings(missions=Missions(retain=mission))
        backend = HindsightBackend(hindsight.url, ConnectionSettings(), settings, missions_known=book)
        backend.announce(told.append)
        backend.prepare(bank_id)
        backend.prepare(bank_id)
        backend.close()
        return backend

    assert missions(prepared("one"), bank_id) == "one"
    assert missions(prepared("two"), bank_id) == "two"
    httpx.patch(f"{hindsight.url}/v1/default/banks/{bank_id}", json={"retain_mission": "theirs"}).raise_for_status()
    assert missions(prepared("three"), bank_id) == "theirs"
    assert told == [BankPrepared(bank_id, made=True), BankPrepared(bank_id, made=False), BankPrepared(bank_id, made=False)]


def test_a_bank_that_can_not_be_prepared_is_an_event() -> None:
    """Preparing never raises; health doesn't either."""
    backend = HindsightBackend("http://127.0.0.1:1", ConnectionSettings(timeout=1), RetainSettings())
    told: list[Event] = []
    backend.announce(told.append)
    backend.prepare("b")
    assert told == [BankPrepared("b", made=False, reason="UnavailableError")]
    assert not backend.health().ok


def test_a_wrong_key_is_told(hindsight_auth: Hindsight) -> None:
    """`probe` and `health` check the key, which the server's own health page doesn't."""
    wrong = HindsightBackend(hindsight_auth.url, ConnectionSettings(api_key=SecretStr("wrong-key")), RetainSettings())
    with pytest.raises(ForbiddenError):
        wrong.probe()
    assert not wrong.health().ok
    assert "wrong-key" not in wrong.health().detail
    right = HindsightBackend(
        hindsight_auth.url, ConnectionSettings(api_key=SecretStr(hindsight_auth.api_key or "")), RetainSettings()
    )
    assert right.health().ok
    wrong.close()
    right.close()
