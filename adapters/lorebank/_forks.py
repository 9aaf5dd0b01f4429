"""What must not be carried into a forked child: connections, locks and threads of the parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Whatever holds something that belongs to one process."""

    def after_fork(self) -> None: ...


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def reset_in_children(holder: Forkable) -> None:
    """From now on, `holder.after_fork()` is called in every child, before any other thread of it can run."""
    _known.add(holder)


def _reset() -> None:
    for holder in list(_known):
        holder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
