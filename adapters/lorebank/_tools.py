"""The memory tools at work: one body for both frameworks.

A reply is the text for the model and an artifact for the application.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from lorebank._domain.events import Recalled, Retained, Skipped
from lorebank._domain.memory import TOOL, Memory, Receipt
from lorebank._domain.ports import BankResolver
from lorebank._domain.toolbook import (
    DEFAULT_TOOLS,
    TOOLBOOK,
    ToolName,
    edit_text,
    queued_text,
    recall_text,
    reflect_text,
    retain_text,
)
from lorebank._twins import Threads, twin
from lorebank.errors import LorebankError, MissingError, OutboxFullError, UnavailableError, UsageError

if TYPE_CHECKING:
    from lorebank._bank import Bank
    from lorebank._session.alias import Alias
    from lorebank._session.session import Session

logger = logging.getLogger("lorebank")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool says to the model, and the plain data behind it."""

    text: str
    artifact: dict[str, Any]

    def __str__(self) -> str:
        return self.text


class ToolFailure(Exception):  # noqa: N818 - it is what the model reads, not what the program handles
    """A failure as a short plain sentence for the model; the cause is chained."""


def offered(include: Sequence[str] | None, bank: Bank | BankResolver) -> tuple[ToolName, ...]:
    """The names of the tools to offer: by default retain, recall and reflect, and `retain_global` where a bank with a
    shared one is given. `memory_edit` must be asked for.
    """
    shared = isinstance(bank, BankResolver) or bank.shared is not None
    if include is None:
        return (*DEFAULT_TOOLS, "retain_global") if shared and not isinstance(bank, BankResolver) else DEFAULT_TOOLS
    if isinstance(include, str) or not include:
        raise UsageError(f"`include` must be a list with at least one tool; found {include!r}")
    if unknown := [name for name in include if name not in TOOLBOOK]:
        raise UsageError(f"`include` names no tool {unknown[0]!r}; there are {', '.join(TOOLBOOK)}")
    if "retain_global" in include and not shared:
        raise UsageError("`retain_global` needs a shared bank: open_bank(..., shared='team')")
    return tuple(name for name in TOOLBOOK if name in include)


def _none() -> None:
    """Used in no session."""


class MemoryTools:
    """The tools of one bank. `editable` says that `memory_edit` is offered, so that ids are shown. What the mode of the
    session that they are used in forbids is refused; `session` gives it, as the run names it.

    A failure raises `ToolFailure`, which hosts hand to the model, unless the bank's `on_failure` is `"raise"`.
    """

    def __init__(self, bank: Bank, *, editable: bool = False, session: Callable[[], Session | Alias | None] = _none) -> None:
        self._bank, self._editable, self._session = bank, editable, session

    @property
    def threads(self) -> Threads:
        return self._bank.threads

    def retain(self, items: Sequence[Mapping[str, Any] | BaseModel]) -> ToolReply:
        """Saves items of `content` and `context` into the bank."""
        return self._guarded("retain", lambda: self._retained(self._bank, items))

    def retain_global(self, items: Sequence[Mapping[str, Any] | BaseModel]) -> ToolReply:
        """Saves items into the shared bank."""
        return self._guarded("retain_global", lambda: self._retained(self._shared(), items))

    def recall(self, query: str) -> ToolReply:
        """Searches the bank with the query as it is."""
        return self._guarded("recall", lambda: self._recalled(query))

    def reflect(self, query: str, context: str | None = None) -> ToolReply:
        """Answers a question from memory."""
        return self._guarded("reflect", lambda: self._reflected(query, context))

    def edit(
        self,
        operation: str,
        id: str,
        *,
        content: str | None = None,
        importance: float | None = None,
        replacement_id: str | None = None,
    ) -> ToolReply:
        """Updates, forgets or invalidates one memory."""
        arguments = {"content": content, "importance": importance, "replacement_id": replacement_id}
        return self._guarded("memory_edit", lambda: self._edited(operation, id, arguments))

    aretain = twin(retain, lane="local")
    aretain_global = twin(retain_global, lane="local")
    arecall = twin(recall)
    areflect = twin(reflect)
    aedit = twin(edit)

    def _shared(self) -> Bank:
        shared = self._bank.shared
        if shared is None:
            raise UsageError("no shared bank is configured: open_bank(..., shared='team')")
        return shared

    def _retained(self, bank: Bank, items: Sequence[Mapping[str, Any] | BaseModel]) -> ToolReply:
        receipt = bank.write([_without_blanks(item) for item in items], {}, TOOL)
        counts = len(receipt.stored), len(receipt.duplicates), len(receipt.rejected), len(receipt.queued)
        bank.connections.tell(Retained(bank.scope.bank, *counts))
        return ToolReply(
            retain_text(receipt, bank.backend),
            {"count": len(receipt.stored) + len(receipt.queued), "receipt": _plain_receipt(receipt)},
        )

    def _recalled(self, query: str) -> ToolReply:
        started = time.perf_counter()
        result = self._bank.recall(query)
        self._bank.connections.tell(Recalled(self._bank.scope.bank, len(result), time.perf_counter() - started))
        text = recall_text(result.memories, style=self._bank.backend, now=datetime.now(UTC), ids=self._editable)
        artifact = {"count": len(result), "memories": [plain(memory) for memory in result]}
        if not (queued := self._queued()):
            return ToolReply(text, artifact)
        return ToolReply(f"{text}\n\n{queued_text(queued)}", {**artifact, "queued": queued})

    def _queued(self) -> int:
        """Writes that are on their way; an outbox that can't be read takes nothing from what was recalled."""
        try:
            return self._bank.outbox.status().waiting
        except LorebankError as error:
            logger.warning("the outbox of bank %s could not be read: %s", self._bank.name, type(error).__name__)
            return 0

    def _reflected(self, query: str, context: str | None) -> ToolReply:
        answer = self._bank.reflect(query, context=context if context and context.strip() else None)
        return ToolReply(reflect_text(answer), {"count": len(answer.based_on), "memories": [plain(m) for m in answer.based_on]})

    def _edited(self, operation: str, id: str, arguments: Mapping[str, Any]) -> ToolReply:
        content, replacement = arguments["content"] or None, arguments["replacement_id"] or None
        if operation == "update":
            self._bank.update(id, content=content, importance=arguments["importance"])
        elif operation == "forget":
            self._bank.forget(id)
        elif operation == "invalidate":
            self._bank.invalidate(id, replacement=replacement)
        else:
            raise UsageError(f"`operation` must be update, forget or invalidate; found {operation!r}")
        return ToolReply(edit_text(operation, id, replacement if operation == "invalidate" else None), {"count": 1, "id": id})

    def _check_mode(self, verb: ToolName) -> None:
        """Refuses what the session's mode forbids."""
        session = self._session()
        if session is not None and (refused := session.refusal(verb)) is not None:
            self._bank.connections.tell(Skipped(self._bank.scope.bank, verb, f"the session is {session.mode}"))
            raise ToolFailure(refused)

    def _guarded(self, verb: ToolName, body: Callable[[], T]) -> T:
        """Lorebank's own errors become a sentence for the model, an event and a log line."""
        try:
            self._check_mode(verb)
            return body()
        except LorebankError as error:
            connections = self._bank.connections
            connections.tell(Skipped(self._bank.scope.bank, verb, type(error).__name__))
            logger.warning("tool %s failed on bank %s: %s", verb, self._bank.name, type(error).__name__)
            if connections.on_failure == "raise":
                raise
            raise ToolFailure(sentence(verb, error)) from error


def _without_blanks(item: Mapping[str, Any] | BaseModel) -> dict[str, Any]:
    """An item as a mapping, validated by its host or not, without a blank context: models send one when they have nothing
    to say.
    """
    given = item.model_dump() if isinstance(item, BaseModel) else item
    value = given.get("context")
    blank = value is None or (isinstance(value, str) and not value.strip())
    return {name: each for name, each in given.items() if not (name == "context" and blank)}


def sentence(verb: str, error: LorebankError) -> str:
    """A failure in words for the model; "unavailable" is never told as "nothing known"."""
    if isinstance(error, OutboxFullError):
        return f"{verb} was not done: too many writes are waiting for memory already, so nothing was saved. Try again later."
    if isinstance(error, UnavailableError):
        return f"Memory is unavailable right now, so {verb} could not be done. This does not mean that nothing is known."
    if isinstance(error, (UsageError, MissingError)):
        return f"{verb} was not done: {error}."
    return f"{verb} failed in the memory service."


def plain(memory: Memory) -> dict[str, Any]:
    """A memory as plain data, times as ISO text, empty fields left out."""
    return {name: _plain(value) for name, value in asdict(memory).items() if value not in (None, (), {}, False)}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(map(_plain, value)) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _plain_receipt(receipt: Receipt) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(receipt).items()}
