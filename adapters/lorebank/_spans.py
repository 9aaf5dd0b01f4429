"""OpenTelemetry spans of what a backend is asked, in applications that trace: which verb, which bank, how many, how it ended.
Never content.

An application traces when it has set a tracer provider before it opens its bank. Where it has not, nothing is imported and
nothing is in the way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, cast

from lorebank._domain.memory import RecallResult, Receipt, Removal
from lorebank._domain.ports import Backend
from lorebank._domain.scope import Scope

VERBS = frozenset(
    """
    retain recall reflect get list tags update invalidate revalidate entities forget clear purge consolidate stats health check
    flush
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
"""The verbs of the port that are spans, each named `lorebank.<verb>`."""


def spanned(backend: Backend) -> Backend:
    """The backend, with spans around its verbs where the application traces."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return backend
    return cast("Backend", Spanned(backend, api.get_tracer("lorebank"), api.SpanKind))


class Spanned:
    """A backend that is traced; what is no verb is the backend's own."""

    def __init__(self, backend: Backend, tracer: Any, kinds: Any) -> None:
        self._backend, self._tracer = backend, tracer
        self._kind = kinds.CLIENT if backend.name == "hindsight" else kinds.INTERNAL

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        return wraps(found)(partial(self._in_span, name, found)) if name in VERBS else found

    def __reduce__(self) -> tuple[Callable[[Backend], Backend], tuple[Backend]]:
        return spanned, (self._backend,)

    def _in_span(self, verb: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        asked: dict[str, str] = {"lorebank.backend": self._backend.name}
        if arguments and isinstance(arguments[0], Scope):
            asked["lorebank.bank"] = arguments[0].bank
        with self._tracer.start_as_current_span(f"lorebank.{verb}", kind=self._kind, attributes=asked) as span:
            result = call(*arguments, **named)
            span.set_attributes({f"lorebank.{name}": value for name, value in told(result).items()})
            return result


def told(result: object) -> Mapping[str, str | int]:
    """What a span says of a result: states and counts."""
    if isinstance(result, RecallResult):
        return {"state": result.state, "memories": len(result.memories)}
    if isinstance(result, Receipt):
        names = ("stored", "queued", "duplicates", "rejected")
        return {name: len(getattr(result, name)) for name in names} | {"redactions": result.redactions}
    if isinstance(result, Removal):
        return {"removed": len(result.ids)}
    return {"memories": len(cast("tuple[object, ...]", result))} if isinstance(result, tuple) else {}
