"""Async twins: a verb's one body, handed to the bank's own threads.

The core is blocking. `arecall = twin(recall)` makes the awaitable form with the same signature. No event loop is ever
kept: the same bank works in several loops, one after the other or at once. A cancelled await returns at once; its
thread goes on to the end of the verb.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from lorebank._forks import Forkable, watch_forks

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="HasThreads")

WORKERS = 16


class Threads(Forkable):
    """A bounded pool that is built on first use, and anew in a forked child. Once closed, bodies run at once, in the
    caller's thread: all they have to say is that their bank is closed.
    """

    def __init__(self, name: str, workers: int = WORKERS) -> None:
        self._name, self._workers = name, workers
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self._lock = threading.Lock()
        watch_forks(self)

    async def run(self, body: Callable[[], R]) -> R:
        """Awaits the body's result from a thread, which sees the caller's context variables."""
        pool = self._opened()
        return body() if pool is None else await asyncio.wrap_future(pool.submit(copy_context().run, body))

    def close(self) -> None:
        """Lets running bodies end; the pool's threads go with them."""
        with self._lock:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None:
            pool.shutdown(wait=False)

    def after_fork(self) -> None:
        """The parent's threads did not come along."""
        self._pool, self._lock = None, threading.Lock()

    def _opened(self) -> ThreadPoolExecutor | None:
        with self._lock:
            if self._pool is None and not self._closed:
                self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix=self._name)
            return self._pool


class HasThreads(Protocol):
    """Whatever has verbs with twins."""

    @property
    def threads(self) -> Threads: ...


def twin(verb: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The awaitable form of a blocking verb."""

    async def awaited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.threads.run(functools.partial(verb, self, *args, **kwargs))

    functools.update_wrapper(awaited, verb)
    awaited.__name__ = f"a{verb.__name__}"
    awaited.__doc__ = f"Awaitable form of `{verb.__name__}`; the same arguments, result and errors."
    return awaited
