"""Memory in chains on a real Hindsight server: a sample of the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hindsight_server import Hindsight

from lorebank import Bank, open_bank
from lorebank.seams import Event, Recalled

from .chain_rig import ANSWER, ASKED, KNOWN, SHAPES, Made, no_marks, run, run_traced, told

SAMPLE = [
    ("plain", "invoke"),
    ("plain", "astream_events"),
    ("nested", "batch"),
    ("parallel", "abatch"),
    ("history around", "ainvoke"),
    ("history inside", "stream"),
    ("embedded", "astream"),
    ("traced", "stream"),
]


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def filled(hindsight: Hindsight, bank_id: str, tmp_path: Path, events: list[Event]) -> Iterator[Bank]:
    """A bank on the real server that knows one thing."""
    options: dict[str, Any] = {"ledger": f"sqlite:///{tmp_path / 'ledger.db'}", "outbox": {"batch_seconds": 0.02}}
    with open_bank(hindsight.url, bank=bank_id, on_event=events.append, recall={"deadline": 20}, **options) as bank:
        bank.retain(KNOWN)
        assert bank.flush(timeout=60, until="completed").done
        yield bank


@pytest.mark.parametrize(("shape", "mode"), SAMPLE)
async def test_a_chain_remembers_on_the_real_server(
    filled: Bank, events: list[Event], monkeypatch: pytest.MonkeyPatch, shape: str, mode: str
) -> None:
    """One recall; the model sees the memory; what was said reaches the server, and nothing of ours reaches the outputs."""
    wrap = Made(filled, {"session_id": "trip"})
    case = SHAPES[shape](wrap)
    ask = (case.chain, case.value, mode, case.config)
    output = await (run_traced(monkeypatch, *ask) if shape == "traced" else run(*ask))
    wrap.flush()
    assert output == case.output
    assert no_marks(output)
    assert all(KNOWN in told(seen) and "</memories>" in told(seen) for seen in case.model.seen)
    assert sum(isinstance(event, Recalled) for event in events) == 1
    with filled.session("trip") as session:
        session.retain_now()
    assert filled.flush(timeout=60, until="completed").left == 0
    kept = " ".join(memory.text for memory in filled.list(limit=100))
    assert ASKED.split()[1] in kept
    assert "twelve" in kept
    assert ANSWER
