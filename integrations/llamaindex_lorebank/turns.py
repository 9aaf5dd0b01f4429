"""Queries and chats as handlers see them: where one starts memory is asked, where it ends the answer is kept."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from weakref import WeakSet

from llama_index.core.base.response.schema import AsyncStreamingResponse, PydanticResponse, StreamingResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.schema import NodeWithScore
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.span import active_span_id

from llamaindex_lorebank.retriever import OURS
from llamaindex_lorebank.runs import LOOKED
from lorebank import Bank, Injection, LorebankError, Session, UsageError
from lorebank.seams import Background, BankResolver, Message, RunSessions, Skipped, checked, missed, resolve

logger = logging.getLogger("lorebank")
OPEN = 2_000
"""Turns that are not over: the oldest go first, since what breaks off need not tell."""
WATCHED: WeakSet[Any] = WeakSet()
"""Streams that are kept by who hands them on."""
EMPTY = ("", "Empty Response", "None")
"""What engines say that have no answer."""


def answer_of(response: Any) -> str | None:
    """An engine's answer as text; `None` for a stream that nobody has read yet, which is left alone."""
    if isinstance(response, (StreamingResponse, AsyncStreamingResponse)):
        return response.response_txt
    if isinstance(response, StreamingAgentChatResponse):
        return None
    if isinstance(response, PydanticResponse):
        response = response.get_response()
    text = response if isinstance(response, str) else getattr(response, "response", None)
    return text if isinstance(text, str) else None


def unread(response: Any) -> bool:
    """Whether an answer is a stream that nobody keeps who reads it."""
    if isinstance(response, (StreamingResponse, AsyncStreamingResponse)):
        return response.response_txt is None and response.response_gen not in WATCHED
    return isinstance(response, StreamingAgentChatResponse)


def sources_of(response: Any) -> tuple[str, ...]:
    """The ids of an answer's documents and memories."""
    nodes: Sequence[NodeWithScore] = getattr(response, "source_nodes", None) or ()
    return tuple(dict.fromkeys(each.node.node_id for each in nodes if each.node.metadata.get(OURS, "memory") == "memory"))


def told(said: Message, answer: str | None, sources: tuple[str, ...] = ()) -> list[Message]:
    """What is kept of a query: the user's words, and the answer where there is one."""
    empty = answer is None or answer.strip() in EMPTY
    return [said] if empty else [said, Message("assistant", cast("str", answer), sources=sources)]


def observed_run() -> str:
    """The present run as a `MemoryEventHandler` knows it, else as its own span says: what several observe is kept once."""
    span = active_span_id.get()
    dispatcher: Any = get_dispatcher()
    for handler in dispatcher.span_handlers:
        root = getattr(handler, "root_of", None)
        if root is not None and (found := root(span)) is not None:
            return str(found)
    return span or uuid.uuid4().hex


@dataclass(slots=True)
class _Turn:
    """One query or chat that is not over."""

    session: Session
    said: Message
    asked: Future[Injection] | None = None


class Turns:
    """What a handler has seen start and not end. Its calls keep books only: memory works in the bank's own threads."""

    def __init__(
        self,
        bank: Bank | BankResolver,
        *,
        session_id: str | None,
        auto_recall: bool,
        auto_retain: bool,
        on_failure: str,
    ) -> None:
        self._bank = checked(bank)
        _refuse_raising(self._source, on_failure)
        self._sessions = RunSessions(session_id=session_id)
        self._recall, self._retain = auto_recall, auto_retain
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Turn] = OrderedDict()
        self._work = Background()

    def begin(self, run: str, words: str, tags: Mapping[str, Any]) -> None:
        """The user has said something: it is kept, and what it calls up is fetched."""
        with self._quiet("before_turn"):
            bank = resolve(self._bank, tags, looked=LOOKED)
            turn = _Turn(self._sessions.of(bank, tags), Message("user", words))
            with self._lock:
                if run in self._open:
                    return
                self._open[run] = turn
                if len(self._open) > OPEN:
                    self._open.popitem(last=False)
            if self._recall:
                verb = turn.session.before_turn if self._retain else turn.session.prefetch
                turn.asked = self._work.begin(turn.session, partial(verb, [turn.said], history="delta", run_id=run))

    def end(self, run: str, response: Any, *, cancelled: bool = False) -> None:
        """The answer is there, or nothing comes any more. A stream is left to its reader: the user's words alone are kept."""
        with self._lock:
            turn = self._open.pop(run, None)
        if turn is None or not self._retain:
            return
        with self._quiet("after_turn", turn.session):
            if unread(response):
                self._unread(turn)
            messages = told(turn.said, answer_of(response), sources_of(response))
            body = partial(turn.session.after_turn, messages, history="delta", run_id=run, cancelled=cancelled)
            self._work.end(turn.asked, turn.session, body)

    def _unread(self, turn: _Turn) -> None:
        logger.warning("a streamed answer is not kept by a handler: use with_memory(engine, bank), or BankMemory")
        self._tell(Skipped(turn.session.key[0].bank, "after_turn", "streamed"))

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all that has begun and ended so far is kept; gives whether it is."""
        return self._work.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as `flush`, which users know
        """Awaitable form of `flush`."""
        return await self._work.aflush(timeout)

    @property
    def _source(self) -> Bank | None:
        """The opened bank whose connections are used."""
        return self._bank if isinstance(self._bank, Bank) else cast("Bank | None", getattr(self._bank, "source", None))

    def _tell(self, event: Skipped) -> None:
        with suppress(LorebankError):
            if self._source is not None:
                self._source.connections.tell(event)

    @contextmanager
    def _quiet(self, verb: str, session: Session | None = None) -> Generator[None]:
        """What goes wrong here must not reach the run."""
        try:
            yield
        except Exception as error:
            logger.debug("%s failed", verb, exc_info=error)
            if session is not None:
                missed(session, verb, error)
                return
            why = error if isinstance(error, UsageError) else type(error).__name__
            logger.error("a run goes on without memory: %s", why)  # noqa: TRY400 - no traceback: the application is to read it
            if self._source is not None:
                self._tell(Skipped(self._source.name, verb, type(error).__name__))


def _refuse_raising(bank: Bank | None, on_failure: str) -> None:
    if on_failure != "skip" or (bank is not None and bank.connections.on_failure == "raise"):
        raise UsageError(
            'a handler can\'t raise: LlamaIndex swallows it. Use `on_failure="skip"` and a bank opened with it, and `on_event` '
            "to hear of failures; or use `with_memory(engine, bank)`"
        )
