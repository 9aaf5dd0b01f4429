"""What a LlamaIndex run tells about itself: its instrument tags, and whose tool it runs in."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from llama_index_instrumentation.dispatcher import active_instrument_tags

from lorebank import Bank, Session
from lorebank.seams import Alias, BankResolver, RunSessions, resolve

LOOKED = 'the run\'s instrument tags: with instrument_tags({"user_id": ...})'
_parents: ContextVar[Mapping[object, Session] | None] = ContextVar("lorebank_parents", default=None)


def bank_of(bank: Bank | BankResolver) -> Bank:
    """The bank of the present run. With `per_user`, a run without its user is a `UsageError` that says where to put it."""
    return resolve(bank, run_tags(), looked=LOOKED) if isinstance(bank, BankResolver) else bank


def run_tags() -> dict[str, Any]:
    """The instrument tags of the present run."""
    return dict(active_instrument_tags.get())


def named_session() -> str | None:
    """What the present run calls its conversation."""
    return RunSessions.name_of(run_tags())


def parent_of(bank: Bank) -> Alias | None:
    """The session of the agent whose tool is running, as a sub-agent has it; `None` outside of tools."""
    session = (_parents.get() or {}).get(_key(bank))
    return None if session is None else session.alias()


@contextmanager
def as_parent(bank: Bank, session: Session | Alias) -> Generator[None]:
    """What runs inside works for this session; inside a sub-agent's tool it works for the first agent's still."""
    if isinstance(session, Alias):
        yield
        return
    token = _parents.set({**(_parents.get() or {}), _key(bank): session})
    try:
        yield
    finally:
        _parents.reset(token)


def _key(bank: Bank) -> object:
    return id(bank.connections), bank.scope
