"""Async twins: a verb's one body, handed to the bank's own threads.

The core is blocking. `arecall = twin(recall)` makes the awaitable form with the same signature. No event loop is ever
kept: the same bank works in several loops, one after the other or at once. A cancelled await returns at once; its
thread goes on to the end of the verb.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="HasThreads")

WORKERS = 16


class Threads:
    """A bounded pool that is built on first use and again after a fork."""

    def __init__(self, name: str, workers: int = WORKERS) -> None:
        self._name, self._workers = name, workers
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0
        self._lock = threading.Lock()

    async def run(self, body: Callable[[], R]) -> R:
        """Awaits the body's result from a thread, which sees the caller's context variables."""
        return await asyncio.wrap_future(self._opened().submit(copy_context().run, body))

    def close(self) -> None:
        """Lets running bodies end; the pool's threads go with them."""
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.shutdown(wait=False)

    def _opened(self) -> ThreadPoolExecutor:
        if self._pid != os.getpid():  # forked: the parent's threads and lock did not come along
            self._pool, self._lock, self._pid = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._pool is None:
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
