"""Recalling: outages; late answers; what the application and the model are told; budgets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from lorebank import Message, UnavailableError, open_bank
from lorebank._session.shared import Clocks
from lorebank.seams import OutageEnded
from lorebank.testing import Fault

from .rig import ASKED, FACT, HARP, RECALL, Rig, answer, awaited, chat, seconds, user


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


@pytest.mark.parametrize(("one", "other"), [("17", "18"), ("Tuesday", "Thursday"), ("Marta", "Helena"), ("so", "never")])
def test_what_differs_in_a_detail_that_matters_is_no_duplicate(rig: Rig, one: str, other: str) -> None:
    """Names, numbers, days and negations decide, however long the text that they stand in."""
    bank = rig.open(recall={"limit": 3})
    around = " and ".join(f"the {word} in the hall" for word in ("cello", "harp", "drum", "flute", "organ", "fiddle", "horn"))
    rig.tell(bank, *[f"Ana will, as agreed, tune {around} for {each} at last." for each in (one, other)])
    with bank.session("s") as session:
        injection = session.before_turn([user("What will Ana tune in the hall?")])
    assert injection.memories.count("as agreed") == 2


def test_types_and_filters_of_the_settings_hold(rig: Rig) -> None:
    """Automatic recall reads what the settings say, as the verb does."""
    bank = rig.open(recall={"types": ("observation",)})
    rig.tell(bank, FACT)
    with bank.session("s") as session:
        session.before_turn([user(ASKED)])
    asked = [request.json() for request in rig.server.requests if request.path.endswith("/memories/recall")]
    assert [body["types"] for body in asked] == [["observation"]]
