"""One recall for a user turn: within the turn's deadline, else its late answer serves the later calls of the same turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from lorebank._asking import recall_request
from lorebank._domain.blocks import render_memories, render_unavailable
from lorebank._domain.events import Recalled
from lorebank._domain.injection import Room, Seen, Shown, shown, words_of
from lorebank._domain.memory import Memory, RecallResult, storable
from lorebank._domain.message import Message
from lorebank._domain.query import compose_query
from lorebank._domain.requests import RecallRequest
from lorebank._domain.session import Trace, Traced
from lorebank._session.guard import Guard
from lorebank._session.home import Home
from lorebank.errors import LorebankError

CONTEXT_TURNS = {"mnemopi": 3, "hindsight": 1}
QUERY_CHARS = {"mnemopi": 4_000, "hindsight": 800}
"""The backends' own defaults: the one ranks long queries well, the other cuts them."""
AHEAD = -1
"""The number of a turn that was asked for by `prefetch`, before anybody has recorded it."""


@dataclass(slots=True)
class Turn:
    """What is recalled for one user turn. `words` are those of the memories shown."""

    key: tuple[int, bytes] = (0, b"")
    query: str = ""
    result: RecallResult | None = None
    memories: str = ""
    trace: Trace | None = None
    words: frozenset[str] = frozenset()
    error: LorebankError | None = None
    running: Future[RecallResult] | None = field(default=None, repr=False)
    patient: bool = False
    begun: float = 0.0

    @property
    def over(self) -> bool:
        """Whether there is nothing more to come: it has its memories, the recall failed, or there is nothing to ask."""
        return self.error is not None or not self.query or (self.result is not None and self.result.state != "unavailable")


class Recalling:
    """Asks a bank on behalf of one session."""

    def __init__(self, home: Home, guard: Guard) -> None:
        self._home, self._guard = home, guard

    def query(self, messages: Sequence[Message]) -> str:
        """The query for the newest user message; empty where it says nothing."""
        settings, name = self._home.settings.recall, self._home.backend.name
        query = compose_query(
            messages,
            context_turns=settings.context_turns or CONTEXT_TURNS[name],
            max_chars=settings.max_query_chars or QUERY_CHARS[name],
        )
        return storable(query)

    def ask(self, turn: Turn) -> None:
        """Asks for a turn's memories, once, unless memory is spared now."""
        if turn.over or turn.running is not None:
            return
        patience = self._guard.patience(1.0)
        if patience is not None:
            turn.patient, turn.begun = patience > 0, time.perf_counter()
            turn.running = self._submit(self._request(turn.query))

    def serve(self, turn: Turn, seen: Seen, wait: float) -> None:
        """Brings the turn as far as `wait` seconds allow. What it has once shown stays."""
        if turn.over:
            return
        patience = max(wait, 0.0) if turn.patient else 0.0
        turn.patient = False
        result = None if turn.running is None else self._answer(turn, turn.running, patience)
        if result is None:
            self._without(turn)
        else:
            self._show(turn, result, seen)

    def _answer(self, turn: Turn, running: Future[RecallResult], patience: float) -> RecallResult | None:
        """The answer, if there is one by then."""
        try:
            return running.result(timeout=patience)
        except Late:
            if patience:
                self._guard.failed(self._home.scope.bank, f"no answer within {patience:.1f} s", slow=True)
        except LorebankError as error:
            turn.error = error
        return None

    def _request(self, query: str) -> RecallRequest:
        settings = self._home.settings
        request = recall_request(settings, query, None)
        room = self._room()
        return replace(request, limit=room.asked, max_tokens=2 * request.max_tokens, explain=True)

    def _room(self) -> Room:
        recall = self._home.settings.recall
        return Room(recall.limit, recall.max_tokens, recall.count_tokens)

    def _submit(self, request: RecallRequest) -> Future[RecallResult]:
        """Starts the recall in a thread of its own lane; whoever waits or not, the guard hears how it went."""
        home, guard, bank = self._home, self._guard, self._home.scope.bank
        connections = home.opened()

        def asked() -> RecallResult:
            try:
                result = connections.backend.recall(home.scope, request)
            except LorebankError as error:
                guard.failed(bank, type(error).__name__, slow=False)
                raise
            guard.answered(bank)
            return result

        return connections.threads.submit(asked, "automatic")

    def _told(self, query: str) -> str:
        """A query as a trace tells it: without secrets."""
        redactor = self._home.settings.retain.redactor
        return query if redactor is None else redactor(query)[0]

    def _without(self, turn: Turn) -> None:
        turn.result = RecallResult("unavailable", turn.query, unavailable=(self._home.scope.bank,))
        turn.memories = render_unavailable() if self._home.settings.recall.tell_model else ""
        elapsed = time.perf_counter() - turn.begun if turn.begun else 0.0
        turn.trace = _trace(self._told(turn.query), turn.result, Shown(()), elapsed)

    def _show(self, turn: Turn, result: RecallResult, seen: Seen) -> None:
        chosen = shown(result.memories, seen, self._room())
        state = result.state if chosen.memories or result.state != "found" else "nothing"
        turn.result = replace(result, memories=chosen.memories, state=state)
        turn.memories = render_memories(chosen.memories)
        turn.words = frozenset(word for memory in chosen.memories for word in words_of(memory.text))
        elapsed = time.perf_counter() - turn.begun
        turn.trace = _trace(self._told(turn.query), turn.result, chosen, elapsed)
        self._home.opened().tell(Recalled(self._home.scope.bank, len(chosen.memories), elapsed))


def _trace(query: str, result: RecallResult, chosen: Shown, elapsed: float) -> Trace:
    cut = result.trace.dropped if result.trace is not None else ()
    dropped = tuple(dict.fromkeys((*chosen.dropped, *cut)))
    return Trace(query, result.state, tuple(map(_traced, chosen.memories)), dropped, elapsed, datetime.now(UTC))


def _traced(memory: Memory) -> Traced:
    return Traced(memory.id, memory.score, memory.signals or {})
