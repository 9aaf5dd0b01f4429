"""What may be an embedder: an object with the port's members, or the name of one that is built in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import cast

from lorebank._domain.ports import Embedder
from lorebank._mnemopi.embedders import minilm, wordllama
from lorebank.errors import UsageError

MAX_DIMENSIONS = 8192
BUILT_IN: Mapping[str, Callable[[], Embedder]] = {wordllama.NAME: wordllama.WordLlama, minilm.NAME: minilm.MiniLM}


def checked(embedder: object) -> Embedder | None:
    """The embedder, or the built-in one of this name; `UsageError` for anything else."""
    if embedder is None:
        return None
    if isinstance(embedder, str):
        if embedder not in BUILT_IN:
            raise UsageError(f"`embedder` by name must be {' or '.join(map(repr, BUILT_IN))}; found {embedder!r}")
        return BUILT_IN[embedder]()
    embed = getattr(embedder, "embed", None)
    if isinstance(embedder, type) or not callable(embed) or not _takes(embed):
        raise UsageError(
            "`embedder` must be 'wordllama', 'minilm' or an object with `name`, `dimensions` and `embed(texts, *, kind)` "
            f"(lorebank.seams.Embedder); found {_named(embedder)}"
        )
    if inspect.iscoroutinefunction(embed):
        raise UsageError("`embedder.embed` must be a plain function, not an async one: lorebank calls it in a thread of its own")
    _check_identity(embedder)
    return cast("Embedder", embedder)


def _check_identity(embedder: object) -> None:
    name, dimensions = getattr(embedder, "name", None), getattr(embedder, "dimensions", None)
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise UsageError(f"`embedder.name` must be text of 1 to 200 characters that names its model; found {name!r}")
    if not isinstance(dimensions, int) or isinstance(dimensions, bool) or not 0 < dimensions <= MAX_DIMENSIONS:
        raise UsageError(f"`embedder.dimensions` must be a number from 1 to {MAX_DIMENSIONS}; found {dimensions!r}")


def _named(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _takes(embed: Callable[..., object]) -> bool:
    """Whether it can be called as an embedder; one that does not tell is believed."""
    try:
        inspect.signature(embed).bind([""], kind="query")
    except TypeError:
        return False
    except ValueError:
        return True
    return True
