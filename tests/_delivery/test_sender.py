"""The sender against scripted servers: what each kind of answer makes of a write, and when it is asked at all.

The tests wait for what they expect, with a bound; where the product would wait for minutes, they set the ledger's times back.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
from sender_rig import ROUTE, Answer, Rig, Rigging, broken, down
from sqlalchemy import select, update

from lorebank._domain.events import DeadLettered, KeyTakenOver, OutageEnded, OutageStarted
from lorebank._domain.operations import OperationState
from lorebank._ledger.schema import batches, outbox, routes
from lorebank._ledger.values import Route
from lorebank.errors import ForbiddenError, GarbledError, LorebankError, RateLimitedError, RefusedError


def done(rig: Rig, count: int) -> Callable[[], bool]:
    return lambda: rig.rows() == {"completed": count}


def asleep(rig: Rig) -> bool:
    """Whether the sender means to sleep for more than ten seconds."""
    return 10 < rig.sender._signals.planned - time.monotonic() < 60


def test_what_is_queued_is_delivered(rig: Rig) -> None:
    """Sent once, asked after, completed; of its text nothing stays."""
    rig.put("tea", "milk")
    rig.until(done(rig, 2))
    assert rig.server.tries == [["tea", "milk"]]
    assert rig.ledger.read(lambda c: c.execute(select(outbox.c.body)).scalars().all()) == [None, None]


def test_an_outage_and_its_end_are_told_once(rig: Rig) -> None:
    """However many tries fail meanwhile; no row dies, and all arrive."""
    rig.server.answer = lambda texts: down()
    rig.put("tea")
    rig.until(lambda: len(rig.server.tries) >= 4)
    rig.server.answer = lambda texts: None
    rig.until(done(rig, 1))
    rig.until(lambda: rig.of(OutageEnded))
    assert (len(rig.of(OutageStarted)), len(rig.of(OutageEnded)), rig.of(DeadLettered)) == (1, 1, [])
    assert rig.of(OutageEnded)[0].failures == len(rig.server.tries) - 1
    assert len({operation for _, operation, _ in rig.server.submitted}) == 1


@pytest.mark.parametrize("error", [down(), broken(), GarbledError("a proxy's page"), ForbiddenError("401", status=401)])
def test_no_try_is_burnt_while_the_server_takes_nothing(rig: Rig, error: LorebankError) -> None:
    """Whatever it says: the writes wait."""
    rig.server.answer = lambda texts: error
    rig.put("tea")
    rig.until(lambda: len(rig.server.tries) >= 8)
    assert rig.rows() == {"sealed": 1}


def test_a_poison_batch_dies_after_five_failures_while_others_pass(rig: Rig) -> None:
    """The others are not held up by it, and its death is told with its id."""
    rig.server.answer = lambda texts: broken() if "poison" in texts else None
    [poison] = rig.put("poison", document="p")
    for n in range(40):
        rig.put(f"good {n}", document=f"d{n}")
        before = len(rig.server.tries)
        rig.until(lambda: rig.rows().get("dead") or len(rig.server.tries) > before)  # noqa: B023
        rig.later()
        if rig.rows().get("dead"):
            break
    rig.until(lambda: set(rig.rows()) == {"dead", "completed"})
    assert [event.rows for event in rig.of(DeadLettered)] == [(poison.id,)]
    assert rig.server.tries.count(["poison"]) == 5


def test_a_batch_that_never_gets_an_answer_holds_up_no_other(rig: Rig) -> None:
    """Whatever a proxy makes of one batch, the others pass; none of its tries is burnt."""
    rig.server.answer = lambda texts: GarbledError("a proxy's page") if "poison" in texts else None
    rig.put("poison", document="p")
    rig.until(lambda: rig.server.tries)
    for n in range(3):
        rig.put(f"good {n}", document=f"d{n}")
        rig.later()
    rig.until(lambda: rig.rows().get("completed") == 3)
    assert rig.rows() == {"completed": 3, "sealed": 1}


def test_a_pause_that_the_server_asks_for_is_kept(rigging: Rigging) -> None:
    """`Retry-After` is honoured, even by who is in a hurry."""
    rig = rigging(max_backoff=30)
    answers: list[Answer] = [RateLimitedError("429", status=429, retry_after=0.6)]
    rig.server.answer = lambda texts: answers.pop() if answers else None
    rig.put("tea")
    rig.sender.hurry(1)
    rig.until(done(rig, 1))
    (first, *_), (second, *_) = rig.server.submitted
    assert second - first >= 0.58


def test_a_key_that_is_not_accepted_rests_long(rigging: Rigging) -> None:
    """It is tried again after the longest rest only, also by who is in a hurry, and the outage is told."""
    rig = rigging(max_backoff=30)
    rig.server.answer = lambda texts: ForbiddenError("401", status=401)
    rig.put("tea")
    rig.until(lambda: rig.of(OutageStarted))
    rig.sender.hurry(1)
    rig.sender.wait(0.1)
    state = rig.route()
    assert (state.refused, state.rest_until - time.time() > 25, len(rig.server.tries)) == (1, True, 1)


def refusal(*places: int) -> RefusedError:
    detail = [{"loc": ["body", "items", place, "content"], "msg": "bad"} for place in places]
    return RefusedError("422", status=422, detail=json.dumps(detail))


def test_a_refusal_that_names_a_row_kills_that_row_only(rig: Rig) -> None:
    """The rest is sealed anew and sent."""
    rig.server.answer = lambda texts: refusal(texts.index("bad")) if "bad" in texts else None
    _, bad, _ = rig.put("one", "bad", "two")
    rig.until(lambda: rig.rows() == {"completed": 2, "dead": 1})
    assert rig.server.tries == [["one", "bad", "two"], ["one", "two"]]
    assert [event.rows for event in rig.of(DeadLettered)] == [(bad.id,)]


def test_a_refusal_that_names_none_is_narrowed_down(rig: Rig) -> None:
    """The batch is halved until the bad row is alone."""
    rig.server.answer = lambda texts: refusal() if "bad" in texts else None
    rig.put("1", "2", "3", "4", "5", "bad", "7", "8")
    rig.until(lambda: rig.rows() == {"completed": 7, "dead": 1})
    assert sorted(map(len, rig.server.tries)) == [1, 1, 2, 2, 4, 4, 8]


def test_appends_that_are_sent_as_one_are_narrowed_down(rig: Rig) -> None:
    """A place that the server names says nothing of which one; the good ones arrive in their order."""
    rig.server.answer = lambda texts: refusal(0) if "bad" in texts[0] else None
    rig.put("1", "2", "bad", "4", document="chat", append=True)
    rig.until(lambda: rig.rows() == {"completed": 3, "dead": 1})
    assert "\n".join(texts[0] for texts in rig.server.taken.values()) == "1\n2\n4"


def test_an_operation_that_fails_is_tried_again_and_then_row_by_row(rig: Rig) -> None:
    """Three times on the server, then in single rows: the poison is dead, the others completed."""
    rig.server.state = lambda texts: "failed" if "bad" in texts else "completed"
    _, bad, _ = rig.put("one", "bad", "two")

    def over() -> bool:
        rig.later()
        return rig.rows() == {"completed": 2, "dead": 1}

    rig.until(over)
    first = rig.server.submitted[0][1]
    assert rig.server.retries.count(first) == 3
    assert sorted(rig.server.tries[1:]) == [["bad"], ["one"], ["two"]]
    rig.until(lambda: [event.rows for event in rig.of(DeadLettered)] == [(bad.id,)])


def test_a_lost_operation_of_an_append_is_not_repeated_where_it_had_effect(rig: Rig) -> None:
    """The server holds the text: sending it again would double it."""
    rig.server.state = lambda texts: "not_found"
    rig.server.held = lambda text: text == "hello"
    rig.put("hello", document="chat", append=True)
    rig.until(done(rig, 1))
    assert rig.server.tries == [["hello"]]


def test_a_lost_operation_without_effect_is_sent_again_as_it_was(rig: Rig) -> None:
    """The same batch under the same id."""
    lost = ["not_found"]
    rig.server.state = lambda texts: lost.pop() if lost else "completed"  # type: ignore[return-value]
    rig.put("hello", document="chat", append=True)
    rig.until(done(rig, 1))
    assert rig.server.tries == [["hello"], ["hello"]]
    assert len(rig.server.taken) == 1


def test_failures_do_not_count_as_losses(rig: Rig) -> None:
    """An operation that failed three times and is then forgotten by the server is sent again, not taken for done."""
    states: list[OperationState] = ["not_found", "failed", "failed", "failed"]
    rig.server.state = lambda texts: states.pop() if states else "completed"

    def over() -> bool:
        rig.later()
        return rig.rows() == {"completed": 1}

    rig.put("tea")
    rig.until(over)
    assert rig.server.tries == [["tea"], ["tea"]]


def test_rows_wait_for_company(rigging: Rigging) -> None:
    """Writes that come within the time go as one batch."""
    rig = rigging(batch_seconds=0.5)
    for text in ("one", "two", "three"):
        rig.put(text)
        rig.sender.wait(0.02)
    rig.until(done(rig, 3))
    assert rig.server.tries == [["one", "two", "three"]]


def test_a_full_batch_waits_no_longer(rigging: Rigging) -> None:
    """Sixteen rows go at once."""
    rig = rigging(batch_seconds=60)
    rig.put(*[str(n) for n in range(16)])
    rig.until(lambda: rig.server.tries)
    assert len(rig.server.tries[0]) == 16


def test_several_full_batches_go_at_once(rigging: Rigging) -> None:
    """A backlog is not drained one batch per wait."""
    rig = rigging(batch_seconds=60)
    rig.put(*[str(n) for n in range(48)])
    rig.until(lambda: len(rig.server.tries) == 3, 5)


def test_who_hurries_waits_for_no_company(rigging: Rigging) -> None:
    """`hurry` sends at once what would wait for a minute, and asks at short intervals."""
    rig = rigging(batch_seconds=60)
    rig.put("tea")
    rig.sender.hurry(1)
    rig.until(done(rig, 1), 3)


def test_who_hurries_ends_a_long_rest(rigging: Rigging) -> None:
    """A rest of minutes after failures is cut short while somebody waits."""
    rig = rigging(max_backoff=300)
    rig.server.answer = lambda texts: down()
    rig.put("tea")
    rig.until(lambda: rig.server.tries)
    rig.ledger.write(lambda c: c.execute(update(routes).values(rest_until=time.time() + 250, failures=12)))
    rig.server.answer = lambda texts: None
    rig.sender.hurry(1)
    rig.until(done(rig, 1), 3)


def test_a_write_while_the_ledger_is_looked_at_is_not_slept_over(rigging: Rigging) -> None:
    """Whenever it comes, it is sent after its wait for company, not after the sender's longest sleep."""
    rig = rigging(batch_seconds=0.02)
    for n in range(100):
        rig.put(str(n))
        rig.until(lambda: [str(n)] in rig.server.tries, 3)  # noqa: B023


def test_an_idle_sender_sleeps(rig: Rig) -> None:
    """With nothing to do, the ledger is not read."""
    rig.put("tea")
    rig.until(done(rig, 1))
    rig.until(lambda: asleep(rig))
    before = rig.counting.uses
    for _ in range(5):
        rig.sender.wait(0.1)
    assert rig.counting.uses - before == 0


def test_a_resting_sender_sleeps(rigging: Rigging) -> None:
    """While the server is spared, neither it nor the ledger is asked."""
    rig = rigging(max_backoff=30)
    rig.server.answer = lambda texts: RateLimitedError("429", status=429, retry_after=20.0)
    rig.put("tea")
    rig.until(lambda: asleep(rig))
    before = rig.counting.uses
    for _ in range(5):
        rig.sender.wait(0.1)
    assert (rig.counting.uses - before, len(rig.server.tries)) == (0, 1)


def test_a_long_operation_is_asked_after_ever_more_rarely(rig: Rig) -> None:
    """Within a second it is asked after a few times, not hundreds."""
    rig.server.state = lambda texts: "processing"
    rig.put("tea")
    rig.until(lambda: len(rig.server.asked) >= 3)
    first, second, third = rig.server.asked[:3]
    assert third - second > second - first > 0.1
    assert len(rig.server.asked) <= 4


def test_a_resting_server_is_not_asked_after_operations_either(rigging: Rigging) -> None:
    """Right after a failure there is no other call."""
    rig = rigging(max_backoff=30)
    rig.server.state = lambda texts: "processing"
    rig.put("tea")
    rig.until(lambda: rig.server.asked)
    rig.server.answer = lambda texts: RateLimitedError("429", status=429, retry_after=20.0)
    rig.put("milk")
    rig.until(lambda: rig.of(OutageStarted))
    asked = len(rig.server.asked)
    for _ in range(4):
        rig.sender.wait(0.1)
    assert rig.server.asked[asked:] == []


def test_rows_of_an_old_key_are_sent_with_this_one(rig: Rig) -> None:
    """Once the server was asked whether it accepts this key; it is told how many there were."""
    rig.put("tea", route=Route(ROUTE.url, "old"))
    rig.ledger.write(lambda c: c.execute(update(outbox).values(since=time.time() - 120)))
    rig.sender.reset()
    rig.sender.wake()
    rig.until(done(rig, 1))
    assert rig.of(KeyTakenOver) == [KeyTakenOver("alice", 1)]
    assert rig.server.probes >= 1


def test_stopping_is_bounded_while_the_server_hangs(rig: Rig) -> None:
    """A call that does not come back holds nobody up, and no lease; when it does, its answer is still settled."""
    go, hanging = threading.Event(), threading.Event()

    def hang(texts: list[str]) -> Answer:
        hanging.set()
        go.wait(10)
        return None

    rig.server.answer = hang
    rig.put("tea")
    assert hanging.wait(5)
    began = time.monotonic()
    rig.sender.stop(0.2)
    assert time.monotonic() - began < 1
    assert rig.ledger.read(lambda c: c.scalar(select(batches.c.owner))) is None
    go.set()
    rig.until(lambda: rig.rows() == {"accepted": 1})


def test_nobody_waits_for_a_sender_that_has_stopped(rig: Rig) -> None:
    """`wait` tells that there is nothing to wait for."""
    rig.put("tea")
    rig.sender.stop(5.0)
    assert rig.sender.wait(5.0) is False
