"""What memory does in a run, in the run's own trace: custom events with ids and counts, never content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.runnables import RunnableConfig

from lorebank.seams import Event, heard_by


@contextmanager
def traced(config: RunnableConfig | None) -> Iterator[None]:
    """Dispatches the events of the code inside to the callbacks of the run: `lorebank.Recalled`, `lorebank.Retained`, ..."""
    if config is None or not getattr(config.get("callbacks"), "handlers", ()):
        yield
        return
    with heard_by(partial(_dispatch, config)):
        yield


def _dispatch(config: RunnableConfig, event: Event) -> None:
    dispatch_custom_event(f"lorebank.{type(event).__name__}", asdict(event), config=config)
