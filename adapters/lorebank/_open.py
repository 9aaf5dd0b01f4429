"""`open_bank` and `per_user`: how users get a bank."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import SecretStr

from lorebank._bank import Bank
from lorebank._connections import AllSettings, Connections, OnFailure, find_backend, off, switched_off
from lorebank._domain.events import Listener
from lorebank._domain.memory import parse_name
from lorebank._domain.ports import Backend, BankResolver, Completer, Embedder
from lorebank._domain.scope import Scoping, parse_bank_id, parse_scoping
from lorebank._domain.settings import (
    ConnectionSettings,
    MentalModelSettings,
    MnemopiSettings,
    OutboxSettings,
    RecallSettings,
    RetainSettings,
)
from lorebank._project import project_label
from lorebank._spans import spanned
from lorebank.errors import UnsupportedError, UsageError

Given = Mapping[str, Any] | None


def open_bank(
    url: str | None = None,
    *,
    bank: str = "default",
    api_key: str | SecretStr | None = None,
    backend: Backend | None = None,
    scoping: Scoping | None = None,
    project: str | None = None,
    shared: str | None = None,
    completer: Completer | None = None,
    embedder: Embedder | Literal["wordllama", "minilm"] | None = None,
    ledger: str | None = None,
    on_event: Listener | None = None,
    on_failure: OnFailure = "skip",
    connection: ConnectionSettings | Given = None,
    recall: RecallSettings | Given = None,
    retain: RetainSettings | Given = None,
    outbox: OutboxSettings | Given = None,
    mental_models: MentalModelSettings | Given = None,
    mnemopi: MnemopiSettings | Given = None,
) -> Bank:
    """Opens a bank; the file is opened, or the server asked, by the first verb.

    `url` is `sqlite:///memory.db` for a file of your choice, `postgresql://user:password@host/database` where several machines
    share banks (extra `postgres`), or the address of a Hindsight server; without one,
    `LOREBANK_URL`, `HINDSIGHT_API_URL` and the default file in the user's data directory are tried in that order.
    `LOREBANK_URL=off` switches memory off whatever is passed. `api_key` is the server's; without one,
    `HINDSIGHT_API_KEY` and `HINDSIGHT_API_TOKEN` are tried. `ledger` (a `sqlite:///` URL) is where writes wait for the
    server; without one, beside the default file. `project` (or `"auto"`) with `scoping` parts memories by project;
    `shared` names a bank that is read beside this one. A `completer` (any model of the shape `lorebank.seams.Completer`)
    writes a file's reflections and mental models; without one they are ranked memories. An `embedder` (any object of the
    shape `lorebank.seams.Embedder`, or `"wordllama"` or `"minilm"`, which the extras `embeddings` and `dense` bring) lets a
    file's memories be found by meaning, too. `on_event` hears what happens on its own. Settings are models or mappings. Raises
    `UsageError` for bad values.

    >>> bank = open_bank("sqlite:///memory.db", bank="alice")
    >>> bank = open_bank("https://hindsight.example", bank="alice", api_key="...")
    """
    _check_places(url, backend, ledger)
    _check_lent(backend, completer=completer, embedder=embedder)
    if on_failure not in ("skip", "raise"):
        raise UsageError(f"`on_failure` must be skip or raise; found {on_failure!r}")
    if on_event is not None and not callable(on_event):
        raise UsageError(f"`on_event` must be a function of an event; found {type(on_event).__name__}")
    silent = switched_off()
    label = project_label(None if silent and project == "auto" else project)
    chosen = parse_scoping(None if silent else scoping, label)
    settings = AllSettings(
        _keyed(ConnectionSettings.parse(connection), api_key),
        RecallSettings.parse(recall),
        RetainSettings.parse(retain),
        OutboxSettings.parse(outbox),
        MentalModelSettings.parse(mental_models),
        MnemopiSettings.parse(mnemopi),
    )
    found = off() if silent else spanned(backend or find_backend(url, settings, ledger, completer, embedder))
    connections = Connections(found, settings, (on_event,) if on_event else (), on_failure)
    home = None if shared is None else parse_bank_id(shared, "shared")
    return Bank(connections, parse_bank_id(bank), scoping=chosen, label=label, shared=home)


def _check_places(url: object, backend: object, ledger: object) -> None:
    """Where memories and the ledger are to be: of the right kinds, and not said twice."""
    for name, value in (("url", url), ("ledger", ledger)):
        if value is not None and not isinstance(value, str):
            raise UsageError(f"`{name}` must be text; found {type(value).__name__}")
    if backend is None:
        return
    if not isinstance(backend, Backend):
        raise UsageError(f"`backend` must have the verbs of `lorebank.seams.Backend`; found {type(backend).__name__}")
    if url is not None:
        raise UsageError("pass a `url` or a `backend`, not both")
    if ledger is not None:
        raise UnsupportedError("`ledger` is for the backend of a server's URL: give your `backend` its own")


def _check_lent(backend: object, **lent: object) -> None:
    """A backend that was passed has its own completer and embedder, or none."""
    for name, value in lent.items():
        if backend is not None and value is not None:
            raise UnsupportedError(f"`{name}` is for a file's URL: give your `backend` its own")


def _keyed(settings: ConnectionSettings, api_key: str | SecretStr | None) -> ConnectionSettings:
    """The connection's settings with the key: the argument, else `HINDSIGHT_API_KEY`, else `HINDSIGHT_API_TOKEN`."""
    key = api_key or settings.api_key or os.environ.get("HINDSIGHT_API_KEY") or os.environ.get("HINDSIGHT_API_TOKEN")
    secret = SecretStr(key) if isinstance(key, str) else key
    return settings if secret is None else settings.model_copy(update={"api_key": secret})


class _PerUser:
    """Gives each run the bank that is named after its user."""

    def __init__(self, bank: Bank, key: str) -> None:
        self.source, self.key = bank, key

    def bank(self, run: Mapping[str, Any]) -> Bank:
        user = run.get(self.key)
        if user is None or user == "":
            seen = ", ".join(map(repr, sorted(run))) or "nothing"
            raise UsageError(f"this run names no {self.key!r}, so its memory can't be told from others'; the run has {seen}")
        if not isinstance(user, str):
            raise UsageError(f"{self.key!r} must be text; found {type(user).__name__}")
        return self.source.named(user)


def per_user(bank: Bank, key: str = "user_id") -> BankResolver:
    """A resolver for integrations: each run gets `bank.named(<that run's user>)`. A run without one is a `UsageError`."""
    if not isinstance(bank, Bank):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
        raise UsageError(f"`per_user` takes a bank (open_bank()); found {type(bank).__name__}")
    return _PerUser(bank, parse_name(key, "key"))
