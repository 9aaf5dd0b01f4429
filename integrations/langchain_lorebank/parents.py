"""Which conversation a tool runs for: whoever remembers inside it is a sub-agent, and shares its parent's session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from lorebank import Bank, Session
from lorebank.seams import Alias

_parents: ContextVar[Mapping[object, Session] | None] = ContextVar("lorebank_parents", default=None)


def parent_of(bank: Bank) -> Alias | None:
    """The session of the agent whose tool is running, as a sub-agent has it; `None` outside of tools."""
    session = (_parents.get() or {}).get(_key(bank))
    return None if session is None else session.alias()


@contextmanager
def as_parent(bank: Bank, session: Session) -> Iterator[None]:
    """What runs inside works for this session."""
    token = _parents.set({**(_parents.get() or {}), _key(bank): session})
    try:
        yield
    finally:
        _parents.reset(token)


def _key(bank: Bank) -> object:
    return id(bank.connections), bank.scope
