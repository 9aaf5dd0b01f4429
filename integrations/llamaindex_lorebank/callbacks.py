"""Memory for engines that tell an old `CallbackManager` of their queries."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.callbacks.base_handler import BaseCallbackHandler

from llamaindex_lorebank.runs import run_tags
from llamaindex_lorebank.turns import Turns, observed_run
from lorebank import Bank
from lorebank.seams import BankResolver

IN_TOOL = {"llamaindex.step.input_event": "ToolCall"}
"""The instrument tag of what runs in an agent's tool."""


@dataclass(slots=True)
class _Trace:
    """One outermost query: its run, the event of an engine that answers it now, and the last answer."""

    run: str
    begun: bool = False
    event: str | None = None
    response: Any = None


_traces: ContextVar[Mapping[int, _Trace] | None] = ContextVar("lorebank_traces", default=None)


class MemoryCallbackHandler(BaseCallbackHandler):
    """Start of a query: recall, and the user's words are kept. End of a query: the answer is kept.

    Setup:
        `pip install 'lorebank[llamaindex]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`with instrument_tags({"user_id": ...})`)
        session_id: one conversation for all runs; by default the `session_id` of the run's instrument tags
        auto_recall: whether memories are fetched when a query starts; `MentalModelPostprocessor(bank, memories=True)` puts them
            among the nodes
        auto_retain: whether the words are kept
        on_failure: `"skip"` only; a callback must not break what it watches

    Instantiation:
        `Settings.callback_manager = CallbackManager([MemoryCallbackHandler(bank)])`, before the engine is made

    It serves query engines that tell their callback manager of the query: those with a retriever, routers, sub-question and
    multi-step engines. It does not serve `CustomQueryEngine`, chat engines and agents, which don't; nor streamed answers, which
    only their reader may read (the user's words are kept, and a `Skipped` event tells). `MemoryEventHandler` serves more,
    `with_memory(engine, bank)` all. Several of these together keep a query once.

    Only the outermost query counts, and none in an agent's tool. What it does in the run is to keep books; memory works in the
    bank's own threads, and `flush()` waits for it. It never breaks a query.
    """

    def __init__(
        self,
        bank: Bank | BankResolver,
        *,
        session_id: str | None = None,
        auto_recall: bool = True,
        auto_retain: bool = True,
        on_failure: Literal["skip"] = "skip",
    ) -> None:
        super().__init__(event_starts_to_ignore=[], event_ends_to_ignore=[])
        self._turns = Turns(bank, session_id=session_id, auto_recall=auto_recall, auto_retain=auto_retain, on_failure=on_failure)

    def start_trace(self, trace_id: str | None = None) -> None:
        """The outermost query begins; LlamaIndex tells of no inner one."""
        if trace_id == "query" and not IN_TOOL.items() <= run_tags().items():
            _traces.set({**(_traces.get() or {}), id(self): _Trace(observed_run())})

    def end_trace(self, trace_id: str | None = None, trace_map: dict[str, list[str]] | None = None) -> None:
        """The outermost query is over, whether it has an answer or not."""
        traces = dict(_traces.get() or {})
        trace = traces.pop(id(self), None)
        if trace is not None:
            _traces.set(traces)
            self._turns.end(trace.run, trace.response, cancelled=trace.response is None)

    def on_event_start(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        parent_id: str = "",
        **kwargs: Any,
    ) -> str:
        """An engine answers; what it asks of others is no query of the user's."""
        trace = self._trace(event_type)
        if trace is not None and trace.event is None:
            trace.event = event_id
            if not trace.begun and payload is not None:
                trace.begun = True
                self._turns.begin(trace.run, str(payload.get(EventPayload.QUERY_STR, "")), run_tags())
        return event_id

    def on_event_end(
        self, event_type: CBEventType, payload: dict[str, Any] | None = None, event_id: str = "", **kwargs: Any
    ) -> None:
        """An engine has answered, or failed: then there is no response."""
        trace = self._trace(event_type)
        if trace is not None and trace.event == event_id:
            trace.event, trace.response = None, (payload or {}).get(EventPayload.RESPONSE)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all that has begun and ended so far is kept; gives whether it is."""
        return self._turns.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as `flush`, which users know
        """Awaitable form of `flush`."""
        return await self._turns.aflush(timeout)

    def _trace(self, event_type: CBEventType) -> _Trace | None:
        return (_traces.get() or {}).get(id(self)) if event_type == CBEventType.QUERY else None
