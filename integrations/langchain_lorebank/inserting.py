"""Where the models of a chain are, and the same chain with something before each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getclosurevars
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import (
    RouterRunnable,
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase, RunnableEachBase, coerce_to_runnable
from langchain_core.runnables.configurable import RunnableConfigurableAlternatives, RunnableConfigurableFields
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.runnables.passthrough import RunnableAssign

from langchain_lorebank.prefix import MemoryPrefix
from lorebank import UsageError

Before = Callable[[Runnable[Any, Any]], Runnable[Any, Any]]
PARTS: tuple[tuple[type[Any], tuple[str, ...]], ...] = (
    (RunnableBindingBase, ("bound",)),
    (RunnableEachBase, ("bound",)),
    (RunnableParallel, ("steps__",)),
    (RunnableAssign, ("mapper",)),
    (RunnableBranch, ("branches", "default")),
    (RunnableWithFallbacks, ("runnable", "fallbacks")),
    (RouterRunnable, ("runnables",)),
    (RunnableConfigurableAlternatives, ("default", "alternatives")),
)
"""Which fields of LangChain's own runnables hold runnables."""


def inserted(runnable: Any, before: Before) -> Runnable[Any, Any]:
    """The chain with `before(model)` in the place of each model, the given one as it is; `UsageError` where there is none."""
    if not isinstance(runnable, (Runnable, Mapping)):
        raise UsageError(f"`with_memory` takes a chain or a model; found {type(runnable).__name__}")
    insertion = _Insertion(before)
    changed = insertion.into(coerce_to_runnable(runnable))
    if not insertion.models:
        raise UsageError(
            f"`with_memory` finds no model in this {type(runnable).__name__}: it looks into chains, branches and bindings, not "
            "into functions. Put `memory_prefix()` before the model, and pass a `MemoryCallbackHandler` as a callback; chains of "
            "langchain_classic take `memory=BankMemory(bank)`"
        )
    return changed


class _Insertion:
    """One walk through a chain; `models` counts those that it finds."""

    def __init__(self, before: Before) -> None:
        self._before, self.models = before, 0

    def into(self, step: Runnable[Any, Any]) -> Runnable[Any, Any]:
        """The step with the prefix before its models."""
        if isinstance(step, RunnableSequence):
            return self._sequence(step)
        if _is_model(step):
            self.models += 1
            return self._before(step)
        if isinstance(step, RunnableWithMessageHistory):
            return self._history(step)
        names = next((names for kind, names in PARTS if isinstance(step, kind)), ())
        changed = {name: self._value(getattr(step, name)) for name in names}
        return step.model_copy(update=changed) if changed else step  # type: ignore[attr-defined]

    def _value(self, value: Any) -> Any:
        """A field's value: a runnable, or some of them."""
        if isinstance(value, Runnable):
            return self.into(value)
        if isinstance(value, Mapping):
            return {name: self._value(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._value(each) for each in value)
        return value

    def _sequence(self, sequence: RunnableSequence[Any, Any]) -> Runnable[Any, Any]:
        """A sequence, step by step; a model that has the prefix is left alone."""
        steps = sequence.steps
        for place, step in enumerate(sequence.steps):
            if place and isinstance(sequence.steps[place - 1], MemoryPrefix):
                self.models += 1
            else:
                steps[place] = self.into(step)
        return sequence.model_copy(update={"first": steps[0], "middle": steps[1:-1], "last": steps[-1]})

    def _history(self, step: RunnableWithMessageHistory) -> Runnable[Any, Any]:
        """A chain whose history is stored: the chain stands in a function of its last step."""
        inner: Any = step.bound
        while isinstance(inner, RunnableBindingBase):
            inner = inner.bound
        last = inner.last
        call: Any = last.bound if isinstance(last, RunnableBindingBase) else last
        try:
            chains = [_held(function) for function in (call.func, call.afunc)]
        except (AttributeError, ValueError) as error:
            raise UsageError(
                "`with_memory` can't see into this RunnableWithMessageHistory: put it inside, "
                "`RunnableWithMessageHistory(with_memory(chain, bank), ...)`"
            ) from error
        plain, awaited = (self.into(chain) for chain in chains)
        changed: Any = RunnableLambda(_giving(plain), _agiving(awaited)).with_config(run_name="check_sync_or_async")
        return step.model_copy(update={"bound": inner.model_copy(update={"last": changed})})


def _is_model(step: Runnable[Any, Any]) -> bool:
    """Whether it is a model, or something that stands for one: `init_chat_model` and the like."""
    if isinstance(step, RunnableConfigurableFields):
        return _is_model(step.default)
    if isinstance(step, (RunnableBindingBase, RunnableSequence)):
        return False
    return isinstance(step, BaseLanguageModel) or hasattr(type(step), "bind_tools")


def _held(function: Any) -> Runnable[Any, Any]:
    """The one runnable that a function holds on to."""
    [found] = [each for each in getclosurevars(function).nonlocals.values() if isinstance(each, Runnable)]
    return found


def _giving(chain: Runnable[Any, Any]) -> Callable[[Any], Any]:
    return lambda _: chain


def _agiving(chain: Runnable[Any, Any]) -> Callable[[Any], Any]:
    async def give(_: Any) -> Runnable[Any, Any]:
        return chain

    return give
