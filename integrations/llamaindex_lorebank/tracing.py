"""What memory does in a run: its failures stay out of the host, its events get into the host's instrumentation."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent

from lorebank import Session
from lorebank.seams import Alias, Event, heard_by, quiet

dispatcher = get_dispatcher("llamaindex_lorebank")


class MemoryEvent(BaseEvent):
    """What memory did: the name of lorebank's event (`Recalled`, `Retained`, `Skipped`, ...) and what it says. Never content."""

    event: str
    told: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        """Its name in LlamaIndex."""
        return "MemoryEvent"


@contextmanager
def guarded(session: Session | Alias, verb: str) -> Generator[None]:
    """Keeps failures of the code inside from the host, as `quiet`, and dispatches its events where somebody listens."""
    with quiet(session, verb):
        if not (dispatcher.event_handlers or dispatcher.root.event_handlers):
            yield
            return
        with heard_by(_dispatch):
            yield


def _dispatch(event: Event) -> None:
    dispatcher.event(MemoryEvent(event=type(event).__name__, told=asdict(event)))
