"""A backend that has no verb yet: what somebody's own backend starts from, and what memory that is off is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NoReturn

from lorebank._domain.events import Listener
from lorebank._domain.requests import FlushReport, Health
from lorebank._domain.scope import Scope, Scoping, scope_by_bank
from lorebank.errors import LorebankError, UnsupportedError


def _verb(name: str) -> Any:
    """A method that is not there: calling it raises what its owner says of it."""

    def refuse(self: _Port | PartialBackend, *_args: Any, **_fields: Any) -> NoReturn:
        raise self.refusal(name)

    refuse.__name__ = name
    return refuse


class _Port:
    """One of a backend's ports, without a verb."""

    def __init__(self, name: str, refusal: Callable[[str], LorebankError]) -> None:
        self._name, self._refusal = name, refusal

    def refusal(self, verb: str) -> LorebankError:
        return self._refusal(f"{self._name}.{verb}")

    list, get, create, update, delete = (_verb(name) for name in ("list", "get", "create", "update", "delete"))
    refresh, history, retry, cancel = (_verb(name) for name in ("refresh", "history", "retry", "cancel"))
    status, requeue, purge, reroute = (_verb(name) for name in ("status", "requeue", "purge", "reroute"))
    write, read, drain, dump, load = (_verb(name) for name in ("write", "read", "drain", "dump", "load"))


class _Lacking:
    """A port that is not there until a backend sets one of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, backend: PartialBackend | None, kind: type) -> Any:
        return self if backend is None else _Port(self._name, backend.refusal)


def _port(name: str) -> Any:
    return _Lacking(name)


class PartialBackend:
    """What a backend of your own starts from. Subclass it and write the verbs of `lorebank.seams.Backend` that yours has; each
    other one raises an `UnsupportedError` that names it.

    Tools and retrievers need `retain` and `recall`; all that recalls and retains on its own needs the port `sessions`, too: a
    `lorebank.seams.SessionFile` will do. `name` says whose manners a backend has: `mnemopi` where memories are there when
    `retain` returns, `hindsight` where they are queued. A project has a bank of its own unless `scope` is written otherwise.

    >>> class Forgetful(PartialBackend):
    ...     def retain(self, scope, items, writer):
    ...         return Receipt(rejected=tuple(Outcome(None, "I keep nothing") for _ in items))
    """

    name: Literal["mnemopi", "hindsight"] = "mnemopi"
    models, documents, operations, directives = (_port(name) for name in ("models", "documents", "operations", "directives"))
    outbox, sessions, archive = (_port(name) for name in ("outbox", "sessions", "archive"))
    retain, recall, reflect, get, list = (_verb(name) for name in ("retain", "recall", "reflect", "get", "list"))
    update, invalidate, revalidate = (_verb(name) for name in ("update", "invalidate", "revalidate"))
    forget, clear, entities = (_verb(name) for name in ("forget", "clear", "entities"))
    purge, consolidate, stats, check, tags = (_verb(name) for name in ("purge", "consolidate", "stats", "check", "tags"))

    def refusal(self, verb: str) -> LorebankError:
        """What is raised where `verb` is called, and nobody has written it."""
        return UnsupportedError(f"the backend `{type(self).__name__}` has no `{verb}`: write it, or do without")

    def announce(self, tell: Listener) -> None:
        """Hears where events go; nothing happens here on its own."""

    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope:
        return scope_by_bank(base, scoping, label)

    def health(self) -> Health:
        return Health(True, self.name, type(self).__name__)

    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport:
        """Nothing is on its way."""
        del timeout, until
        return FlushReport()

    def close(self, timeout: float) -> None:
        """Nothing is open."""
