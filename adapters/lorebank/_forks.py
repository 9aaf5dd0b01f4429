"""What must not be carried into a forked child: connections, locks and threads of the parent.

SQLite keeps its table of file locks in the process's memory: a child that inherits an open file believes in locks that it
does not hold. So no handle crosses a fork: all are closed before it, and opened again on the next use, on both sides.
"""

from __future__ import annotations

import os
import threading
import weakref


class Forkable:
    """Whatever holds something that belongs to one process."""

    def before_fork(self) -> None:
        """Called in the parent, just before."""

    def after_fork_in_parent(self) -> None:
        """Called in the parent, just after."""

    def after_fork(self) -> None:
        """Called in the child, before any other thread of it can run."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()
_lock = threading.Lock()
"""Held while a fork goes on, so that nobody joins in the midst of it."""


def watch_forks(holder: Forkable) -> None:
    """From now on, `holder` hears of every fork."""
    with _lock:
        _known.add(holder)


def _before() -> None:
    _lock.acquire()
    for holder in list(_known):
        holder.before_fork()


def _after_in_parent() -> None:
    _lock.release()
    for holder in list(_known):
        holder.after_fork_in_parent()


def _after_in_child() -> None:
    _lock.release()
    for holder in list(_known):
        holder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
