"""Work of a host that must not wait: it runs in the bank's own threads, in order, and can be waited for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from lorebank._guarding import missed
from lorebank._session.session import Session
from lorebank.errors import LorebankError

T = TypeVar("T")


class Background:
    """What was started and is not over. No thread waits for another one: what comes later is started by what comes before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: set[Future[Any]] = set()
        self._ends: dict[int, Future[Any]] = {}

    def begin(self, session: Session, body: Callable[[], T]) -> Future[T]:
        """Starts what begins a turn, once the turns of the session that have ended are recorded."""
        with self._lock:
            ended = self._ends.get(id(session))
        return self._started(ended, session, "before_turn", partial(_submitted, session, body, "session"))

    def end(self, begun: Future[Any] | None, session: Session, body: Callable[[], T]) -> Future[T]:
        """Starts what ends a turn, which only writes to the ledger, once what began it is over."""
        future = self._started(begun, session, "after_turn", partial(_submitted, session, body, "local"))
        with self._lock:
            if not future.done():
                self._ends[id(session)] = future
        return future

    def flush(self, timeout: float | None = None) -> bool:
        """Waits for all that was started so far; gives whether it is over."""
        return not wait(self._waiting(), timeout=timeout).not_done

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as `flush`
        """Awaitable form of `flush`."""
        until = None if timeout is None else time.monotonic() + timeout
        waiting = self._waiting()
        for each in waiting:
            await arrival(each, None if until is None else max(until - time.monotonic(), 0.0))
        return all(each.done() for each in waiting)

    def _waiting(self) -> list[Future[Any]]:
        with self._lock:
            return list(self._pending)

    def _started(self, first: Future[Any] | None, session: Session, verb: str, submit: Callable[[], Future[T]]) -> Future[T]:
        """The future of what is started once `first` is over; it is kept until then, and its failure told."""
        future = Future[T]()
        with self._lock:
            self._pending.add(future)
        future.add_done_callback(partial(self._over, session, verb))

        def start(_: Future[Any] | None) -> None:
            try:
                submit().add_done_callback(partial(_passed_on, future))
            except LorebankError as error:  # the bank was closed
                future.set_exception(error)

        if first is None:
            start(None)
        else:
            first.add_done_callback(start)
        return future

    def _over(self, session: Session, verb: str, future: Future[Any]) -> None:
        with self._lock:
            self._pending.discard(future)
            if self._ends.get(id(session)) is future:
                del self._ends[id(session)]
        if (error := future.exception()) is not None:
            missed(session, verb, error)


async def arrival(future: Future[Any], seconds: float | None) -> None:
    """Waits for a future, at most so long; neither the time nor a cancelled task cancels it."""
    if future.done():
        return
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(arrived.set)

    future.add_done_callback(tell)
    with suppress(TimeoutError):
        await asyncio.wait_for(arrived.wait(), seconds)


def _submitted(session: Session, body: Callable[[], T], lane: str) -> Future[T]:
    """Starts a body in the bank's threads; while the interpreter ends there are no new ones, and it runs at once."""
    try:
        return session.threads.submit(body, lane)
    except RuntimeError:
        done: Future[T] = Future()
        try:
            done.set_result(body())
        except LorebankError as error:
            done.set_exception(error)
        return done


def _passed_on(to: Future[Any], done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        to.set_exception(error)
    else:
        to.set_result(done.result())
