"""What others lend to lorebank: backends, models, users of runs, hooks. Any object of the right shape will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from lorebank._domain.item import Item
from lorebank._domain.memory import Memory, RecallResult, Receipt, Reflection, Removal, Writer
from lorebank._domain.mental_model import MentalModel, Revision
from lorebank._domain.message import Message
from lorebank._domain.requests import (
    Change,
    FlushReport,
    Health,
    Integrity,
    ListRequest,
    RecallRequest,
    ReflectRequest,
    Selection,
    Stats,
)
from lorebank._domain.scope import Scope, Scoping

if TYPE_CHECKING:
    from lorebank._bank import Bank

History = Literal["full", "delta"]


@runtime_checkable
class BankResolver(Protocol):
    """Gives the bank of one run. `run` holds what the host knows of it (`user_id`, ...); `UsageError` where that is missing."""

    def bank(self, run: Mapping[str, Any]) -> Bank: ...


@runtime_checkable
class Completer(Protocol):
    """Writes text from a prompt. With `schema` (a JSON Schema) the text is JSON that follows it."""

    def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None, max_tokens: int) -> str: ...


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts, each `dimensions` long; `name` tells models apart, since their vectors don't mix."""

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def embed(self, texts: Sequence[str], *, kind: Literal["query", "passage"]) -> Sequence[Sequence[float]]: ...


@runtime_checkable
class BeforeTurn(Protocol):
    """Called before the model answers a user turn; gives what to put in front of it."""

    def __call__(self, messages: Sequence[Message], *, history: History, run_id: str | None = None) -> object: ...


@runtime_checkable
class AfterTurn(Protocol):
    """Called after the agent or chain ended, with what was said."""

    def __call__(self, messages: Sequence[Message], *, history: History, run_id: str | None = None) -> object: ...


class MentalModels(Protocol):
    """A backend's mental models. Unknown ids raise `MissingError`, an existing id on `create` a `RefusedError`."""

    def list(self, scope: Scope) -> tuple[MentalModel, ...]: ...
    def get(self, scope: Scope, model_id: str) -> MentalModel: ...
    def create(self, scope: Scope, model: MentalModel) -> MentalModel: ...
    def update(self, scope: Scope, model_id: str, fields: Mapping[str, Any]) -> MentalModel: ...
    def refresh(self, scope: Scope, model_id: str) -> MentalModel: ...
    def history(self, scope: Scope, model_id: str) -> tuple[Revision, ...]: ...
    def delete(self, scope: Scope, model_id: str) -> None: ...


@runtime_checkable
class Backend(Protocol):
    """What keeps the memories. Blocking, safe from several threads at once; errors are lorebank's own.

    `scope` turns a base name, a scoping and a project's label into where this backend writes and reads. Reads of an
    unknown bank find nothing.
    """

    @property
    def name(self) -> Literal["mnemopi", "hindsight"]: ...
    @property
    def models(self) -> MentalModels: ...
    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope: ...
    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt: ...
    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult: ...
    def reflect(self, scope: Scope, request: ReflectRequest) -> Reflection: ...
    def get(self, scope: Scope, memory_id: str) -> Memory: ...
    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]: ...
    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory: ...
    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory: ...
    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal: ...
    def clear(self, scope: Scope) -> Removal: ...
    def purge(self) -> str | None: ...
    def stats(self, scope: Scope) -> Stats: ...
    def health(self) -> Health: ...
    def check(self, scope: Scope) -> Integrity: ...
    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport: ...
    def close(self, timeout: float) -> None: ...
