"""Joined banks: one ranking over several, a part that is down, and what stays the first bank's alone."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from lorebank import Bank, GarbledError, Memory, MissingError, UnavailableError, UnsupportedError, UsageError, open_bank, per_user
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import Event, MemoryTools, RecallRequest, Retrieval, Scope, Skipped

Maker = Callable[..., Bank]
PILOT = "Ana is a pilot."
HARP = "Ana plays the harp."


class Failing(MnemopiBackend):
    """A backend whose reads fail."""

    def __init__(self, url: str, error: Exception) -> None:
        super().__init__(url)
        self.error = error

    def recall(self, scope: Scope, request: RecallRequest) -> Any:
        raise self.error

    def get(self, scope: Scope, memory_id: str) -> Memory:
        raise self.error


class Renamed(MnemopiBackend):
    """Memories that say that they come from a server."""

    name: Literal["hindsight"] = "hindsight"  # type: ignore[assignment]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Maker]:
    """Opens a bank in a file of its own; `error` makes its reads fail."""
    opened: list[Bank] = []

    def make(name: str, *facts: str, error: Exception | None = None, kind: type = MnemopiBackend, **options: Any) -> Bank:
        url = f"sqlite:///{tmp_path / f'{name}{len(opened)}.db'}"
        backend = kind(url) if error is None else Failing(url, error)
        bank = open_bank(backend=backend, bank=name, **options)
        opened.append(bank)
        for fact in facts:
            bank.retain(fact)
        return bank

    yield make
    for bank in opened:
        bank.close()


def texts(bank: Bank, query: str = "Ana", **options: Any) -> list[str]:
    return [memory.text for memory in bank.recall(query, **options)]


def test_both_banks_are_recalled_as_one(made: Maker) -> None:
    """One result holds what either bank knows, and each memory says from which backend and bank it is."""
    result = made("alice", PILOT).joined(made("team", HARP, kind=Renamed)).recall("Ana")
    assert result.state == "found"
    assert {(memory.text, memory.backend, memory.bank) for memory in result} == {
        (PILOT, "mnemopi", "alice"),
        (HARP, "hindsight", "team"),
    }


def test_the_same_text_is_shown_once(made: Maker) -> None:
    """Case and spacing make no difference; of equal scores the first bank's stays."""
    [memory] = made("alice", PILOT).joined(made("team", "ana is  a PILOT.")).recall("Ana")
    assert (memory.text, memory.bank) == (PILOT, "alice")


def test_a_weight_moves_a_bank_up_or_down(made: Maker) -> None:
    """The best of each part scores its weight; the first bank's weight is 1."""
    alice, team = made("alice", PILOT), made("team", HARP)
    assert [(m.text, m.score) for m in alice.joined(team, weight=2).recall("Ana")] == [(HARP, 2.0), (PILOT, 1.0)]
    assert [(m.text, m.score) for m in alice.joined(team, weight=0.5).recall("Ana")] == [(PILOT, 1.0), (HARP, 0.5)]


def test_both_bounds_hold_over_the_whole(made: Maker) -> None:
    """`limit` and `max_tokens` bound the joined result, not each part."""
    joined = made("alice", "Ana one.", "Ana two.", "Ana three.").joined(made("team", "Ana four.", "Ana five."))
    assert len(joined.recall("Ana", limit=2)) == 2
    assert len(joined.recall("Ana", max_tokens=6, limit=5)) == 2


@pytest.mark.parametrize("error", [UnavailableError("down"), GarbledError("odd")], ids=["down", "garbled"])
def test_a_part_that_is_down_is_named(made: Maker, error: Exception) -> None:
    """The others answer; the result is partial, also where they know nothing; a listener hears of it."""
    events: list[Event] = []
    joined = made("alice", PILOT, on_event=events.append).joined(made("team", error=error))
    known, unknown = joined.recall("Ana"), joined.recall("tungsten")
    assert (known.state, known.unavailable, [m.text for m in known]) == ("partial", ("team",), [PILOT])
    assert (unknown.state, unknown.unavailable, len(unknown)) == ("partial", ("team",), 0)
    assert events == [Skipped("team", "recall", type(error).__name__)] * 2


def test_a_first_part_that_is_down_is_named_too(made: Maker) -> None:
    """Two parts of one name are told apart by their backends."""
    joined = made("alice", error=UnavailableError("down")).joined(made("alice", HARP, kind=Renamed))
    assert (joined.recall("Ana").unavailable, texts(joined)) == (("alice on mnemopi",), [HARP])


def test_all_parts_down_is_unavailable(made: Maker) -> None:
    """Nobody answers: an error, never "nothing known"."""
    joined = made("alice", error=UnavailableError("down")).joined(made("team", error=GarbledError("odd")))
    with pytest.raises(UnavailableError, match="alice, team"):
        joined.recall("Ana")


def test_a_mistake_of_the_caller_stays_one(made: Maker) -> None:
    """What a part does not support is refused, never taken for an outage."""
    with pytest.raises(UnsupportedError):
        made("alice", PILOT).joined(made("team", HARP)).recall("Ana", prefer_observations=True)


def test_nothing_known_anywhere_is_nothing(made: Maker) -> None:
    """All answered and knew nothing."""
    assert made("alice", PILOT).joined(made("team", HARP)).recall("tungsten").state == "nothing"


def test_writes_and_edits_go_to_the_first(made: Maker) -> None:
    """Retain, list, stats, forget and the handles are the first bank's."""
    alice, team = made("alice"), made("team", HARP)
    joined = alice.joined(team)
    stored = joined.retain(PILOT, tags=["job"], document_id="cv").stored[0].id
    assert ([m.text for m in joined.list()], joined.stats().memories, joined.tags()) == ([PILOT], 1, {"job": 1})
    assert ([d.id for d in joined.documents.list()], joined.outbox.status().waiting) == (["cv"], 0)
    assert joined.reflect("Ana").based_on == alice.reflect("Ana").based_on
    with pytest.raises(MissingError):
        joined.forget(team.list()[0].id)
    assert joined.forget(str(stored)).ids == (stored,)
    assert (joined.health().ok, joined.check().ok, joined.flush().done, joined.purge()) == (True, True, True, None)
    assert (len(alice.list()), len(team.list())) == (0, 1)


def test_get_tries_all_parts(made: Maker) -> None:
    """Where none has it, and one can't be asked, it is not called missing."""
    alice, team = made("alice", PILOT), made("team", HARP)
    joined = alice.joined(team)
    assert [joined.get(bank.list()[0].id).text for bank in (alice, team)] == [PILOT, HARP]
    with pytest.raises(MissingError, match=r"'alice' or 'team'"):
        joined.get("none")
    down = joined.joined(made("old", error=UnavailableError("down")))
    assert down.get(alice.list()[0].id).text == PILOT
    with pytest.raises(UnavailableError, match="down"):
        down.get("none")


def test_joining_again_adds_a_part(made: Maker) -> None:
    """Joined banks flatten, from either side; weights multiply."""
    one, two, three, four = (made(f"b{number}", f"Ana says {number}.") for number in range(4))
    both = one.joined(two, weight=0.5).joined(three.joined(four, weight=0.5), weight=0.25)
    assert [(memory.bank, memory.score) for memory in both.recall("Ana")] == [("b0", 1), ("b1", 0.5), ("b2", 0.25), ("b3", 0.125)]


def test_bad_parts_are_refused(made: Maker) -> None:
    """Not a bank, the same bank, no weight."""
    alice, team = made("alice"), made("team")
    for other in (alice, alice.joined(team), "team"):
        with pytest.raises(UsageError):
            alice.joined(other)  # type: ignore[arg-type]
    for weight in (0, -1, float("nan"), "much"):
        with pytest.raises(UsageError, match="weight"):
            alice.joined(team, weight=weight)  # type: ignore[arg-type]


def test_closing_a_joined_bank_leaves_its_parts_open(made: Maker) -> None:
    """And a part that its owner closed is a clear error."""
    alice, team = made("alice", PILOT), made("team", HARP)
    with alice.joined(team) as joined:
        assert len(joined.recall("Ana")) == 2
    with pytest.raises(UsageError, match="closed"):
        joined.recall("Ana")
    assert (texts(alice), texts(team)) == ([PILOT], [HARP])
    again = alice.joined(team)
    team.close()
    with pytest.raises(UsageError, match=r"'team'.*closed"):
        again.recall("Ana")
    assert repr(again) == "<Bank 'alice' on mnemopi>"


def test_a_joined_bank_is_no_one_elses(made: Maker) -> None:
    """Another user's name would read this user's parts: it is refused. Name first, then join."""
    joined = made("alice", PILOT).joined(made("notes", HARP))
    for call in (lambda: joined.named("bob"), lambda: per_user(joined).bank({"user_id": "bob"})):
        with pytest.raises(UnsupportedError, match="joined"):
            call()
    assert len(joined.named("alice").recall("Ana")) == 2


def test_the_shared_bank_of_a_joined_one_is_the_firsts(made: Maker) -> None:
    """`retain_global` writes there, and nothing else is searched through it."""
    alice = made("alice", PILOT, shared="team")
    joined = alice.joined(made("notes", HARP))
    shared = joined.shared
    assert shared is not None
    shared.retain("Ana leads the team.")
    assert texts(shared) == ["Ana leads the team."]
    assert sorted(texts(joined)) == sorted([PILOT, HARP, "Ana leads the team."])
    assert shared.get(shared.list()[0].id).bank == "team"
    assert len(shared.joined(made("other", HARP)).recall("Ana")) == 2


def test_tools_show_each_memory_in_its_own_style(made: Maker) -> None:
    """A bullet looks as its own backend's; the artifact says which."""
    reply = MemoryTools(made("alice", PILOT).joined(made("team", HARP, kind=Renamed), weight=0.5)).recall("Ana")
    first, second = reply.text.splitlines()[2:]
    assert first.startswith(f"- {PILOT} (id: ")
    assert first.endswith("c:1.0")
    assert second.startswith(f"- {HARP} [world] (")
    assert [memory["backend"] for memory in reply.artifact["memories"]] == ["mnemopi", "hindsight"]


def test_a_retriever_hands_a_partial_result_on(made: Maker) -> None:
    """What the other parts know still arrives."""
    joined = made("alice", PILOT).joined(made("team", error=UnavailableError("down")))
    assert Retrieval(4).recall(joined, "Ana").unavailable == ("team",)


def test_parts_are_asked_at_the_same_time_with_the_callers_context(made: Maker) -> None:
    """Two parts meet at a barrier; each sees the caller's context variables."""
    barrier, user, seen = threading.Barrier(2), contextvars.ContextVar("user", default="nobody"), []

    class Meeting(MnemopiBackend):
        def recall(self, scope: Scope, request: RecallRequest) -> Any:
            barrier.wait(10)
            seen.append(user.get())
            return super().recall(scope, request)

    joined = made("alice", PILOT, kind=Meeting).joined(made("team", HARP, kind=Meeting))
    user.set("ana")
    assert len(asyncio.run(joined.arecall("Ana"))) == 2
    assert seen == ["ana", "ana"]


async def test_a_part_that_hangs_keeps_writes_and_other_banks_free(made: Maker) -> None:
    """Sixteen joined recalls wait for a hung part; the first bank is read and written meanwhile."""
    free = threading.Event()

    class Hung(MnemopiBackend):
        def recall(self, scope: Scope, request: RecallRequest) -> Any:
            assert free.wait(60)
            return super().recall(scope, request)

    alice = made("alice", PILOT)
    joined = alice.joined(made("team", HARP, kind=Hung))
    async with asyncio.timeout(60):
        waiting = [asyncio.create_task(joined.arecall("Ana")) for _ in range(20)]
        await joined.aretain("Ana sings.")
        assert len(await alice.arecall("Ana")) == 2
        free.set()
        assert {len(result) for result in await asyncio.gather(*waiting)} <= {2, 3}


def test_the_kill_switch_covers_joined_banks(made: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs say that memory is off; retrievers give nothing."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    joined = made("alice").joined(made("team"))
    with pytest.raises(UnavailableError, match="off"):
        joined.recall("Ana")
    assert Retrieval(4).recall(joined, "Ana").state == "unavailable"


def test_a_pickled_joined_bank_joins_the_same_parts(made: Maker) -> None:
    """Settings travel; the parts open anew."""
    with pickle.loads(pickle.dumps(made("alice", PILOT).joined(made("team", HARP), weight=0.5))) as twin:  # noqa: S301
        assert [memory.score for memory in twin.recall("Ana")] == [1.0, 0.5]
        backend = twin.connections.backend
        for part in backend.parts:
            part.connections.close()
