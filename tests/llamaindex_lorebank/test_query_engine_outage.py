"""Engines with memory when the server is dead, slow, or answers nonsense: the query goes on, and all is delivered later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs import OUTAGES, Line, line_with

from llamaindex_lorebank.query_engine import remembering
from lorebank import LorebankError, open_bank
from lorebank.seams import OutageEnded, OutageStarted

from .engine_rig import ANSWER, ASKED, DOCUMENTS, FACT, HOW, SHAPES, ask, documents, model, read


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with line_with(FACT, tmp_path) as made:
        yield made


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "router", "streaming"])
@pytest.mark.parametrize("kind", OUTAGES)
async def test_the_query_goes_on_and_everything_is_delivered_later(line: Line, kind: str, shape: str, how: str) -> None:
    """A right answer from the documents, the state told as events, the deadline waited for once, and nothing lost."""
    bank, llm = line.open(), model()
    line.fail(kind)
    begun = time.monotonic()
    engine = remembering(SHAPES[shape](llm), bank, session_id="trip")
    assert await read(await ask(engine, how)) == ANSWER
    assert time.monotonic() - begun < 10
    assert DOCUMENTS[0] in llm.seen[-1]
    assert FACT not in "".join(llm.seen)
    assert any(isinstance(event, OutageStarted) and event.part == "recall" for event in line.events)
    line.heal(kind)
    delivered = line.delivered(bank)
    assert (delivered.count(ASKED), delivered.count(ANSWER)) == (1, 1)


@pytest.mark.parametrize("how", HOW)
async def test_memory_comes_back(line: Line, how: str) -> None:
    """A later query has memories again, and the end of the outage is told."""
    bank, llm = line.open(), model()
    engine = remembering(documents(llm), bank, session_id="trip")
    line.fail("dead")
    await ask(engine, how)
    line.heal("dead")
    for n in range(50):
        await ask(engine, how, f"{ASKED} {n}")
        if FACT in llm.seen[-1]:
            break
    assert FACT in llm.seen[-1]
    assert [event.part for event in line.events if isinstance(event, OutageEnded) and event.part == "recall"] == ["recall"]


@pytest.mark.parametrize("how", HOW)
async def test_the_model_is_told_of_an_outage_where_the_bank_wants_it(line: Line, how: str) -> None:
    """As a node that is no document, and no source by id; ahead of the query in other engines."""
    bank, llm = line.open(recall={"deadline": 0.5, "tell_model": True}), model()
    line.fail("dead")
    response = await ask(remembering(documents(llm), bank, session_id="trip"), how)
    assert "Memory is unavailable right now." in llm.seen[-1]
    assert [each.node.metadata.get("lorebank") for each in response.source_nodes] == [None, None, None, "note"]
    await ask(remembering(SHAPES["custom"](llm), bank, session_id="trip"), how)
    assert "Memory is unavailable right now." in llm.seen[-1]
    line.heal("dead")
    assert "lorebank-note" not in line.delivered(bank)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["dead", "garbage"])
async def test_an_application_that_wants_it_is_told_by_an_error(line: Line, kind: str, how: str) -> None:
    """With `on_failure="raise"`; the question is kept all the same."""
    bank = line.open(on_failure="raise")
    line.fail(kind)
    with pytest.raises(LorebankError):
        await ask(remembering(documents(model()), bank, session_id="trip"), how)
    line.heal(kind)
    assert ASKED in line.delivered(bank)


@pytest.mark.parametrize("how", HOW)
async def test_memory_that_is_off_is_as_if_it_were_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """`LOREBANK_URL=off`: the model sees what it sees without memory."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    bare, llm = model(), model()
    await ask(documents(bare), how)
    with open_bank(f"sqlite:///{tmp_path / 'none.db'}", bank="alice") as bank:
        assert str(await ask(remembering(documents(llm), bank), how)) == ANSWER
    assert llm.seen == bare.seen
    assert not (tmp_path / "none.db").exists()
