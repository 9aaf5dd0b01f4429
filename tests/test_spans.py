"""OpenTelemetry: what a backend is asked shows in the application's traces, without content; nothing is in the way elsewhere."""

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from lorebank import Bank, Message, MissingError, UnavailableError, open_bank
from lorebank._spans import Spanned
from lorebank.testing import FaultServer

TOLD = "The spare key is at Rui's."


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What was traced by an application that traces."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def traced(spans: InMemorySpanExporter, url: str) -> Iterator[Bank]:
    with open_bank(url, bank="alice") as bank:
        yield bank


def named(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    """The one span of a name."""
    [found] = [span for span in spans.get_finished_spans() if span.name == name]
    return found


def test_a_verb_is_a_span_with_counts(traced: Bank, spans: InMemorySpanExporter) -> None:
    traced.retain([TOLD, TOLD])
    traced.recall("Who has the spare key?")
    assert dict(named(spans, "lorebank.retain").attributes or {}) == {
        "lorebank.backend": "mnemopi",
        "lorebank.bank": "alice",
        "lorebank.stored": 1,
        "lorebank.duplicates": 1,
        "lorebank.queued": 0,
        "lorebank.rejected": 0,
        "lorebank.redactions": 0,
    }
    recalled = named(spans, "lorebank.recall")
    assert (recalled.attributes or {})["lorebank.state"] == "found"
    assert (recalled.attributes or {})["lorebank.memories"] == 1
    assert recalled.kind is SpanKind.INTERNAL


def test_no_content_is_traced(traced: Bank, spans: InMemorySpanExporter) -> None:
    """Nor in what failed."""
    known = traced.retain(TOLD).stored[0].id
    traced.recall("Who has the spare key?")
    traced.list()
    traced.update(known or "", content=TOLD.upper())
    traced.forget(known or "")
    with pytest.raises(MissingError):
        traced.get("no such id")
    told = " ".join(span.to_json() for span in spans.get_finished_spans())
    assert len(spans.get_finished_spans()) == 6
    assert not any(word in told.lower() for word in ("spare", "rui's"))


def test_an_awaited_verb_is_a_child_of_the_span_that_awaits(traced: Bank, spans: InMemorySpanExporter) -> None:
    async def run() -> None:
        with trace.get_tracer_provider().get_tracer("app").start_as_current_span("turn"):
            await traced.aretain(TOLD)

    asyncio.run(run())
    parent = named(spans, "lorebank.retain").parent
    assert parent is not None
    assert parent.span_id == (named(spans, "turn").context or parent).span_id


def test_a_session_recalls_in_a_span(traced: Bank, spans: InMemorySpanExporter) -> None:
    traced.retain(TOLD)
    with traced.session("s") as session:
        session.before_turn([Message("user", "Who has the spare key?")])
    assert (named(spans, "lorebank.recall").attributes or {})["lorebank.state"] == "found"


def test_an_outage_is_an_error(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    """Of a call to somebody else."""
    with FaultServer() as server:
        address = server.url
    with open_bank(address, bank="alice", ledger=f"sqlite:///{tmp_path / 'ledger.db'}") as bank, pytest.raises(UnavailableError):
        bank.recall("Who has the spare key?")
    found = named(spans, "lorebank.recall")
    assert (found.kind, found.status.status_code) == (SpanKind.CLIENT, StatusCode.ERROR)


def test_a_traced_bank_pickles(traced: Bank, spans: InMemorySpanExporter) -> None:
    """Where it arrives it is traced if that process traces."""
    with pickle.loads(pickle.dumps(traced)) as copy:  # noqa: S301 - our own bytes
        copy.retain(TOLD)
    assert isinstance(copy._connections.backend, Spanned)
    assert named(spans, "lorebank.retain")


def test_an_application_that_does_not_trace_loads_nothing(url: str) -> None:
    """And its backend is the plain one."""
    code = f"""
import json, sys
from lorebank import open_bank
with open_bank({url!r}) as bank:
    bank.retain("I play the cello.")
    print(json.dumps([type(bank._connections.backend).__name__, "opentelemetry" in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["MnemopiBackend", False]
