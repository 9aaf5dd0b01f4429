"""What a LangChain run tells about itself: its context, its `configurable` values, its metadata."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig

from lorebank.seams import BankResolver, resolve

if TYPE_CHECKING:
    from lorebank import Bank

LOOKED = "the run's context, then config['configurable'], then config['metadata']"


def bank_of(bank: Bank | BankResolver, config: RunnableConfig | None) -> Bank:
    """The bank of a run. With `per_user`, a run without its user is a `UsageError` that says where it was looked for."""
    return resolve(bank, run_of(config), looked=LOOKED) if isinstance(bank, BankResolver) else bank


def run_of(config: RunnableConfig | None) -> dict[str, Any]:
    """What the run says of itself, by name; context wins over `configurable`, that over metadata."""
    given = config or {}
    return _named(given.get("metadata")) | _named(given.get("configurable")) | _named(_context())


def config_of_run() -> RunnableConfig | None:
    """The config of the LangGraph run that this code is in."""
    module = sys.modules.get("langgraph.config")
    if module is None:
        return None
    try:
        return cast("RunnableConfig", module.get_config())
    except RuntimeError:  # not inside a graph
        return None


def observed_run(config: RunnableConfig | None) -> str | None:
    """The root run as a `MemoryCallbackHandler` of this run knows it: what both observe is recorded once."""
    manager = (config or {}).get("callbacks")
    for handler in getattr(manager, "handlers", ()):
        root = getattr(handler, "root_of", None)
        if root is not None and (found := root(getattr(manager, "parent_run_id", None))) is not None:
            return str(found)
    return None


def _context() -> object:
    """The LangGraph run's context, inside a graph."""
    runtime = sys.modules.get("langgraph.runtime")
    if runtime is None:
        return None
    try:
        return runtime.get_runtime().context
    except (AttributeError, KeyError, RuntimeError):  # not inside a graph
        return None


def _named(values: object) -> dict[str, Any]:
    if isinstance(values, Mapping):
        pairs = {str(name): value for name, value in values.items()}
    elif is_dataclass(values):
        pairs = {each.name: getattr(values, each.name) for each in fields(values)}
    else:
        pairs = dict(getattr(values, "__dict__", {}))
    return {name: value for name, value in pairs.items() if not name.startswith("_") and value is not None}
