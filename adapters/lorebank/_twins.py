"""Async twins: a verb's one body, handed to the bank's own threads.

The core is blocking. `arecall = twin(recall)` makes the awaitable form with the same signature. No event loop is ever
kept: the same bank works in several loops, one after the other or at once. A cancelled await returns at once; its
thread goes on to the end of the verb.

Threads come in lanes, each a pool of its own: what asks a server runs in `remote`, what only touches this machine in
`local`, what waits for the outbox in `flush`, so that a server that hangs keeps neither a write nor a bound waiting. A
session's calls run in `session` and wait for what they ask for in `automatic`.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from lorebank._forks import Forkable, watch_forks

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="HasThreads")

Lane = Literal["remote", "local", "flush", "session", "automatic"]
WORKERS = 16
"""Threads of one lane."""


class Threads(Forkable):
    """A bounded pool for each lane, built on first use, and anew in a forked child. Once closed, bodies run at once, in
    the caller's thread: all they have to say is that their bank is closed.
    """

    def __init__(self, name: str, workers: int = WORKERS) -> None:
        self._name, self._workers = name, workers
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._running: defaultdict[str, set[Future[Any]]] = defaultdict(set)
        self._closed = False
        self._lock = threading.Lock()
        watch_forks(self)

    async def run(self, body: Callable[[], R], lane: str = "remote") -> R:
        """Awaits the body's result from a thread of a lane."""
        return await asyncio.wrap_future(self.submit(body, lane))

    def submit(self, body: Callable[[], R], lane: str = "remote") -> Future[R]:
        """Starts the body in a thread of a lane; it sees the caller's context variables."""
        pool = self._opened(lane)
        if pool is not None:
            future = pool.submit(copy_context().run, body)
            self._running[lane].add(future)
            future.add_done_callback(self._running[lane].discard)
            return future
        done: Future[R] = Future()
        try:
            done.set_result(body())
        except Exception as error:  # noqa: BLE001 - a future hands it to whoever asks for the result
            done.set_exception(error)
        return done

    def settle(self, lanes: Sequence[str], timeout: float) -> None:
        """Waits, `timeout` seconds at most, until what runs in these lanes has ended, and what that has started there."""
        until = time.monotonic() + timeout
        while running := [future for lane in lanes for future in tuple(self._running[lane])]:
            rest = until - time.monotonic()
            if rest <= 0 or wait(running, rest).not_done:
                return

    def close(self) -> None:
        """Lets running bodies end; the pool's threads go with them."""
        with self._lock:
            pools, self._pools, self._closed = self._pools, {}, True
        for pool in pools.values():
            pool.shutdown(wait=False)

    def after_fork(self) -> None:
        """The parent's threads did not come along."""
        self._pools, self._lock = {}, threading.Lock()
        self._running = defaultdict(set)

    def _opened(self, lane: str) -> ThreadPoolExecutor | None:
        with self._lock:
            if lane not in self._pools and not self._closed:
                self._pools[lane] = ThreadPoolExecutor(self._workers, thread_name_prefix=f"{self._name}-{lane}")
            return self._pools.get(lane)


class HasThreads(Protocol):
    """Whatever has verbs with twins."""

    @property
    def threads(self) -> Threads: ...


def twin(verb: Callable[Concatenate[S, P], R], lane: Lane = "remote") -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The awaitable form of a blocking verb, whose body runs in a lane."""

    async def awaited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.threads.run(functools.partial(verb, self, *args, **kwargs), lane)

    functools.update_wrapper(awaited, verb)
    awaited.__name__ = f"a{verb.__name__}"
    awaited.__doc__ = f"Awaitable form of `{verb.__name__}`; the same arguments, result and errors."
    return awaited
