"""The step before a model that puts a run's memories in front of its messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue, StringPromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable

from langchain_lorebank.callbacks import MemoryCallbackHandler
from langchain_lorebank.injecting import injected
from lorebank import Injection, Session
from lorebank.seams import ahead_of

logger = logging.getLogger("lorebank")
KEY = "lorebank"
"""Where a graph's state holds what `recall_node` gave."""


class MemoryPrefix(RunnableSerializable[Any, Any]):
    """Puts the run's memories into what a model is about to see. It makes no run of its own: streams of events show the chain's
    steps only. With `text` a plain text stays one.
    """

    text: bool = False
    name: str | None = "memory_prefix"

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """The messages, with what belongs in front of them."""
        try:
            messages, own = _read(input)
            given = [own] if own is not None else _once([h.recalled(run, messages) for h, run in _observers(config)])
            return self._rendered(input, messages, given)
        except Exception as error:  # noqa: BLE001 - the model is called whatever happens here
            return _unchanged(input, error)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Awaitable form of `invoke`."""
        try:
            messages, own = _read(input)
            given = [own] if own is not None else _once([await h.arecalled(run, messages) for h, run in _observers(config)])
            return self._rendered(input, messages, given)
        except Exception as error:  # noqa: BLE001 - the model is called whatever happens here
            return _unchanged(input, error)

    def _rendered(self, input: Any, messages: list[BaseMessage], given: Sequence[Injection]) -> Any:
        if not any(given):
            return _of_state(input, "messages") if _holds_messages(input) else input
        if self.text and isinstance(input, (str, StringPromptValue)):
            text = input if isinstance(input, str) else input.text
            for injection in given:
                text = ahead_of(injection.system_prefix, ahead_of(injection.memories, text))
            return text
        for injection in given:
            messages = injected(messages, injection)
        return messages


def memory_prefix() -> Runnable[Any, Any]:
    """A step for the place right before a model: it puts the run's memories in front of the messages.

    Usage:
        `chain = prompt | memory_prefix() | model | parser`, run with `config={"callbacks": [MemoryCallbackHandler(bank)]}`;
        `with_memory(prompt | model | parser, bank)` does both.

    It takes what a model takes, or a graph's state (`messages`, and `lorebank` where `recall_node` ran). Without a handler in the
    run, or when memory fails, the messages stay as they are.
    """
    return MemoryPrefix()


def _observers(config: RunnableConfig | None) -> Iterator[tuple[MemoryCallbackHandler, UUID | None]]:
    """The handlers of a run, each with the run that this code is in."""
    manager = (config or {}).get("callbacks")
    for handler in getattr(manager, "handlers", ()):
        if isinstance(handler, MemoryCallbackHandler):
            yield handler, cast("Any", manager).parent_run_id


def _once(given: Sequence[tuple[Session, Injection] | None]) -> list[Injection]:
    """What was recalled, once for each session however many handlers it has."""
    return list({id(each[0]): each[1] for each in given if each is not None}.values())


def _read(given: Any) -> tuple[list[BaseMessage], Injection | None]:
    """The messages of what a model would take or of a graph's state, and what the state has to be put in front."""
    if isinstance(given, PromptValue):
        return given.to_messages(), None
    if isinstance(given, (str, BaseMessage)):
        return [HumanMessage(given) if isinstance(given, str) else given], None
    if not _holds_messages(given):
        return convert_to_messages(given), None
    own = _of_state(given, KEY)
    return convert_to_messages(_of_state(given, "messages")), own if isinstance(own, Injection) else None


def _holds_messages(input: Any) -> bool:
    """Whether this is a graph's state and no prompt."""
    return not isinstance(input, PromptValue) and _of_state(input, "messages") is not None


def _of_state(input: Any, name: str) -> Any:
    return input.get(name) if isinstance(input, Mapping) else getattr(input, name, None)


def _unchanged(input: Any, error: Exception) -> Any:
    logger.warning("a model is called without memory: %s", type(error).__name__)
    logger.debug("memory_prefix failed", exc_info=error)
    return _of_state(input, "messages") if _holds_messages(input) else input
