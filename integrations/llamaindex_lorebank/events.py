"""Memory for engines that can't be changed: what LlamaIndex tells of queries and chats makes memory recall and retain."""

from __future__ import annotations

import inspect
import sys
import threading
from collections import OrderedDict
from typing import Any, Literal, Self

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.query import QueryStartEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.schema import QueryBundle, QueryType
from llama_index_instrumentation import get_dispatcher

from llamaindex_lorebank.turns import Turns
from lorebank import Bank
from lorebank.seams import BankResolver

SPANS = 20_000
"""Spans whose root is known: the oldest go first."""
QUERIES, CHATS = ("query", "aquery"), ("chat", "achat", "stream_chat", "astream_chat")
NOBODY = ""
"""The root of what runs in an agent, or in a chat engine with a memory of ours: it is not recorded here."""


class MemoryEventHandler(BaseEventHandler):
    """Start of a query or a chat: recall, and the user's words are kept. Its end: the answer is kept.

    Setup:
        `pip install 'lorebank[llamaindex]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`with instrument_tags({"user_id": ...})`)
        session_id: one conversation for all runs; by default the `session_id` of the run's instrument tags
        auto_recall: whether memories are fetched when a run starts; `MentalModelPostprocessor(bank, memories=True)` puts them
            among the nodes
        auto_retain: whether the words are kept
        on_failure: `"skip"` only; LlamaIndex swallows what handlers raise

    Instantiation:
        `with MemoryEventHandler(bank): ...`, or `attach()` at the start of the program and `detach()` at its end

    It serves all query engines, `CustomQueryEngine` included, by `query` and `aquery`, and chat engines by `chat` and `achat`.
    It does not serve streamed answers, which only their reader may read (the user's words are kept, and a `Skipped` event
    tells): take `with_memory(engine, bank)` or `BankMemory` for them; nor agents: take `with_memory(agent, bank)`. Chat engines
    with a `BankMemory` are left alone, and queries of `with_memory(engine, bank)` kept once.

    Only the outermost query or chat counts, and none inside an agent. What it does in the run is to keep books; memory works
    in the bank's own threads, and `flush()` waits for it. It never breaks a run.
    """

    _turns: Turns = PrivateAttr()
    _spans: _Spans = PrivateAttr()
    _guard: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _detached: bool = PrivateAttr(default=False)

    def __init__(
        self,
        bank: Bank | BankResolver,
        *,
        session_id: str | None = None,
        auto_recall: bool = True,
        auto_retain: bool = True,
        on_failure: Literal["skip"] = "skip",
    ) -> None:
        super().__init__()
        self._turns = Turns(bank, session_id=session_id, auto_recall=auto_recall, auto_retain=auto_retain, on_failure=on_failure)
        self._spans = _Spans(self._turns)

    @classmethod
    def class_name(cls) -> str:
        return "MemoryEventHandler"

    def attach(self) -> Self:
        """Lets all engines of this process be heard."""
        root: Any = get_dispatcher()
        with self._guard:
            self._detached = False
            if not _among(self, root.event_handlers):
                root.add_event_handler(self)
        self._track()
        return self

    def detach(self) -> None:
        """Hears nothing any more. What runs now is not kept further."""
        root: Any = get_dispatcher()
        with self._guard:
            self._detached = True
            root.event_handlers = [each for each in root.event_handlers if each is not self]
            root.span_handlers = [each for each in root.span_handlers if each is not self._spans]

    def __enter__(self) -> Self:
        return self.attach()

    def __exit__(self, *_exc: object) -> None:
        self.detach()

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """A query that began before spans were heard is taken from its events."""
        if not isinstance(event, QueryStartEvent) or event.span_id is None or not self._track():
            return
        if self._spans.adopted(event.span_id):
            self._turns.begin(event.span_id, _words(event.query), event.tags)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all that has begun and ended so far is kept; gives whether it is."""
        return self._turns.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as `flush`, which users know
        """Awaitable form of `flush`."""
        return await self._turns.aflush(timeout)

    def _track(self) -> bool:
        """Hears of spans, too: without them nobody knows which query is the outermost. `False` where an event comes from a run
        that was under way when this was detached, which must not attach it again.
        """
        root: Any = get_dispatcher()
        with self._guard:
            if self._detached and not _among(self, root.event_handlers):
                return False
            if not _among(self._spans, root.span_handlers):
                root.add_span_handler(self._spans)
            return True


class _Spans(BaseSpanHandler[BaseSpan]):
    """Which query or chat each span belongs to."""

    _turns: Turns = PrivateAttr()
    _roots: OrderedDict[str, str] = PrivateAttr(default_factory=OrderedDict)
    _guard: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        with self._guard:
            root = None if parent_id is None else self._roots.get(parent_id)
            found = _root(id_, instance) if root is None else root
            if found is None:
                return
            self._keep(id_, found)
        if root is None and found == id_:
            self._turns.begin(id_, _words(next(iter(bound_args.arguments.values()))), tags or {})

    def span_exit(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> None:
        self._turns.end(id_, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        self._turns.end(id_, None, cancelled=True)

    def adopted(self, id_: str) -> bool:
        """Whether a query is a root that was not known."""
        with self._guard:
            if id_ in self._roots:
                return False
            self._keep(id_, id_)
            return True

    def root_of(self, id_: str | None) -> str | None:
        """The query or chat that a span belongs to."""
        with self._guard:
            return (self._roots.get(id_) or None) if id_ is not None else None

    def _keep(self, id_: str, root: str) -> None:
        self._roots[id_] = root
        if root in self._roots:
            self._roots.move_to_end(root)
        if len(self._roots) > SPANS:
            self._roots.popitem(last=False)

    def new_span(self, *_: Any, **__: Any) -> None:
        """None is made."""

    def prepare_to_exit_span(self, *_: Any, **__: Any) -> None:
        """None is kept."""

    def prepare_to_drop_span(self, *_: Any, **__: Any) -> None:
        """None is kept."""


def _root(id_: str, instance: Any) -> str | None:
    """What a span without a known root begins: a query or a chat, something that is nobody's here, or nothing."""
    method = id_.partition(".")[2].partition("-")[0]
    if isinstance(instance, BaseQueryEngine) and method in QUERIES:
        return id_
    if isinstance(instance, BaseChatEngine) and method in CHATS:
        return NOBODY if _remembers(instance) else id_
    return NOBODY if _is_agent(instance) else None


def _is_agent(instance: Any) -> bool:
    module: Any = sys.modules.get("llama_index.core.agent.workflow")
    return module is not None and isinstance(instance, (module.BaseWorkflowAgent, module.AgentWorkflow))


def _remembers(engine: BaseChatEngine) -> bool:
    """Whether a chat engine has a memory of ours; where its module is not loaded there is none."""
    module: Any = sys.modules.get("llamaindex_lorebank.memory")
    return module is not None and isinstance(getattr(engine, "_memory", None), module.BankMemory)


def _words(asked: QueryType) -> str:
    return asked.query_str if isinstance(asked, QueryBundle) else asked


def _among(one: object, several: list[Any]) -> bool:
    return any(each is one for each in several)
