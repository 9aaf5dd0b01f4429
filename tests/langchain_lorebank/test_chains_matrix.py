"""Every way to run a chain, for every shape of chain: one recall, one retain, and nothing of ours where it does not belong."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from rigs import Rig

from .chain_rig import ANSWER, ASKED, KNOWN, MARKS, MODES, SHAPES, Case, Made, no_marks, run, run_traced, told


async def runs(monkeypatch: pytest.MonkeyPatch, shape: str, case: Case, mode: str, events: list[Any] | None = None) -> Any:
    ask = (case.chain, case.value, mode, case.config, events)
    return await (run_traced(monkeypatch, *ask) if shape == "traced" else run(*ask))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_chain_remembers(rig: Rig, monkeypatch: pytest.MonkeyPatch, shape: str, mode: str) -> None:
    """One recall and one retain; the model sees prefix and memories; inputs, outputs and stored history are as without them."""
    bank = rig.open("alice", KNOWN)
    wrap = Made(bank, {"session_id": "trip"})
    case = SHAPES[shape](wrap)
    value, events = copy.deepcopy(case.value), list[Any]()
    output = await runs(monkeypatch, shape, case, mode, events)
    wrap.flush()
    assert output == case.output
    assert case.value == value
    assert len(case.model.seen) == case.calls
    for seen in case.model.seen:
        assert all(part in told(seen) for part in (KNOWN, ASKED))
        assert all(part in told(seen[:1]) for part in ("Be brief.", MARKS[2]))
    assert rig.recalls == 1
    assert rig.kept(bank) == [ASKED, ANSWER]
    if case.history is not None:
        assert [each.text for each in case.history.messages] == [ASKED, ANSWER]
    assert no_marks(output)
    assert all(no_marks(each) for each in events if each["event"].split("_")[1] in ("chain", "prompt", "parser"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rig", ["mnemopi"], indirect=True)
async def test_the_same_words_in_three_runs_are_three_turns(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, shape: str, mode: str
) -> None:
    """Each is kept, and with `auto_recall=False` the model sees the bare prompt."""
    bank = rig.open("alice")
    wrap = Made(bank, {"session_id": "trip", "auto_recall": False})
    case = SHAPES[shape](wrap)
    for _ in range(3):
        await runs(monkeypatch, shape, case, mode)
    wrap.flush()
    assert len(case.model.seen) == 3 * case.calls
    assert all(no_marks(told(seen)) for seen in case.model.seen)
    assert rig.recalls == 0
    assert rig.kept(bank) == [ASKED, ANSWER] * 3
