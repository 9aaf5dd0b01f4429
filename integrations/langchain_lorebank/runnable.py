"""Memory in front of the models of any chain: `with_memory(chain, bank)`, or `memory_prefix()` by hand."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast
from uuid import UUID

from langchain_core.language_models import BaseLLM
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.utils.uuid import uuid7
from pydantic import Field

from langchain_lorebank.callbacks import MemoryCallbackHandler
from langchain_lorebank.inserting import inserted
from langchain_lorebank.prefix import MemoryPrefix, memory_prefix
from lorebank import Bank, UsageError
from lorebank.seams import BankResolver

__all__ = ["RunnableWithMemory", "memory_prefix", "with_memory"]


class _Remembering(RunnableSequence[Any, Any]):
    """A model with the prefix before it. Keywords of a call are the model's."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """The model with tools, and with the prefix."""
        return with_memory(cast("Any", self.last).bind_tools(tools, **kwargs))

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """The model with a schema for its answer, and with the prefix."""
        return with_memory(cast("Any", self.last).with_structured_output(schema, **kwargs))

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return super().invoke(input, config) if not kwargs else self._with(kwargs).invoke(input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await (super().ainvoke(input, config) if not kwargs else self._with(kwargs).ainvoke(input, config))

    def batch(self, inputs: Any, config: Any = None, *, return_exceptions: bool = False, **kwargs: Any) -> Any:
        told = {"return_exceptions": return_exceptions}
        return super().batch(inputs, config, **told) if not kwargs else self._with(kwargs).batch(inputs, config, **told)

    async def abatch(self, inputs: Any, config: Any = None, *, return_exceptions: bool = False, **kwargs: Any) -> Any:
        told = {"return_exceptions": return_exceptions}
        return await (super().abatch(inputs, config, **told) if not kwargs else self._with(kwargs).abatch(inputs, config, **told))

    def transform(self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        return super().transform(input, config) if not kwargs else self._with(kwargs).transform(input, config)

    def atransform(self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        return super().atransform(input, config) if not kwargs else self._with(kwargs).atransform(input, config)

    def _with(self, kwargs: Mapping[str, Any]) -> _Remembering:
        return _Remembering(first=self.first, last=self.last.bind(**kwargs), name=self.name)


class RunnableWithMemory(RunnableBindingBase[Any, Any]):
    """What `with_memory(chain, bank)` gives: the chain, its handler, and word of the true inputs where it is streamed."""

    handler: Any = Field(exclude=True, repr=False)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """A bank can't be written down."""
        return False

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> RunnableWithMemory:
        """The same memory before the model with tools."""
        return self.model_copy(update={"bound": cast("Any", self.bound).bind_tools(tools, **kwargs)})

    def with_structured_output(self, schema: Any, **kwargs: Any) -> RunnableWithMemory:
        """The same memory before the model with a schema for its answer."""
        return self.model_copy(update={"bound": cast("Any", self.bound).with_structured_output(schema, **kwargs)})

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        config, run = _named(config)
        self.handler.told(run, input)
        yield from self._watched(super().stream(input, config, **kwargs), run)

    def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        config, run = _named(config)
        self.handler.told(run, input)
        return self._awatched(super().astream(input, config, **kwargs), run)

    def transform(self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        config, run = _named(config)
        yield from self._watched(super().transform(self._heard(input, run), config, **kwargs), run)

    def atransform(self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        config, run = _named(config)
        return self._awatched(super().atransform(self._aheard(input, run), config, **kwargs), run)

    def astream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As the chain's own; the handler is told the inputs."""
        config, run = _named(config)
        self.handler.told(run, input)
        return super().astream_events(input, config, **kwargs)

    def _watched(self, chunks: Iterator[Any], run: UUID) -> Iterator[Any]:
        """The chunks; the handler is told when whoever reads them goes away."""
        for chunk in chunks:
            try:
                yield chunk
            except GeneratorExit:
                self.handler.broke(run)
                cast("Any", chunks).close()
                raise

    async def _awatched(self, chunks: AsyncIterator[Any], run: UUID) -> AsyncIterator[Any]:
        """As `_watched`."""
        async for chunk in chunks:
            try:
                yield chunk
            except GeneratorExit:
                self.handler.broke(run)
                await cast("Any", chunks).aclose()
                raise

    def _heard(self, chunks: Iterator[Any], run: UUID) -> Iterator[Any]:
        """The input of a step in a streamed chain; the handler is told it once it is whole."""
        whole: Any = None
        for chunk in chunks:
            whole = _more(whole, chunk)
            yield chunk
        self.handler.told(run, whole)

    async def _aheard(self, chunks: AsyncIterator[Any], run: UUID) -> AsyncIterator[Any]:
        """As `_heard`."""
        whole: Any = None
        async for chunk in chunks:
            whole = _more(whole, chunk)
            yield chunk
        self.handler.told(run, whole)


def with_memory(runnable: Any, bank: Bank | BankResolver | None = None, **options: Any) -> Runnable[Any, Any]:
    """A chain or a model that remembers. The one given here stays as it is.

    Setup:
        `pip install 'lorebank[langchain]'`

    Key init args:
        runnable: a chain or a model; every model in it gets the memories
        bank: a `Bank`, or `per_user(bank)`; without one, what is in the state of a graph (`recall_node`) or what a handler of the
            run has recalled is put in front of the model
        options: those of `MemoryCallbackHandler`

    Instantiation:
        `chain = with_memory(prompt | model | parser, bank)`

    Usage:
        `chain.invoke({"question": "Which seat?"}, {"metadata": {"session_id": "trip-1"}})`; any way to run a chain will do.
        `chain.handler.flush()` waits until the answer is recorded.

    The chain's inputs and outputs, and a history that it stores, never hold memories. A compiled graph is refused: agents take
    `MemoryMiddleware`, other graphs `recall_node` and `retain_node`.
    """
    _refuse_graphs(runnable)
    if bank is None and options:
        raise UsageError(f"`with_memory` takes {', '.join(map(repr, sorted(options)))} only with a bank")
    changed = inserted(runnable, _remembering)
    if bank is None:
        return changed
    handler = MemoryCallbackHandler(bank, **options)
    return RunnableWithMemory(bound=changed, config={"callbacks": [handler]}, handler=handler)


def _remembering(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    return _Remembering(first=MemoryPrefix(text=isinstance(model, BaseLLM)), last=model)


def _refuse_graphs(runnable: Any) -> None:
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    module = sys.modules.get("langgraph.pregel.protocol")
    if module is not None and isinstance(runnable, module.PregelProtocol):
        raise UsageError(
            "`with_memory` can't reach the models in a compiled graph: give `create_agent` the `MemoryMiddleware(bank)`, and a "
            "graph of your own `recall_node(bank)`, `with_memory(model)` and `retain_node(bank)`"
        )


def _named(config: RunnableConfig | None) -> tuple[RunnableConfig, UUID]:
    """The config with the id that the run will have."""
    run = (config or {}).get("run_id") or uuid7()
    return cast("RunnableConfig", {**(config or {}), "run_id": run}), run


def _more(whole: Any, chunk: Any) -> Any:
    """Chunks as LangChain puts them together: what can't be added counts alone."""
    if whole is None:
        return chunk
    with suppress(TypeError):
        return whole + chunk
    return chunk
