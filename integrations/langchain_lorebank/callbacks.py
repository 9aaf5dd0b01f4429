"""Memory for chains: the start of a root run recalls and records the user's words, its end records the answer."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

from langchain_lorebank.messages import to_messages
from langchain_lorebank.words import answered, history_of, said
from lorebank import Bank, DeadlineError, Injection, LorebankError, Session, UsageError
from lorebank.seams import Background, BankResolver, Message, RunSessions, Skipped, arrival, checked, missed, resolve

logger = logging.getLogger("lorebank")
LOOKED = "the run's metadata: callbacks see nothing else of a run"
RUNS, TURNS = 20_000, 2_000
"""Runs whose root is known, and root runs that are not over: the oldest go first, since a closed async stream tells nothing."""
GRACE = 0.1
"""Seconds, beyond the recall's own deadline, for handing over what it gave."""
DEFERRED = {"input": ""}
"""What a streamed chain says of its inputs when it starts; the true ones come with its end."""
_UNTOLD: Any = object()


@dataclass(slots=True)
class _Turn:
    """One root run. `said` are the user's words (`fresh`: not handed over by an earlier run), `asked` what is put in front of
    the model. `watched`: whoever streams it tells when the stream breaks off (`broken`); else `models` that still run do.
    """

    session: Session
    run: str
    until: float
    said: Message | None = None
    fresh: bool = True
    asked: Future[Injection] | None = None
    deferred: bool = False
    watched: bool = False
    broken: bool = False
    late: bool = False
    models: set[UUID] = field(default_factory=set)


class MemoryCallbackHandler(BaseCallbackHandler):
    """Start of a chain: recall, and the user's words are kept. End of a chain: the answer is kept.

    Setup:
        `pip install 'lorebank[langchain]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`metadata={"user_id": ...}`: handlers see nothing else)
        session_id: one conversation for all runs; by default the run's `thread_id`, else `metadata["session_id"]`
        input_key, output_key: where the chain's inputs and outputs have the words; guessed by default
        auto_recall: whether memories are fetched when a chain starts; `memory_prefix()` puts them in front of the model
        auto_retain: whether the words are kept
        on_failure: `"skip"` only; LangChain swallows what handlers raise

    Instantiation:
        `handler = MemoryCallbackHandler(bank)`

    Usage:
        `with_memory(chain, bank)` does it all. By hand: put `memory_prefix()` before the model, and pass
        `config={"callbacks": [handler]}` to any of `invoke`, `stream`, `batch` and their async forms.

    Only the outermost chain counts. The events themselves only keep books; memory works in the bank's own threads, and
    `flush()` waits for it. A memory that is down never breaks a chain.
    """

    run_inline = True
    raise_error = False

    def __init__(
        self,
        bank: Bank | BankResolver,
        *,
        session_id: str | None = None,
        input_key: str | None = None,
        output_key: str | None = None,
        auto_recall: bool = True,
        auto_retain: bool = True,
        on_failure: Literal["skip"] = "skip",
    ) -> None:
        self._bank = checked(bank)
        _refuse_raising(_behind(self._bank), on_failure)
        self._sessions = RunSessions(session_id=session_id)
        self._input_key, self._output_key = input_key, output_key
        self.auto_recall, self.auto_retain = auto_recall, auto_retain
        self._lock = threading.RLock()
        self._roots: OrderedDict[UUID, UUID | None] = OrderedDict()
        self._turns: OrderedDict[UUID, _Turn] = OrderedDict()
        self._told: OrderedDict[UUID, Any] = OrderedDict()
        self._work = Background()

    @property
    def ignore_agent(self) -> bool:
        return True

    @property
    def ignore_retry(self) -> bool:
        return True

    @property
    def ignore_custom_event(self) -> bool:
        return True

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A chain whose parent is unknown begins a turn."""
        if self._noted(run_id, parent_run_id, chain=True):
            with self._quiet("before_turn"):
                self._begin(run_id, inputs, metadata or {})

    def on_chain_end(self, outputs: Any, *, run_id: UUID, inputs: Any = None, **kwargs: Any) -> None:
        """The end of a root run keeps the answer, or what there is of a graph's messages."""
        turn = self._over(run_id)
        if turn is not None:
            with self._quiet("after_turn", turn.session):
                self._learn(turn, inputs)
                off = turn.broken or (turn.deferred and not turn.watched and bool(turn.models))
                self._end(turn, None if off else outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, inputs: Any = None, **kwargs: Any) -> None:
        """A root run that broke off keeps the user's words."""
        turn = self._over(run_id)
        if turn is not None:
            with self._quiet("after_turn", turn.session):
                self._learn(turn, inputs)
                self._end(turn, None)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A model's run is noted, as is whether it still runs."""
        self._noted(run_id, kwargs.get("parent_run_id"), model=True)

    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """As `on_chat_model_start`."""
        self._noted(run_id, kwargs.get("parent_run_id"), model=True)

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A model's run is over."""
        self._rests(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A model's run is over."""
        self._rests(run_id)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool's run is noted: what runs in it is no root."""
        self._noted(run_id, kwargs.get("parent_run_id"))

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: UUID, **kwargs: Any) -> None:
        """A retriever's run is noted."""
        self._noted(run_id, kwargs.get("parent_run_id"))

    def root_of(self, run_id: UUID | None) -> UUID | None:
        """The root run that a run belongs to."""
        with self._lock:
            return None if run_id is None else self._roots.get(run_id)

    def told(self, run_id: UUID, inputs: Any) -> None:
        """The true inputs of a run that is about to be streamed, or that has begun."""
        with self._quiet("before_turn"), self._lock:
            turn = self._turns.get(run_id)
            if turn is None:
                _keep(self._told, run_id, inputs, TURNS)
            else:
                turn.watched = True
                self._learn(turn, inputs)

    def broke(self, run_id: UUID) -> None:
        """A stream was closed before its end: half an answer is none."""
        with self._lock:
            if (turn := self._turns.get(run_id)) is not None:
                turn.broken = True

    def recalled(self, run_id: UUID | None, messages: Sequence[BaseMessage]) -> tuple[Session, Injection] | None:
        """What belongs in front of a model that runs in this run, by the turn's deadline; `None` where there is nothing."""
        asked = self._asked(run_id, messages)
        if asked is None:
            return None
        turn, future = asked
        wait([future], timeout=_left(turn))
        return self._given(turn, future)

    async def arecalled(self, run_id: UUID | None, messages: Sequence[BaseMessage]) -> tuple[Session, Injection] | None:
        """Awaitable form of `recalled`."""
        asked = self._asked(run_id, messages)
        if asked is None:
            return None
        turn, future = asked
        await arrival(future, _left(turn))
        return self._given(turn, future)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all that chains have begun and ended so far is recorded; gives whether it is."""
        return self._work.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as `flush`, which users know
        """Awaitable form of `flush`."""
        return await self._work.aflush(timeout)

    def _noted(self, run_id: UUID, parent: UUID | None, *, chain: bool = False, model: bool = False) -> bool:
        """Remembers a run and its root; gives whether it is a root that was not seen before."""
        with self._lock:
            if run_id in self._roots:
                return False
            root = run_id if chain else None
            if parent is not None and parent in self._roots:
                root = self._roots[parent]
                self._roots.move_to_end(parent)
                if root is not None and root in self._roots:
                    self._roots.move_to_end(root)
            _keep(self._roots, run_id, root, RUNS)
            if root is not None and (turn := self._turns.get(root)) is not None:
                self._turns.move_to_end(root)
                if model:
                    turn.models.add(run_id)
            return root == run_id

    def _rests(self, run_id: UUID) -> None:
        with self._lock:
            root = self._roots.get(run_id)
            if root is not None and (turn := self._turns.get(root)) is not None:
                turn.models.discard(run_id)

    def _over(self, run_id: UUID) -> _Turn | None:
        with self._lock:
            return self._turns.pop(run_id, None)

    def _begin(self, run_id: UUID, inputs: Any, metadata: Mapping[str, Any]) -> None:
        with self._lock:
            told = self._told.pop(run_id, _UNTOLD)
        bank = resolve(self._bank, metadata, looked=LOOKED)
        until = time.monotonic() + bank.connections.settings.recall.deadline
        turn = _Turn(self._sessions.of(bank, metadata), str(run_id), until, deferred=inputs == DEFERRED)
        turn.watched = told is not _UNTOLD
        with self._lock:
            _keep(self._turns, run_id, turn, TURNS)
        self._learn(turn, told if turn.watched else inputs)

    def _learn(self, turn: _Turn, inputs: Any) -> None:
        """Takes the user's words from inputs, once; they are recorded at once, and what they call up is fetched."""
        if turn.said is not None or inputs is None:
            return
        found = said(inputs, self._input_key)
        if found is None:
            return
        turn.said, turn.fresh = found
        if self.auto_recall and turn.asked is None:
            verb = turn.session.before_turn if self.auto_retain and turn.fresh else turn.session.prefetch
            turn.asked = self._ask(turn, verb, [turn.said])

    def _end(self, turn: _Turn, outputs: Any) -> None:
        if not self.auto_retain:
            return
        whole = history_of(outputs)
        own = [turn.said] if turn.said is not None and turn.fresh else []
        answer = None if outputs is None or whole else answered(outputs, self._output_key)
        messages = whole or [*own, *([] if answer is None else [answer])]
        if not messages:
            return
        body = partial(
            turn.session.after_turn,
            messages,
            history="full" if whole else "delta",
            run_id=turn.run,
            cancelled=outputs is None,
        )
        self._work.end(turn.asked, turn.session, body)

    def _asked(self, run_id: UUID | None, messages: Sequence[BaseMessage]) -> tuple[_Turn, Future[Injection]] | None:
        """What a model's turn has asked for. A turn whose words are unknown asks with the model's messages; one whose memories
        were late looks again.
        """
        with self._lock:
            root = self.root_of(run_id)
            turn = None if root is None else self._turns.get(root)
            if turn is None or not self.auto_recall:
                return None
            if turn.asked is None or _empty(turn.asked):
                turn.asked = self._ask(turn, turn.session.prefetch, to_messages(messages) if turn.said is None else [turn.said])
            return turn, turn.asked

    def _given(self, turn: _Turn, future: Future[Injection]) -> tuple[Session, Injection] | None:
        if not future.done():
            if not turn.late:
                turn.late = True
                missed(turn.session, "before_turn", DeadlineError("memory was busy"))
            return None
        return None if future.exception() is not None else (turn.session, future.result())

    def _ask(self, turn: _Turn, verb: Callable[..., Injection], messages: Sequence[Message]) -> Future[Injection]:
        return self._work.begin(turn.session, partial(verb, messages, history="delta", run_id=turn.run))

    @contextmanager
    def _quiet(self, verb: str, session: Session | None = None) -> Iterator[None]:
        """What goes wrong here must not reach the chain."""
        try:
            yield
        except Exception as error:
            logger.debug("%s failed", verb, exc_info=error)
            if session is not None:
                missed(session, verb, error)
                return
            why = error if isinstance(error, UsageError) else type(error).__name__
            logger.error("a chain goes on without memory: %s", why)  # noqa: TRY400 - no traceback: the application is to read it
            bank = _behind(self._bank)
            with suppress(LorebankError):
                if bank is not None:
                    bank.connections.tell(Skipped(bank.name, verb, type(error).__name__))


def _keep(kept: OrderedDict[UUID, Any], key: UUID, value: Any, limit: int) -> None:
    kept[key] = value
    if len(kept) > limit:
        kept.popitem(last=False)


def _behind(bank: Bank | BankResolver) -> Bank | None:
    """The opened bank whose connections are used."""
    return bank if isinstance(bank, Bank) else cast("Bank | None", getattr(bank, "source", None))


def _refuse_raising(bank: Bank | None, on_failure: object) -> None:
    if on_failure != "skip" or (bank is not None and bank.connections.on_failure == "raise"):
        raise UsageError(
            'a callback handler can\'t raise: LangChain swallows it. Use `on_failure="skip"` and a bank opened with it, '
            "and `on_event` to hear of failures; or use `MemoryMiddleware`"
        )


def _left(turn: _Turn) -> float:
    return max(turn.until - time.monotonic(), 0.0) + GRACE


def _empty(asked: Future[Injection]) -> bool:
    """Whether memory could not be asked in time."""
    if not asked.done() or asked.exception() is not None:
        return False
    result = asked.result().result
    return result is not None and result.state == "unavailable"
