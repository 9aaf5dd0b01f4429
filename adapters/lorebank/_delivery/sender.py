"""The sender: one background thread for each open server, which claims, sends, asks after operations, and settles.

Nothing it knows is kept in memory: killed between any two lines, the next sender finds everything in the ledger. A claim is
never held by an open transaction; the network is asked between two short ones.
"""

from __future__ import annotations

import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from lorebank._delivery.owner import is_gone, own_name
from lorebank._domain.events import DeadLettered, Event, KeyTakenOver, OutageEnded, OutageStarted
from lorebank._domain.operations import Operation
from lorebank._domain.settings import OutboxSettings
from lorebank._hindsight.faults import rejected_items
from lorebank._hindsight.wire import envelope
from lorebank._ledger import settling
from lorebank._ledger.claims import Terms, claim_asking, claim_sending, next_due
from lorebank._ledger.ledger import Ledger, expire, foreign, free_leases, release_old, route_state, take_over
from lorebank._ledger.values import Bounds, Claim, Moment, Outage, Route, Trouble
from lorebank.errors import DeadlineError, ForbiddenError, GarbledError, LorebankError, RefusedError, UnavailableError

logger = logging.getLogger("lorebank")
LONGEST_SLEEP = 30.0
"""Seconds after which the ledger is looked at again though nothing is due: another process may have left something."""
URGENT_REST = 0.5
"""Seconds a route rests at most while somebody waits for the outbox to drain."""
CHORES = 60.0
IDLE = 300.0
"""Seconds after which what is held for its cadence is let go, though its session has not ended."""


class Server(Protocol):
    """What the sender asks of a server."""

    def prepare(self, bank: str) -> None: ...
    def submit(self, bank: str, body: bytes) -> str: ...
    def progress(self, bank: str, operation_id: str) -> Operation: ...
    def retry(self, bank: str, operation_id: str) -> None: ...
    def holds(self, bank: str, document_id: str, text: str) -> bool: ...
    def revive(self, bank: str, documents: Sequence[str], before: datetime) -> None: ...
    def probe(self) -> None: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class _Signals:
    """How the sender's thread is talked to."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    woken: bool = False
    stopped: bool = False
    urgent: int = 0
    cycles: int = 0
    fresh: int = 0
    planned: float = 0.0
    resting: bool = False


class Sender:
    """Delivers one route's rows. Its thread starts with the first `wake`, and anew in a forked child."""

    def __init__(
        self,
        ledger: Ledger,
        server: Server,
        route: Route,
        settings: OutboxSettings,
        *,
        deadline: float,
        tell: Callable[[Event], None],
    ) -> None:
        self._ledger, self._server, self._route, self._tell = ledger, server, route, tell
        self._longest = settings.max_backoff
        self._lease = max(settings.lease_seconds, deadline + 5)
        self._settings = settings
        self.bounds = Bounds(settings.max_rows, settings.max_bytes, settings.max_age_days * 86_400)
        self.reset()

    def reset(self) -> None:
        """Begins anew, as in a forked child: the parent's thread did not come along."""
        settings = self._settings
        self._signals = _Signals()
        self._thread: threading.Thread | None = None
        self._unreadable: list[str] = []
        self._chores_at, self._asks_first = 0.0, True
        self._born = time.time()
        self.owner = own_name()
        longest = max(self._longest, settling.LONGEST_WAIT)
        self.terms = Terms(
            self.owner, settings.batch_rows, settings.batch_seconds, self._lease, longest, envelope, self._unreadable.extend
        )

    @property
    def started(self) -> bool:
        """Whether its thread has been started in this process."""
        return self._thread is not None

    def wake(self) -> None:
        """Tells that there is something to do."""
        signals = self._signals
        with signals.changed:
            if signals.stopped:
                return
            signals.woken = True
            signals.changed.notify_all()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, args=(signals,), name="lorebank-sender", daemon=True)
                self._thread.start()

    def attend(self) -> None:
        """Tells of rows that are held: there must be somebody who lets them go once their session is idle."""
        if self._thread is None:
            self.wake()

    def nudge(self, rows: int) -> None:
        """Tells of new rows. While they would only wait, for company or for the server, the sender is let sleep: it competes
        with writers.
        """
        signals = self._signals
        signals.fresh += rows
        full = signals.fresh >= self._settings.batch_rows and not signals.resting
        soon = signals.planned <= time.monotonic() + self._settings.batch_seconds or signals.resting
        if self._thread is None or signals.urgent or full or not soon:
            self.wake()

    def wait(self, seconds: float) -> bool:
        """Waits until the sender has done something, `seconds` at most; gives whether it may still do more."""
        signals = self._signals
        with signals.changed:
            before = signals.cycles
            signals.changed.wait_for(lambda: signals.cycles != before or signals.stopped, seconds)
            return not signals.stopped

    def hurry(self, more: int) -> None:
        """While somebody hurries it (+1, later -1), the sender waits for no company and rests only shortly."""
        with self._signals.changed:
            self._signals.urgent += more
        self.wake()

    def drain(self, count: Callable[[], int], until: float) -> int:
        """Hurries until there is nothing left to count, or until a moment; gives what is left."""
        waiting = count()
        if waiting:
            self.hurry(1)
            try:
                while waiting and (rest := until - time.monotonic()) > 0 and self.wait(min(rest, 1.0)):
                    waiting = count()
            finally:
                self.hurry(-1)
        return waiting

    def stop(self, wait: float) -> None:
        """Ends the thread. What it does at this moment is settled by it when the answer comes; where that takes longer, the
        next sender need not wait for its lease: a batch that is sent twice has one effect.
        """
        signals, thread = self._signals, self._thread
        with signals.changed:
            signals.stopped = True
            signals.changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait)
            if thread.is_alive():
                with suppress(LorebankError):
                    self._ledger.write(lambda c: free_leases(c, self.owner.__eq__))

    def _run(self, signals: _Signals) -> None:
        while not signals.stopped:
            with signals.changed:
                signals.woken, signals.planned, signals.resting = False, math.inf, False  # unknown: who writes meanwhile, wakes
            busy, pause = self._cycle(signals)
            with signals.changed:
                signals.cycles += 1
                signals.changed.notify_all()
                signals.planned = time.monotonic() + pause
                if not busy:
                    signals.changed.wait_for(lambda: signals.woken or signals.stopped, pause)
        self._ledger.close()
        self._server.close()  # what was on its way when the bank was closed may have opened a connection

    def _cycle(self, signals: _Signals) -> tuple[bool, float]:
        """Does at most one thing of each kind; gives whether it did any, and how long there is nothing to do."""
        urgent, full = signals.urgent > 0, signals.fresh >= self._settings.batch_rows
        signals.fresh = signals.fresh - self._settings.batch_rows if full else 0
        try:
            self._chores()
            rest = self._resting(urgent=urgent)
            signals.resting = rest > 0
            if signals.resting:
                return False, rest
            if not urgent and not full and (idle := self._idle()) > 0:
                return False, idle
            busy = self._turn(urgent=urgent)
            idle = min(self._idle(), URGENT_REST) if urgent else self._idle()  # another process may end, or settle, its part
            return busy, max(idle, 0.01)
        except LorebankError as error:
            logger.warning("the outbox can't be worked on: %s", type(error).__name__)
        except Exception:  # the thread must not end for good: rows would wait unseen
            logger.exception("the outbox can't be worked on")
        return False, URGENT_REST if urgent else LONGEST_SLEEP / 6

    def _turn(self, *, urgent: bool) -> bool:
        """Sends and asks, in turns one and then the other first: what fails first lets the server rest, and neither kind may
        keep the other from ever being done.
        """
        self._asks_first = not self._asks_first
        first, second = (self._ask, self._send) if self._asks_first else (self._send, self._ask)
        busy = first(urgent=urgent)
        return (not self._resting(urgent=urgent) and second(urgent=urgent)) or busy

    def _send(self, *, urgent: bool) -> bool:
        now = time.time()
        self._unreadable.clear()
        claim = self._ledger.write(lambda c: claim_sending(c, self._route, self.terms, now, urgent=urgent))
        if self._unreadable:
            self._tell(DeadLettered("", tuple(self._unreadable), "the rows can't be read"))
        if claim is None:
            return False
        try:
            self._server.prepare(claim.bank)
            self._server.submit(claim.bank, claim.body)
        except LorebankError as error:
            self._unsent(claim, error, urgent=urgent)
        else:
            self._change(claim, self._ledger.write(lambda c: settling.accepted(c, claim, self._route, time.time())))
        return True

    def _unsent(self, claim: Claim, error: LorebankError, *, urgent: bool) -> None:
        """What an error means for the batch: never, or not now."""
        reason = _words(error)
        if isinstance(error, RefusedError) and not isinstance(error, ForbiddenError):
            bad = rejected_items(error)
            self._dead(claim, self._ledger.write(lambda c: settling.refused(c, claim, bad, reason, time.time())), reason)
            self._change(claim, self._ledger.write(lambda c: settling.answered(c, self._route, time.time())))
        else:
            self._trouble(claim, error, urgent=urgent)

    def _trouble(self, claim: Claim, error: LorebankError, *, urgent: bool) -> None:
        broken = isinstance(error, UnavailableError) and (error.status or 0) >= 500
        suspect = broken or isinstance(error, (GarbledError, DeadlineError))
        trouble = Trouble(_words(error), error.retry_after, isinstance(error, ForbiddenError), suspect, broken)
        longest = min(URGENT_REST, self._longest) if urgent and not trouble.refused and trouble.asked is None else self._longest
        moment = Moment(time.time(), longest, random.random())  # noqa: S311 - jitter
        change, dead = self._ledger.write(lambda c: settling.troubled(c, claim, self._route, trouble, moment))
        if change.began:
            logger.warning("the memory server does not take writes (%s): they wait in the outbox", type(error).__name__)
            self._tell(OutageStarted(claim.bank, trouble.reason))
        self._dead(claim, dead, trouble.reason)

    def _ask(self, *, urgent: bool) -> bool:
        now = time.time()
        claim = self._ledger.write(lambda c: claim_asking(c, self._route, self.terms, now, urgent=urgent))
        if claim is None:
            return False
        try:
            if claim.state == "failed":
                self._again(claim)
            else:
                self._asked(claim, self._server.progress(claim.bank, claim.id), urgent=urgent)
        except LorebankError as error:
            self._trouble(claim, error, urgent=urgent)
        return True

    def _again(self, claim: Claim) -> None:
        """Asks the server to try a failed operation again. Where it sees nothing to try, its state is asked for once more."""
        try:
            self._server.retry(claim.bank, claim.id)
        except ForbiddenError:
            raise
        except RefusedError:
            logger.info("operation %s is not tried again by the server", claim.id)
        self._ledger.write(lambda c: settling.retried(c, claim, time.time()))

    def _asked(self, claim: Claim, operation: Operation, *, urgent: bool) -> None:
        now = time.time()
        longest = URGENT_REST if urgent else settling.LONGEST_POLL
        if operation.running:
            self._ledger.write(lambda c: settling.running(c, claim, now, longest))
        elif operation.state == "completed" or (operation.state == "not_found" and self._took_effect(claim)):
            if operation.created_at is not None:
                self._server.revive(claim.bank, [item["document_id"] for item in _items(claim)], operation.created_at)
            counts = operation.items, operation.tokens
            self._ledger.write(lambda c: settling.completed(c, claim, self._route, now, counts))
        elif operation.state == "not_found":
            self._ledger.write(lambda c: settling.lost(c, claim, now))
        else:
            reason = operation.reason or f"the server's operation was {operation.state}"
            self._dead(claim, self._ledger.write(lambda c: settling.failed(c, claim, reason, now)), reason)
        self._change(claim, self._ledger.write(lambda c: settling.answered(c, self._route, now)))

    def _took_effect(self, claim: Claim) -> bool:
        """Whether a batch whose operation the server no longer knows was carried out: sending an append again would double
        it. What was sent several times is taken for done.
        """
        if claim.losses >= settling.SERVER_RETRIES:
            return True
        appends = [item for item in _items(claim) if item.get("update_mode") == "append"]
        return bool(appends) and all(self._server.holds(claim.bank, i["document_id"], i["content"]) for i in appends)

    def _change(self, claim: Claim, change: Outage) -> None:
        if change.ended:
            logger.warning("the memory server answers again after %.0f s", change.seconds)
            self._tell(OutageEnded(claim.bank, change.seconds, change.failures))

    def _dead(self, claim: Claim, rows: Sequence[str], reason: str) -> None:
        if rows:
            logger.warning("%d writes were given up; they stay in the outbox", len(rows))
            self._tell(DeadLettered(claim.bank, tuple(rows), reason))

    def _resting(self, *, urgent: bool) -> float:
        """Seconds for which the server is to be left alone; it is asked for nothing meanwhile."""
        state = self._ledger.read(lambda c: route_state(c, self._route))
        if state is None or not state.failures:
            return 0.0
        rest = state.rest_until - time.time()
        if rest > self._longest:
            return 0.0  # the clock was set back
        shortened = urgent and not state.asked and not state.refused and rest > URGENT_REST
        return 0.0 if shortened else max(rest, 0.0)  # who hurries tries at once, and then at short intervals

    def _idle(self) -> float:
        """Seconds until something is due; none when it is."""
        due = self._ledger.read(lambda c: next_due(c, self._route, self.terms, time.time()))
        return LONGEST_SLEEP if due is None else min(due, LONGEST_SLEEP)

    def _chores(self) -> None:
        """Once a minute: claims of the dead, rows of an old key, rows that have waited for too long."""
        now = time.monotonic()
        if self._chores_at and now < self._chores_at:
            return
        self._chores_at = now + CHORES
        wall = time.time()
        self._ledger.write(lambda c: free_leases(c, is_gone))
        self._ledger.write(lambda c: release_old(c, self._route, max(self._born, wall - IDLE)))
        for bank, row in self._ledger.write(lambda c: expire(c, self._route, self.bounds, wall)):
            self._tell(DeadLettered(bank, (row,), "it waited for too long"))
        older = wall - self._settings.lease_seconds
        if self._ledger.read(lambda c: foreign(c, self._route, older)):
            self._take_over(older)

    def _take_over(self, older: float) -> None:
        """Rows of another key are this key's once the server has accepted this one."""
        try:
            self._server.probe()
        except LorebankError:
            return
        for bank, count in self._ledger.write(lambda c: take_over(c, self._route, older)):
            self._tell(KeyTakenOver(bank, count))


def _items(claim: Claim) -> list[dict[str, Any]]:
    """What a batch sends."""
    items: list[dict[str, Any]] = json.loads(claim.body)["items"]
    return items


def _words(error: LorebankError) -> str:
    """An error in a few words: never more than what the server said."""
    return str(error)[:500]
