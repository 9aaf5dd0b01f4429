"""`Session`: the lifecycle that every integration drives, and that can be driven by hand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from typing import Any, Self

from lorebank._domain.cursor import digest_of
from lorebank._domain.events import Redacted, Retained, SessionUnreadable, Skipped
from lorebank._domain.injection import Seen
from lorebank._domain.message import Message
from lorebank._domain.requests import FlushReport
from lorebank._domain.scope import Scope
from lorebank._domain.session import (
    MATRIX,
    NEXT,
    UNREADABLE,
    Choices,
    History,
    Injection,
    Mode,
    Trace,
    TurnReceipt,
    parse_mode,
    refusal,
)
from lorebank._domain.toolbook import Offer, ToolName
from lorebank._forks import Forkable, watch_forks
from lorebank._session.alias import Alias
from lorebank._session.chosen import Chosen
from lorebank._session.home import Home
from lorebank._session.listed import Listed, Recent
from lorebank._session.prefix import Prefix
from lorebank._session.recalling import AHEAD, Recalling, Turn
from lorebank._session.recording import Recorded, Recorder
from lorebank._session.shared import Shared
from lorebank._session.tags import SessionTags
from lorebank._session.view import Call, call_of
from lorebank._twins import Threads, twin
from lorebank.errors import LorebankError, UnavailableError, UsageError

logger = logging.getLogger("lorebank")


class Session(AbstractContextManager["Session", None], AbstractAsyncContextManager["Session", None], Forkable):
    """One conversation's life with one bank, opened by `bank.session(id)`.

    `before_turn` goes before the model is called, `after_turn` after it has answered. Both may be called from any thread or
    loop; calls of one session are serialised. With `history="full"` a host hands over all it has each time, with `"delta"`
    and a `run_id` only the messages of that run. A memory service that is down costs a turn its deadline once, and
    raises only with `on_failure="raise"`.
    """

    def __init__(
        self,
        home: Home,
        session_id: str,
        shared: Shared,
        left: Callable[[Session], bool],
    ) -> None:
        self.id, self.users = session_id, 0
        self.offer = Offer()
        self._home, self._ticks, self._left = home, shared.clocks.ticks, left
        self._prefix = Prefix(home, shared.models)
        self._recorder = Recorder(home, session_id, shared.clocks.now)
        self._recalling = Recalling(home, shared.guard)
        self._chosen = Chosen()
        self._listed = Listed()
        self._recent = Recent()
        self._closed = self._told = False
        self.after_fork()
        watch_forks(self)

    @property
    def threads(self) -> Threads:
        return self._home.connections.threads

    @property
    def key(self) -> tuple[Scope, str]:
        """What tells it from other sessions of its bank's connections."""
        return self._home.scope, self.id

    def before_turn(
        self,
        messages: Sequence[Message | dict[str, Any]],
        *,
        history: History = "full",
        run_id: str | None = None,
        offer: Offer | None = None,
    ) -> Injection:
        """Records the user's words, and gives what goes in front of the model, within one deadline.

        `offer` names the tools of this call's model, where they are others than the session was opened with. Called again for
        the same user turn (a tool loop, a resumed run) it gives the same memories and asks for nothing.
        """
        call = call_of(messages, history, run_id, offer=offer)
        with self._serial:
            until = self._ticks() + self._settings.recall.deadline
            if self._off:
                return Injection(position=self._settings.recall.position)
            return self._injection(call, self._record(call, "before_turn"), until)

    def prefetch(
        self, messages: Sequence[Message | dict[str, Any]], *, history: History = "full", run_id: str | None = None
    ) -> Injection:
        """What `before_turn` would give, recording nothing: for hosts that can't tell the user's own words yet."""
        call = call_of(messages, history, run_id)
        with self._serial:
            if self._off:
                return Injection(position=self._settings.recall.position)
            until = self._ticks() + self._settings.recall.deadline
            newest = next((digest_of(m) for m in reversed(call.messages) if m.role == "user" and not m.injected), b"")
            number = self._turn.key[0] if self._turn.key[1] == newest else AHEAD
            return self._injection(call, Recorded(self.choices, (number, newest), TurnReceipt()), until)

    def after_turn(
        self,
        messages: Sequence[Message | dict[str, Any]],
        *,
        history: History = "full",
        run_id: str | None = None,
        cancelled: bool = False,
    ) -> TurnReceipt:
        """Writes what is new into the ledger (Mnemopi: as memories) and never waits for the network.

        `cancelled` says that the answer broke off: the user's words stay, half an answer does not (`on_cancel`).
        """
        turn = self._turn
        call = call_of(messages, history, run_id, ending=True, cancelled=cancelled)
        with self._serial:
            if self._off:
                return TurnReceipt(reason="memory is off")
            return self._record(replace(call, recalled=turn.words, asked=turn.key[1]), "after_turn").receipt

    def before_compaction(self, messages: Sequence[Message | dict[str, Any]]) -> str:
        """A `<memories>` block for the summariser of a history that is about to be compacted, within the same deadline; empty
        where there is nothing to tell.
        """
        call = call_of(messages, "full", None)
        with self._serial:
            if self._off or not MATRIX[self.choices.mode].recall:
                return ""
            turn = Turn((0, b""), self._recalling.query(call.messages))
            self._recalling.ask(turn)
            self._recalling.serve(turn, Seen(self.id), self._settings.recall.deadline)
            if turn.error is not None:
                self._raise(turn.error)
            return turn.memories

    def retain_now(self) -> FlushReport:
        """Lets go what waits for its cadence, and waits for the server to take it, within `close_timeout`."""
        with self._serial:
            if self._off:
                return FlushReport()
            self._recorder.release()
            return self._drained()

    def last_recall(self) -> Trace | None:
        """How the last turn's recall went; from the ledger where this process has made none (`keep_traces`)."""
        with self._serial:
            return self._turn.trace or (None if self._off else Trace.read(self._recorder.last_trace()))

    def reload_mental_models(self) -> None:
        """Reads the bank's mental models now; raises where that can't be done."""
        if not self._off:
            self._prefix.reload()

    def save(self) -> None:
        """Stores what was changed of the session at once; else the next call does."""
        with self._serial:
            if not self._off and self._chosen.changed:
                self._recorder.store(self._chosen.changed)
                self._chosen.settle(self.choices)

    def close(self) -> None:
        """Ends this use of the session. The last one stores what was changed, and lets all go that waits; what a server does not
        take within `close_timeout` stays in the outbox.
        """
        if self._closed or not self._left(self):
            return
        with self._serial:
            try:
                if not (self._home.closed or self._off):
                    self.save()
                    if self._recorder.release():
                        self._drained()
            except LorebankError as error:
                self.missed("close", error)
            finally:
                self._closed = True

    abefore_turn = twin(before_turn, lane="session")
    aprefetch = twin(prefetch, lane="session")
    aafter_turn = twin(after_turn, lane="local")
    abefore_compaction = twin(before_compaction, lane="session")
    aretain_now = twin(retain_now, lane="flush")
    alast_recall = twin(last_recall, lane="local")
    areload_mental_models = twin(reload_mental_models)
    asave = twin(save, lane="local")
    aclose = twin(close, lane="flush")

    @property
    def closed(self) -> bool:
        """Whether it can't be used any more: it, or its bank, was closed."""
        return self._closed or self._home.closed

    @property
    def mode(self) -> Mode:
        """`normal`, `read-only`, `ignored` or `tools-only`. Setting it is stored with the next call, or by `save()`."""
        return self.choices.mode

    @mode.setter
    def mode(self, value: Mode) -> None:
        self.change(mode=parse_mode(value))

    @property
    def retain_enabled(self) -> bool:
        """Whether messages are retained on their own, in a mode that lets them."""
        return self.choices.retain_enabled

    @retain_enabled.setter
    def retain_enabled(self, value: bool) -> None:
        if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            raise UsageError(f"`retain_enabled` must be true or false; found {value!r}")
        self.change(retain_enabled=value)

    @property
    def tags(self) -> SessionTags:
        """The tags on what this session retains from now on: a set."""
        return SessionTags(self)

    @tags.setter
    def tags(self, values: Collection[str]) -> None:
        self.tags.become(values)

    def skip_next(self) -> None:
        """Keeps the next run from being retained, for good. Recall and the tools go on."""
        self.change(skip=NEXT)

    def alias(self) -> Alias:
        """The session as a sub-agent has it: its tools work on the same bank, and nothing happens on its own."""
        return Alias(self)

    def change(self, **changed: Any) -> None:
        """Notes a change of the user's; tags come as `added` and `removed`."""
        with self._serial:
            if self._closed:
                raise UsageError(f"the session {self.id!r} is closed: what is changed of it would be lost")
            self._chosen.change(changed)

    @property
    def choices(self) -> Choices:
        """What the user has chosen for it, as it holds now."""
        if self._home.opened().off:
            return UNREADABLE
        with self._serial:
            if self._chosen.stored is None:
                self._chosen.stored = self._read()
            return self._chosen.now(self._chosen.stored)

    def refusal(self, tool: ToolName) -> str | None:
        """Why the mode forbids a tool, in words for the model: the mode as it is now, whoever has set it."""
        with self._serial:
            if not self._home.opened().off:
                self._chosen.stored = self._read()
            return refusal(self.mode, tool)

    def forgotten(self) -> None:
        """Something of the bank was deleted: what was recalled for the running turn is not shown again."""
        with self._serial:
            self._turn = Turn()

    def missed(self, verb: str, error: Exception) -> None:
        """Tells of a failure that must not reach the host; raises it where the application wants that."""
        connections, bank = self._home.opened(), self._home.scope.bank
        logger.warning("%s of a session of bank %s failed: %s", verb, bank, type(error).__name__)
        connections.tell(Skipped(bank, verb, type(error).__name__))
        self._raise(error)

    def after_fork(self) -> None:
        """No thread of the parent holds a lock here, or answers a recall."""
        self._serial = threading.RLock()
        self._turn = Turn()

    @property
    def _settings(self) -> Any:
        return self._home.settings

    @property
    def _off(self) -> bool:
        if self._closed:
            raise UsageError(f"the session {self.id!r} is closed: open it again with bank.session({self.id!r})")
        return self._home.opened().off

    def _injection(self, call: Call, recorded: Recorded, until: float) -> Injection:
        """Prefix and memories for a call, by the moment `until`."""
        position, turn = self._settings.recall.position, self._turn_of(recorded, call)
        if turn is not None:
            self._recalling.ask(turn)
        prefix, models = self._prefix.text(recorded.choices.mode, call.offer or self.offer, until - self._ticks())
        if turn is None:
            return Injection(prefix, position=position, mental_models=models)
        over = turn.over
        self._recalling.serve(turn, self._seen(call, recorded), until - self._ticks())
        if not over:
            self._look(turn)
        return Injection(prefix, turn.memories, turn.result, position, models)

    def _record(self, call: Call, verb: str) -> Recorded:
        """Records a call; where that fails the turn goes on with what was known of the session."""
        try:
            recorded = self._recorder.record(call, self._chosen.changed)
        except LorebankError as error:
            self.missed(verb, error)
            return Recorded(
                self._chosen.stored or UNREADABLE, (0, b""), TurnReceipt(reason=f"not recorded: {type(error).__name__}")
            )
        self._chosen.settle(recorded.choices)
        self._recent.add(call, recorded.fresh)
        self._tell(recorded)
        return recorded

    def _tell(self, recorded: Recorded) -> None:
        tell, bank, receipt = self._home.opened().tell, self._home.scope.bank, recorded.receipt.receipt
        if not recorded.readable and not self._told:
            self._told = True
            logger.error("what was chosen for a session of bank %s can't be read: it is ignored", bank)
            tell(SessionUnreadable(bank, self.id))
        if receipt.redactions:
            tell(Redacted(bank, receipt.redactions))
        if len(receipt):
            counts = len(receipt.stored), len(receipt.duplicates), len(receipt.rejected), len(receipt.queued)
            tell(Retained(bank, *counts))

    def _turn_of(self, recorded: Recorded, call: Call) -> Turn | None:
        """The turn that a call belongs to; `None` where nothing is to be recalled."""
        recall = self._settings.recall
        number, newest = recorded.turn
        silent = not MATRIX[recorded.choices.mode].recall or not recall.auto_recall or recorded.turn == (AHEAD, b"")
        if silent or (recall.recall_when == "first-turn" and number > 1):
            return None
        if self._turn.key == (AHEAD, newest):
            self._turn.key = recorded.turn  # begun by `prefetch`
        elif self._turn.key != recorded.turn or not newest:
            self._turn = Turn(recorded.turn, self._recalling.query(self._recent.conversation(call)))
        return self._turn

    def _seen(self, call: Call, recorded: Recorded) -> Seen:
        listed = self._listed if call.full else Listed()
        return listed.seen(self.id, call, self._settings.retain, complete=recorded.complete)

    def _look(self, turn: Turn) -> None:
        """Keeps the trace of a turn once it is over; raises where the application wants to know that memory was not there."""
        keep = self._settings.recall.keep_traces
        if keep and turn.over and turn.trace is not None:
            try:
                self._recorder.trace(turn.trace.as_json(), keep)
            except LorebankError as error:
                self.missed("trace", error)
        if turn.result is not None and turn.result.state == "unavailable":
            self._raise(turn.error or UnavailableError("memory did not answer in time; it is asked in the background"))

    def _raise(self, error: Exception) -> None:
        if self._home.opened().on_failure == "raise":
            raise error

    def _drained(self) -> FlushReport:
        """Waits for the memory to take what was let go."""
        timeout = self._settings.connection.close_timeout
        return self._home.backend.sessions.drain(self._home.scope, self.id, timeout)

    def _read(self) -> Choices:
        try:
            choices, readable = self._recorder.choices({})
        except LorebankError as error:
            self.missed("session", error)
            return UNREADABLE
        if not readable:
            self._tell(Recorded(choices, (0, b""), TurnReceipt(), readable=False))
        return choices

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Session({self.id!r}, bank={self._home.scope.bank!r})"
