"""What the handles of one `open_bank` share: the backend, the threads, the listeners, and whether they are closed."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from lorebank._domain.events import Event, Listener
from lorebank._domain.settings import (
    ConnectionSettings,
    MentalModelSettings,
    MnemopiSettings,
    OutboxSettings,
    RecallSettings,
    RetainSettings,
)
from lorebank._off import OffBackend
from lorebank._twins import Threads
from lorebank.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from lorebank._domain.ports import Backend, Completer, Embedder
    from lorebank._domain.scope import Scope

logger = logging.getLogger("lorebank")
OnFailure = Literal["skip", "raise"]
_hearing: ContextVar[tuple[Listener, ...]] = ContextVar("lorebank_hearing", default=())


@contextmanager
def heard_by(listener: Listener) -> Generator[None]:
    """Tells a listener what the code inside causes, also in the bank's threads: how a host's run gets it into its own trace."""
    token = _hearing.set((*_hearing.get(), listener))
    try:
        yield
    finally:
        _hearing.reset(token)


@dataclass(frozen=True, slots=True)
class AllSettings:
    """Every setting of a bank, by concern."""

    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    retain: RetainSettings = field(default_factory=RetainSettings)
    outbox: OutboxSettings = field(default_factory=OutboxSettings)
    mental_models: MentalModelSettings = field(default_factory=MentalModelSettings)
    mnemopi: MnemopiSettings = field(default_factory=MnemopiSettings)


class Connections:
    """A backend with the threads that serve it. Pickling keeps the settings and drops the listeners."""

    def __init__(
        self, backend: Backend, settings: AllSettings, listeners: tuple[Listener, ...] = (), on_failure: OnFailure = "skip"
    ) -> None:
        self.backend = backend
        self.settings = settings
        self.listeners = listeners
        self.on_failure: OnFailure = on_failure
        self.threads = Threads("lorebank-verb")
        self.sessions: Any = None  # what sessions share; made by the first of them
        self.closed = False
        backend.announce(self.tell)
        if backend.name == "hindsight":
            _delivering.add(self)

    @property
    def off(self) -> bool:
        """Whether memory is switched off."""
        return isinstance(self.backend, OffBackend)

    def tell(self, event: Event) -> None:
        """Tells the listeners, those of the running code too; one that fails is logged and never breaks the call."""
        for listener in (*self.listeners, *_hearing.get()):
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s", type(event).__name__)

    def close(self) -> None:
        """Closes all, once. What sessions are recording in the background is recorded first."""
        if not self.closed:
            self.threads.settle(("session", "local"), self.settings.connection.close_timeout)
            if self.sessions is not None:
                self.sessions.save()
            self.closed = True
            try:
                self.backend.close(self.settings.connection.close_timeout)
            finally:
                self.threads.close()

    def __getstate__(self) -> tuple[Backend, AllSettings, tuple[Listener, ...], OnFailure]:
        return self.backend, self.settings, (), self.on_failure

    def __setstate__(self, state: tuple[Backend, AllSettings, tuple[Listener, ...], OnFailure]) -> None:
        self.__init__(*state)  # type: ignore[misc]


_delivering: weakref.WeakSet[Connections] = weakref.WeakSet()
"""Connections to servers: their outboxes may hold writes when the interpreter ends."""


@atexit.register
def _close_all() -> None:
    """A script that forgets `close()` still delivers, within `close_timeout`; what is left stays in the ledger."""
    for connections in list(_delivering):
        with suppress(Exception):
            connections.close()


def find_backend(
    url: str | None,
    settings: AllSettings,
    ledger: str | None = None,
    completer: Completer | None = None,
    embedder: Embedder | str | None = None,
) -> Backend:
    """The backend of a URL: the argument, else `LOREBANK_URL`, else `HINDSIGHT_API_URL`, else the default file.

    `ledger` is the URL of the database that a server's outbox lives in. `LOREBANK_URL=off` wins over everything.
    """
    found = url or os.environ.get("LOREBANK_URL") or _server_url() or default_url()
    scheme = urlsplit(found).scheme.lower()
    if scheme in ("http", "https"):
        if completer is not None:
            raise UnsupportedError("Hindsight takes no `completer`: the server has a model of its own; leave it out")
        if embedder is not None:
            raise UnsupportedError("Hindsight takes no `embedder`: the server has one of its own; leave it out")
        from lorebank._delivery.backend import OutboxBackend  # httpx and SQLAlchemy load when a bank is opened

        return OutboxBackend(
            found, settings.connection, settings.retain, settings.outbox, ledger=_checked_ledger(ledger or default_ledger())
        )
    if ledger is not None:
        raise UnsupportedError("Mnemopi takes no `ledger`: it writes directly, and keeps its own tables in the bank's database")
    if scheme != "sqlite" and not scheme.startswith("postgresql"):
        raise UsageError(
            f"`url` must begin with sqlite:///, postgresql://, https:// or http://; found {_without_secrets(found)!r}"
        )
    from lorebank._mnemopi.backend import MnemopiBackend  # SQLAlchemy and numpy load when a bank is opened

    return MnemopiBackend(found, settings.mnemopi, completer=completer, embedder=embedder)


def _server_url() -> str | None:
    """`HINDSIGHT_API_URL`, which names a server and nothing else."""
    found = os.environ.get("HINDSIGHT_API_URL")
    if found and urlsplit(found).scheme.lower() not in ("http", "https"):
        raise UsageError(f"HINDSIGHT_API_URL must begin with https:// or http://; found {_without_secrets(found)!r}")
    return found


def _checked_ledger(ledger: str) -> str:
    scheme = urlsplit(ledger).scheme.lower()
    if scheme.startswith("postgresql"):
        raise UnsupportedError("this release of lorebank keeps its ledger in SQLite only: use a sqlite:/// URL")
    if not ledger.startswith("sqlite:///"):
        raise UsageError(f"`ledger` must begin with sqlite:///; found {_without_secrets(ledger)!r}")
    return ledger


def switched_off() -> bool:
    """Whether the kill switch is on."""
    return os.environ.get("LOREBANK_URL", "").strip().lower() == "off"


def off() -> Backend:
    return OffBackend()


def default_url() -> str:
    """The default file, in the user's data directory."""
    return f"sqlite:///{data_folder() / 'memory.db'}"


def default_ledger() -> str:
    """The default ledger, beside the default file."""
    return f"sqlite:///{data_folder() / 'ledger.db'}"


def data_folder() -> Path:
    """Where this platform keeps a user's data, for lorebank."""
    home = Path.home()
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "lorebank"
    if (home / "Library" / "Application Support").is_dir():
        return home / "Library" / "Application Support" / "lorebank"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "lorebank"


def _without_secrets(url: str) -> str:
    return url.rsplit("@", maxsplit=1)[-1] if "@" in url else url


class Opened(Protocol):
    """A bank, as far as the bodies of its verbs in other files need it."""

    @property
    def connections(self) -> Connections: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def threads(self) -> Threads: ...
