"""The sender against scripted servers: what each kind of answer makes of a write, and when it is asked at all.

The tests wait for what they expect, with a bound; where the product would wait for minutes, they set the ledger's times back.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from sqlalchemy import select, update

from lorebank._delivery.sender import Sender
from lorebank._domain.events import DeadLettered, Event, KeyTakenOver, OutageEnded, OutageStarted
from lorebank._domain.operations import Operation, OperationState
from lorebank._domain.settings import OutboxSettings
from lorebank._ledger import inspection
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.schema import batches, outbox, routes
from lorebank._ledger.values import Bounds, Draft, Queued, Route
from lorebank.errors import ForbiddenError, GarbledError, LorebankError, RateLimitedError, RefusedError, UnavailableError

T = TypeVar("T")
ROUTE = Route("http://server", "key")
BOUNDS = Bounds(rows=10_000, bytes=10_000_000, age=1e9)
Answer = LorebankError | None


def down() -> LorebankError:
    return UnavailableError("no answer")


def broken() -> LorebankError:
    return UnavailableError("500", status=500)


class Server:
    """A server that answers as scripted: `answer` decides on each submit, `state` on each operation."""

    def __init__(self) -> None:
        self.answer: Callable[[list[str]], Answer] = lambda texts: None
        self.state: Callable[[list[str]], OperationState] = lambda texts: "completed"
        self.held: Callable[[str], bool] = lambda text: False
        self.probes, self.retries = 0, list[str]()
        self.submitted: list[tuple[float, str, list[str]]] = []
        self.asked: list[float] = []
        self.taken: dict[str, list[str]] = {}

    def prepare(self, bank: str) -> None:
        """Every bank is there."""

    def submit(self, bank: str, body: bytes) -> str:
        sent = json.loads(body)
        texts = [item["content"] for item in sent["items"]]
        self.submitted.append((time.monotonic(), sent["operation_id"], texts))
        if (error := self.answer(texts)) is not None:
            raise error
        self.taken[sent["operation_id"]] = texts
        return str(sent["operation_id"])

    def progress(self, bank: str, operation_id: str) -> Operation:
        self.asked.append(time.monotonic())
        return Operation(operation_id, self.state(self.taken[operation_id]), items=1, tokens=5)

    def retry(self, bank: str, operation_id: str) -> None:
        self.retries.append(operation_id)

    def holds(self, bank: str, document_id: str, text: str) -> bool:
        return self.held(text)

    def probe(self) -> None:
        self.probes += 1

    @property
    def tries(self) -> list[list[str]]:
        return [texts for *_, texts in self.submitted]


class Counting:
    """A ledger that counts how often it is asked."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self.uses = ledger, 0

    def read(self, body: Callable[[Any], T]) -> T:
        self.uses += 1
        return self._ledger.read(body)

    def write(self, body: Callable[[Any], T]) -> T:
        self.uses += 1
        return self._ledger.write(body)

    def close(self) -> None:
        self._ledger.close()


class Rig:
    """A ledger, a server, and a sender between them."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.ledger, self.server, self.events = Ledger(url, moved=print, synchronous="off"), Server(), list[Event]()
        self.counting = Counting(self.ledger)
        given = OutboxSettings(**{"batch_seconds": 0.05, "max_backoff": 0.1, **settings})
        self.sender = Sender(self.counting, self.server, ROUTE, given, deadline=1.0, tell=self.events.append)  # type: ignore[arg-type]

    def put(self, *texts: str, document: str | None = None, append: bool = False, route: Route = ROUTE) -> list[Queued]:
        drafts = []
        for text in texts:
            name = document or f"lorebank:item:{text}"
            body = {"content": text, "document_id": name, "update_mode": "append" if append else "replace"}
            drafts.append(
                Draft("alice", name, json.dumps(body), text, document is not None, "f" if append else None, None, not append)
            )
        queued = self.ledger.enqueue(route, drafts, BOUNDS, time.time())
        self.sender.nudge(len(queued))
        return queued

    def rows(self) -> dict[str, int]:
        return dict(self.ledger.read(lambda c: inspection.status(c, ROUTE, None)).rows)

    def route(self) -> Any:
        return self.ledger.read(lambda c: c.execute(select(routes)).one_or_none())

    def until(self, true: Callable[[], object], seconds: float = 10.0) -> None:
        """Waits until something is so; what is due later is made due now by `later`, not by waiting."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, (self.rows(), self.server.tries, self.events)
            self.sender.wait(0.02)

    def later(self) -> None:
        """As if the waits between two tries of an operation were over."""
        self.ledger.write(lambda c: c.execute(update(batches).where(batches.c.due > time.time()).values(due=0.0)))
        self.sender.wake()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


Rigging = Callable[..., Rig]


@pytest.fixture
def rigging(url: str) -> Iterator[Rigging]:
    made: list[Rig] = []

    def one(**settings: Any) -> Rig:
        made.append(Rig(url, **settings))
        return made[-1]

    yield one
    for each in made:
        each.sender.stop(5.0)
        each.ledger.close()


@pytest.fixture
def rig(rigging: Rigging) -> Rig:
    return rigging()


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
    assert [event.rows for event in rig.of(DeadLettered)] == [(bad.id,)]


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


def test_a_resting_server_is_not_asked_after_operations_either(rig: Rig) -> None:
    """Right after a failure there is no other call."""
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
    assert (rig.of(KeyTakenOver), rig.server.probes) == ([KeyTakenOver("alice", 1)], 1)


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


FORKED = """
import json, os, sys, time
from lorebank._delivery.sender import Sender
from lorebank._domain.operations import Operation
from lorebank._domain.settings import OutboxSettings
from lorebank._forks import Forkable, watch_forks
from lorebank._ledger import inspection
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.values import Bounds, Draft, Route

class Server:
    def prepare(self, bank): pass
    def submit(self, bank, body): return "x"
    def progress(self, bank, operation): return Operation(operation, "completed")

class Again(Forkable):
    def after_fork(self): sender.reset()

route, ledger, again = Route("http://server"), Ledger(sys.argv[1], moved=print), Again()
sender = Sender(ledger, Server(), route, OutboxSettings(batch_seconds=0.02), deadline=1.0, tell=print)
watch_forks(again)

def deliver(name, count):
    body = json.dumps({"content": name, "document_id": name})
    ledger.enqueue(route, [Draft("b", name, body, name)], Bounds(99, 99999, 1e6), time.time())
    sender.nudge(1)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if ledger.read(lambda c: inspection.status(c, route, None)).rows.get("completed", 0) >= count:
            return 0
        sender.wait(0.05)
    return 1

assert deliver("parent", 1) == 0
if (child := os.fork()) == 0:
    os._exit(deliver("child", 2))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, deliver("parent again", 3))
sender.stop(2)
ledger.close()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_forked_child_delivers_by_itself(url: str) -> None:
    """Both sides of a fork go on, each with a thread of its own."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, url]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (finished.stdout.strip(), finished.stderr) == ("0 0", "")
