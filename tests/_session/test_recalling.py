"""Automatic recall: outages that cost little, late answers, budgets over several banks, traces, compaction."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Message, Session, UnavailableError, open_bank
from lorebank._session.registry import registry_of
from lorebank._session.shared import Clocks
from lorebank.seams import Event, OutageEnded, OutageStarted, Recalled
from lorebank.testing import Fault, FaultServer

RECALL = "/memories/recall$"
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
HARP = "Ben plays the harp in the evening."


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


@dataclass
class Clock:
    """Seconds that pass when the test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Rig:
    """A server that fails on request, and banks on it with a clock of the test's own."""

    server: FaultServer
    folder: Path
    stack: ExitStack
    clock: Clock = field(default_factory=Clock)
    events: list[Event] = field(default_factory=list)

    def open(self, bank: str = "alice", **options: Any) -> Bank:
        given = {"mental_models": {"enabled": False}, "connection": {"close_timeout": 5}, **options}
        opened = open_bank(
            self.server.url,
            bank=bank,
            ledger=f"sqlite:///{self.folder / 'outbox.db'}",
            outbox={"batch_seconds": 0.02},
            on_event=self.events.append,
            **given,
        )
        registry_of(opened.connections, Clocks(ticks=self.clock))
        return self.stack.enter_context(opened)

    def tell(self, bank: Bank, *facts: str) -> None:
        bank.retain(list(facts))
        assert bank.flush(timeout=30, until="completed").left == 0

    def outages(self) -> list[str]:
        """The outages of recall, as they were told."""
        kinds = (OutageStarted, OutageEnded)
        return [type(event).__name__ for event in self.events if isinstance(event, kinds) and event.part == "recall"]

    def kept(self, bank: str = "alice") -> list[str]:
        documents = self.server.bank(bank).documents
        return [line for name, text in documents.items() if not name.startswith("lorebank:item:") for line in lines(text)]

    def recalls(self) -> int:
        return sum(request.path.endswith("/memories/recall") for request in self.server.requests)


def lines(text: str) -> list[str]:
    """The contents of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[str]()
    while place < len(text):
        array, place = decoder.raw_decode(text, place)
        found += [line["content"] for line in array]
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with FaultServer() as server, ExitStack() as stack:
        yield Rig(server, tmp_path, stack)
        server.start()
        server.heal()


def seconds(body: Callable[[], Any]) -> float:
    started = time.perf_counter()
    body()
    return time.perf_counter() - started


def awaited(session: Session) -> None:
    """Waits until the recall of the turn has its answer."""
    running = session._turn.running
    assert running is not None
    running.exception(timeout=30)


def chat(rig: Rig, session: Session, turns: int, *, each: float = 30.0) -> tuple[list[str], list[float]]:
    """So many turns, one every half minute; what was said, and the seconds that each cost."""
    history, costs = list[Message](), list[float]()
    for number in range(turns):
        history.append(user(f"Question number {number} of the hour?"))
        costs.append(seconds(lambda: session.before_turn(history)))
        history.append(answer(f"Answer number {number} of the hour."))
        costs[-1] += seconds(lambda: session.after_turn(history))
        rig.clock.now += each
    return [message.text for message in history], costs


# --- outages


def test_an_hour_without_a_server_loses_nothing(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Refused connections: every turn goes on without memories, one outage is told, all that was said is there afterwards."""
    bank = rig.open()
    rig.tell(bank, FACT)
    rig.server.stop()
    with caplog.at_level(logging.WARNING, "lorebank"), bank.session("s") as session:
        texts, _ = chat(rig, session, 60, each=60.0)
        assert session.before_turn([user(ASKED)]).result.state == "unavailable"  # type: ignore[union-attr]
        assert rig.outages() == ["OutageStarted"]
        rig.server.start()
        session.retain_now()
        assert bank.flush(timeout=60, until="completed").left == 0
        rig.clock.now += 120
        found = session.before_turn([user(ASKED), answer("I can't say."), user("Which seats on long flights, again?")])
        assert found.result is not None
        assert FACT in found.memories
    assert rig.outages() == ["OutageStarted", "OutageEnded"]
    assert len([record for record in caplog.records if "can't be recalled" in record.getMessage()]) == 1
    kept = rig.kept()
    assert [text for text in texts if kept.count(text) != 1] == []
    assert [text for text in kept if text in set(texts)] == texts


def test_an_hour_with_a_server_that_hangs_costs_the_deadline_once(rig: Rig) -> None:
    """The first turn waits for its deadline, the others for nothing; all that was said is there afterwards."""
    bank = rig.open(recall={"deadline": 1.0})
    bank.retain("The bank is there.")
    bank.flush(timeout=30)
    rig.server.fault(Fault(hang=True), path=RECALL)
    with bank.session("s") as session:
        texts, costs = chat(rig, session, 60, each=60.0)
        assert len([cost for cost in costs if cost > 0.8]) == 1
        assert costs[0] > 0.8
        assert rig.outages() == ["OutageStarted"]
        rig.server.heal()
    assert bank.flush(timeout=60, until="completed").left == 0
    kept = rig.kept()
    assert [text for text in texts if kept.count(text) != 1] == []


def test_mental_models_that_hang_cost_the_first_turn_alone(rig: Rig) -> None:
    """With all that is on by default: the wait for mental models is the first turn's, too, and never another's."""
    bank = rig.open(recall={"deadline": 1.0}, mental_models={"first_wait": 1.0})
    bank.retain("The bank is there.")
    bank.flush(timeout=30)
    rig.server.fault(Fault(hang=True), method="GET", path="/mental-models")
    rig.server.fault(Fault(hang=True), method="POST", path="/mental-models")
    rig.server.fault(Fault(hang=True), path=RECALL)
    with bank.session("s") as session:
        _, costs = chat(rig, session, 6)
        rig.server.heal()
    assert [round(cost, 1) for cost in costs[1:] if cost > 0.8] == []


def test_models_and_recall_share_one_deadline(rig: Rig) -> None:
    """Where both hang, the turn costs the deadline, not the sum of both waits."""
    bank = rig.open(recall={"deadline": 1.0}, mental_models={"first_wait": 1.0})
    registry = bank.connections.sessions
    registry._clocks = Clocks()  # the time that really passes
    rig.server.fault(Fault(hang=True))
    session = bank.session("s")
    cost = seconds(lambda: session.before_turn([user(ASKED)]))
    rig.server.heal()
    session.close()
    assert cost < 1.8


def test_another_session_of_a_server_that_hangs_waits_for_nothing(rig: Rig) -> None:
    """The outage is the server's: what one session has waited for in vain spares the others."""
    bank = rig.open(recall={"deadline": 1.0})
    rig.server.fault(Fault(hang=True), path=RECALL)
    with bank.session("one") as one, bank.session("two") as two, bank.named("bob").session("one") as three:
        one.before_turn([user(ASKED)])
        costs = [seconds(lambda each=each: each.before_turn([user(ASKED)])) for each in (two, three)]  # type: ignore[misc]
        assert rig.outages() == ["OutageStarted"]
        rig.server.heal()
    assert max(costs) < 0.8


def test_what_is_said_never_waits_for_the_network(rig: Rig) -> None:
    """`after_turn` writes it down and returns, whatever the server does."""
    bank = rig.open(recall={"auto_recall": False}, retain={"every_n_turns": 1})
    rig.server.fault(Fault(hang=True))
    with bank.session("s") as session:
        costs = [seconds(lambda n=n: session.after_turn([user(f"Number {n}.")], run_id=f"r{n}")) for n in range(20)]  # type: ignore[misc]
        rig.server.heal()
    assert sorted(costs)[10] < 0.2
    assert max(costs) < 1.5
    assert bank.flush(timeout=60, until="completed").left == 0
    assert len(rig.kept()) == 20


def test_outages_are_told_in_pairs(rig: Rig) -> None:
    """Two outages: each begins once and ends once, with the attempts that failed."""
    bank = rig.open()
    rig.tell(bank, FACT)
    history = list[Message]()
    with bank.session("s") as session:
        for fault in (Fault(status=500), None, Fault(body=b"<html>", content_type="text/html"), None):
            if fault is not None:
                rig.server.fault(fault, path=RECALL)
            else:
                rig.server.heal()
            for _ in range(3):
                history.append(user(f"Which seats does Ana prefer, question {len(history)}?"))
                state = session.before_turn(history).result.state  # type: ignore[union-attr]
                assert state == ("found" if fault is None else "unavailable")
                rig.clock.now += 120
    assert rig.outages() == ["OutageStarted", "OutageEnded"] * 2
    ends = [event for event in rig.events if isinstance(event, OutageEnded) and event.part == "recall"]
    assert [event.failures for event in ends] == [3, 3]
    assert all(event.seconds >= 240 for event in ends)


def test_a_failed_recall_is_not_tried_again_within_its_turn(rig: Rig) -> None:
    """Failed means: the turn goes on without memories, and its tool loop asks no more."""
    bank = rig.open()
    rig.server.fault(Fault(status=500), path=RECALL)
    with bank.session("s") as session:
        for number in range(4):
            session.before_turn([user(ASKED), *[answer(f"step {n}") for n in range(number)]])
    assert rig.recalls() == 1


# --- late answers


def test_a_late_answer_serves_the_later_calls_of_its_turn(rig: Rig) -> None:
    """The first model call goes without, the second has the memories, from one and the same request."""
    bank = rig.open(recall={"deadline": 0.2})
    rig.tell(bank, FACT)
    rig.server.fault(Fault(delay=1.0), path=RECALL, times=1)
    with bank.session("s") as session:
        first = session.before_turn([user(ASKED)])
        assert (first.memories, first.result.state) == ("", "unavailable")  # type: ignore[union-attr]
        awaited(session)
        second = session.before_turn([user(ASKED), answer("Let me look.")])
        third = session.before_turn([user(ASKED), answer("Let me look."), answer("And there.")])
    assert FACT in second.memories
    assert (second.result.state, third.memories) == ("found", second.memories)  # type: ignore[union-attr]
    assert rig.recalls() == 1
    assert rig.outages() == ["OutageStarted", "OutageEnded"]


def test_a_late_answer_never_serves_another_query(rig: Rig) -> None:
    """The user has gone on: what comes late for the old question is not shown for the new one."""
    bank = rig.open(recall={"deadline": 0.2})
    rig.tell(bank, FACT, HARP)
    rig.server.fault(Fault(delay=1.0), path=RECALL, times=1)
    history = [user(ASKED), answer("I can't say."), user("Who plays the harp in the evening?")]
    with bank.session("s") as session:
        session.before_turn(history[:1])
        late = session._turn.running
        assert late is not None
        rig.clock.now += 120
        during = session.before_turn(history)
        late.result(timeout=30)
        awaited(session)
        after = session.before_turn([*history, answer("Let me look.")])
        for injection in (during, after):
            assert "aisle" not in injection.memories
            assert injection.result.query == history[2].text  # type: ignore[union-attr]
        assert HARP in after.memories
        trace = session.last_recall()
        assert trace is not None
        assert trace.query == history[2].text


def test_a_turn_that_was_spared_asks_when_it_may(rig: Rig) -> None:
    """While memory rests a turn goes without; a later call of the same turn may ask for it."""
    bank = rig.open(recall={"deadline": 0.2})
    rig.tell(bank, FACT)
    rig.server.fault(Fault(hang=True), path=RECALL, times=1)
    history = [user("Hello there."), answer("Hi."), user(ASKED)]
    with bank.session("s") as session:
        session.before_turn(history[:1])
        spared = session.before_turn(history)
        assert (spared.result.state, rig.recalls()) == ("unavailable", 1)  # type: ignore[union-attr]
        rig.server.heal()
        rig.clock.now += 120
        session.before_turn([*history, answer("Let me look.")])
        awaited(session)
        assert FACT in session.before_turn([*history, answer("Let me look."), answer("Again.")]).memories


# --- what the application and the model are told


def test_the_model_is_told_only_where_asked_for(rig: Rig) -> None:
    """`tell_model`: a block of its own for "unavailable", none at all for "nothing known"."""
    bank = rig.open(recall={"tell_model": True})
    history = [user("Hello there.")]
    with bank.session("s") as session:
        assert session.before_turn(history).memories == ""
        rig.server.fault(Fault(status=503), path=RECALL)
        history += [answer("Hi."), user(ASKED)]
        block = session.before_turn(history).memories
        assert block.startswith("<memories>\n")
        assert block.endswith("\n</memories>")
        assert "unavailable" in block
        rig.server.heal()


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(hang=True), Fault(drop=True)], ids=["500", "hang", "drop"])
def test_an_application_that_wants_failures_gets_them(rig: Rig, fault: Fault) -> None:
    """`on_failure="raise"`: also where the deadline was over first, and in the turns in which memory is spared."""
    bank = rig.open(recall={"deadline": 0.3}, on_failure="raise")
    rig.server.fault(fault, path=RECALL)
    raised = list[bool]()
    history = list[Message]()
    session = bank.session("s")
    for number in range(3):
        history.append(user(f"Question {number}?"))
        try:
            session.before_turn(history)
        except UnavailableError:
            raised.append(True)
        else:
            raised.append(False)
    rig.server.heal()
    session.close()
    assert raised == [True] * 3
    assert bank.flush(timeout=60, until="completed").left == 0
    assert rig.kept() == [message.text for message in history]


@pytest.mark.parametrize("position", ["in-user", "before-user", "system"])
def test_the_place_of_the_block_is_told(rig: Rig, position: Any) -> None:
    """The setting reaches the integration, also in calls that give nothing."""
    bank = rig.open(recall={"position": position})
    with bank.session("s") as session:
        assert session.before_turn([user(ASKED)]).position == position
        assert session.before_turn([user(ASKED), answer("Hm."), user("?")]).position == position
        session.mode = "ignored"
        assert session.before_turn([user("Hello there.")]).position == position


# --- budgets


def test_the_budget_holds_over_the_own_and_the_shared_bank(rig: Rig) -> None:
    """`limit` and `max_tokens` bound what is shown of both together."""
    bank = rig.open(shared="team", recall={"limit": 3, "max_tokens": 1024})
    topics = ("garden", "kitchen", "harbour", "station")
    rig.tell(bank, *[f"Ana met Carl in the {topic} on a flight." for topic in topics])
    team = bank.shared
    assert team is not None
    rig.tell(team, *[f"Everybody books a flight over the {topic} desk." for topic in topics])
    with bank.session("s") as session:
        injection = session.before_turn([user("Who was met on a flight, and which desk books a flight for everybody?")])
        assert injection.result is not None
        assert len(injection.result.memories) == 3
        assert injection.memories.count("\n- ") == 3
        trace = session.last_recall()
        assert trace is not None
        assert len(trace.dropped) >= 1
        assert not {each.id for each in trace.shown} & set(trace.dropped)


@pytest.mark.parametrize("tokens", [10, 25, 60])
def test_tokens_bound_what_is_shown_of_joined_banks(rig: Rig, tmp_path: Path, tokens: int) -> None:
    """The joined bank's settings are the first one's; the sum of all shown texts is within them."""
    with open_bank(
        f"sqlite:///{tmp_path / 'memory.db'}",
        bank="ana",
        recall={"max_tokens": tokens, "limit": 50},
        mental_models={"enabled": False},
    ) as first:
        second = rig.open("bob")
        first.retain(
            [f"Ana likes the aisle seat of flight {n} to {city}." for n, city in enumerate(("Porto", "Rome", "Oslo", "Riga"))]
        )
        rig.tell(
            second, *[f"Bob took flight {n} with an aisle seat over {city}." for n, city in enumerate(("Bonn", "Kiel", "Graz"))]
        )
        joined = first.joined(second)
        with joined.session("s") as session:
            result = session.before_turn([user("Who likes which aisle seat on a flight?")]).result
            assert result is not None
            assert result.memories or tokens == 10
            assert sum(-(-len(memory.text) // 4) for memory in result.memories) <= tokens
        joined.close()


def test_a_joined_bank_with_a_part_down_says_partial(rig: Rig, tmp_path: Path) -> None:
    """What the other part knows is shown; the result names the one that could not be asked."""
    with open_bank(f"sqlite:///{tmp_path / 'memory.db'}", bank="ana", mental_models={"enabled": False}) as first:
        first.retain(FACT)
        joined = first.joined(rig.open("bob"))
        rig.server.fault(Fault(status=500), path=RECALL)
        with joined.session("s") as session:
            injection = session.before_turn([user(ASKED)])
            assert injection.result is not None
            assert (injection.result.state, injection.result.unavailable) == ("partial", ("bob",))
            assert FACT in injection.memories
        joined.close()


def test_near_duplicates_are_thinned(rig: Rig) -> None:
    """Of several that say nearly the same only the best is shown; the room goes to others."""
    bank = rig.open(recall={"limit": 3})
    alike = "On flight 7 to Porto in the early morning of a cold day Ana took her usual aisle seat at the very front"
    rig.tell(bank, *[f"{alike}{end}" for end in (".", "!", " indeed.")], HARP, "Ana sold her car.")
    with bank.session("s") as session:
        injection = session.before_turn([user("Which flight did Ana take, what did she sell, and who plays the harp?")])
    assert injection.memories.count("usual aisle seat") == 1
    assert HARP in injection.memories
    assert "sold her car" in injection.memories


def test_types_and_filters_of_the_settings_hold(rig: Rig) -> None:
    """Automatic recall reads what the settings say, as the verb does."""
    bank = rig.open(recall={"types": ("observation",)})
    rig.tell(bank, FACT)
    with bank.session("s") as session:
        session.before_turn([user(ASKED)])
    asked = [request.json() for request in rig.server.requests if request.path.endswith("/memories/recall")]
    assert [body["types"] for body in asked] == [["observation"]]


# --- traces


def traces(rig: Rig) -> list[str]:
    with closing(sqlite3.connect(rig.folder / "outbox.db")) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM traces ORDER BY session, number")]


def turn(session: Session, history: list[Message], text: str) -> None:
    history.append(user(text))
    session.before_turn(history)
    history.append(answer("I see."))
    session.after_turn(history)


def query(session: Session) -> str | None:
    trace = session.last_recall()
    return None if trace is None else trace.query


def test_the_last_turn_can_be_traced(rig: Rig) -> None:
    """Query, ids, scores by signal, what was dropped, and how long it took."""
    bank = rig.open(recall={"limit": 1})
    rig.tell(bank, FACT, "Ana prefers trains to short flights.")
    with bank.session("s") as session:
        assert session.last_recall() is None
        shown = session.before_turn([user(ASKED)]).result
        trace = session.last_recall()
        assert shown is not None
        assert trace is not None
        assert (trace.query, trace.state) == (ASKED, "found")
        assert [each.id for each in trace.shown] == [memory.id for memory in shown]
        assert trace.shown[0].score is not None
        assert trace.shown[0].signals
        assert len(trace.dropped) == 1
        assert 0 < trace.elapsed < 30
        turn(session, [user(ASKED), answer("Aisle seats.")], "Who plays the harp?")
        assert query(session) == "Who plays the harp?"


def test_traces_are_kept_in_memory_only_by_default(rig: Rig) -> None:
    """A restart knows nothing, and no query is on the disk."""
    with rig.open().session("s") as session:
        turn(session, [], ASKED)
        assert query(session) == ASKED
    assert traces(rig) == []
    assert rig.open().session("s").last_recall() is None


def test_kept_traces_survive_a_restart_and_are_bounded(rig: Rig) -> None:
    """The newest `keep_traces` of each session, one for a turn however many model calls."""
    bank = rig.open(recall={"keep_traces": 2})
    history = list[Message]()
    with bank.session("s") as session, bank.session("t") as other:
        for text in ("First question?", "Second question?", "Third question?"):
            turn(session, history, text)
            session.before_turn([*history[:-1]])
        turn(other, [], "Another question?")
    kept = [json.loads(body)["query"] for body in traces(rig)]
    assert kept == ["Second question?", "Third question?", "Another question?"]
    again = rig.open(recall={"keep_traces": 2})
    assert (query(again.session("s")), query(again.session("t"))) == ("Third question?", "Another question?")
    whole = again.session("s").last_recall()
    assert whole is not None
    assert whole.state == "nothing"


@pytest.mark.parametrize("how", ["forget", "clear"])
def test_traces_go_with_what_is_forgotten(rig: Rig, how: str) -> None:
    """They hold queries: `forget(session=...)` and `clear` take them from the ledger and from the live session."""
    bank = rig.open(recall={"keep_traces": 5})
    rig.tell(bank, FACT)
    with bank.session("s") as session, bank.session("t") as other:
        turn(session, [], ASKED)
        turn(other, [], "Another question?")
        if how == "forget":
            bank.forget(session="s")
        else:
            bank.clear(confirm="alice")
        assert ASKED not in "".join(traces(rig))
        assert ("Another question?" in "".join(traces(rig))) == (how == "forget")
        assert rig.open(recall={"keep_traces": 5}).session("s").last_recall() is None
        assert session.last_recall() is None


def test_a_trace_is_never_an_earlier_turns(rig: Rig) -> None:
    """A turn in which memory could not be asked is told as that, not by the trace of the turn before it."""
    bank = rig.open(recall={"keep_traces": 5})
    history = list[Message]()
    with bank.session("s") as session:
        turn(session, history, "First question?")
        rig.server.fault(Fault(status=500), path=RECALL)
        turn(session, history, "Second question?")
        assert query(session) != "First question?"
        rig.server.heal()


def test_an_unreadable_trace_breaks_nothing(rig: Rig) -> None:
    """Garbage in the ledger is no trace."""
    bank = rig.open(recall={"keep_traces": 5})
    with bank.session("s") as session:
        turn(session, [], ASKED)
    with closing(sqlite3.connect(rig.folder / "outbox.db")) as connection, connection:
        connection.execute("UPDATE traces SET body = '{'")
    assert rig.open(recall={"keep_traces": 5}).session("s").last_recall() is None


# --- compaction


def test_a_compaction_gets_a_block_of_its_own(rig: Rig) -> None:
    """What is known about the newest message, for the summariser; the session's own memories may be among them."""
    bank = rig.open()
    rig.tell(bank, FACT)
    history = [user("My flight is number 7 to Porto."), answer("Noted."), user("Which seats does Ana prefer on my flight?")]
    with bank.session("s") as session:
        session.after_turn(history[:2])
        session.retain_now()
        bank.flush(timeout=30, until="completed")
        block = session.before_compaction(history)
    assert block.startswith("<memories>\n")
    assert FACT in block
    assert "number 7" in block


def test_a_compaction_changes_nothing_of_the_turn(rig: Rig) -> None:
    """It records no message, is no turn, has no trace, and does not take the turn's memories away."""
    bank = rig.open()
    rig.tell(bank, FACT, HARP)
    with bank.session("s") as session:
        first = session.before_turn([user(ASKED)])
        session.before_compaction([user("Who plays the harp?"), answer("I can't say.")])
        assert query(session) == ASKED
        assert session.before_turn([user(ASKED), answer("Hm.")]).memories == first.memories
    assert rig.recalls() == 2
    assert rig.kept() == [ASKED, "Hm."] or rig.kept() == [ASKED]
    assert len([event for event in rig.events if isinstance(event, Recalled)]) == 2


def test_a_compaction_of_what_says_nothing_is_empty(rig: Rig) -> None:
    """Nothing known, no message, nothing to ask: no block at all."""
    with rig.open().session("s") as session:
        assert session.before_compaction([user(ASKED)]) == ""
        assert session.before_compaction([]) == ""
        assert session.before_compaction([answer("Hello."), user("?")]) == ""


def test_a_compaction_has_the_same_deadline(rig: Rig) -> None:
    """A server that hangs costs it once; it raises only where that is wanted."""
    bank = rig.open(recall={"deadline": 0.5})
    rig.server.fault(Fault(hang=True), path=RECALL)
    with bank.session("s") as session:
        assert seconds(lambda: session.before_compaction([user(ASKED)])) < 2.0
        assert session.before_compaction([user(ASKED)]) == ""
        rig.server.heal()
    loud = rig.open(on_failure="raise")
    rig.server.fault(Fault(status=500), path=RECALL)
    with loud.session("t") as session, pytest.raises(UnavailableError):
        session.before_compaction([user(ASKED)])
