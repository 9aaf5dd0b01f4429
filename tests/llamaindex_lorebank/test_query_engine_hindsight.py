"""Engines with memory on Hindsight: a sample of the matrix on the small server, and of that on a real one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rigs import Rig

from llamaindex_lorebank.query_engine import is_memory, remembering
from lorebank.testing import Fault

from .engine_rig import ANSWER, ASKED, DOCUMENTS, FACT, HOW, IDS, SHAPES, ask, documents, model, read

Place = Any  # of conftest.py


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "citation", "streaming", "router", "custom"])
async def test_both_engines_of_memory_serve_a_query_alike(both: Rig, shape: str, how: str) -> None:
    """Memories reach the model, one recall, question and answer are kept once."""
    bank, llm = both.open("alice", FACT, mental_models={"enabled": False}), model()
    assert await read(await ask(remembering(SHAPES[shape](llm), bank, session_id="trip"), how)) == ANSWER
    assert FACT in llm.seen[-1]
    assert both.kept(bank) == [ASKED, ANSWER]
    assert both.recalls == 1


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "router", "streaming"])
async def test_a_query_on_a_real_server(place: Place, shape: str, how: str) -> None:
    """Documents and memories together; the server has question and answer once."""
    with place.open(FACT) as bank:
        llm = model()
        response = await ask(remembering(SHAPES[shape](llm), bank, session_id="trip"), how)
        assert await read(response) == ANSWER
        assert FACT in llm.seen[-1]
        assert place.recalls == 1
        assert place.kept(bank) == [ASKED, ANSWER]


async def test_a_server_has_the_sources_of_an_answer(place: Place) -> None:
    """Beside the answer in its document."""
    with place.open(FACT) as bank:
        response = await remembering(documents(model()), bank, session_id="trip").aquery(ASKED)
        assert bank.flush(timeout=60, until="completed").done
        [body] = [bank.documents.get(each.id).text or "" for each in bank.documents.list() if ":item:" not in each.id]
        rows = [row for line in body.splitlines() for row in json.loads(line)]
        [row] = [row for row in rows if row["role"] == "assistant"]
        memory = [each.node.node_id for each in response.source_nodes if is_memory(each)]
        assert memory
        assert row["sources"] == [*IDS, *memory]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["dead", "slow"])
async def test_a_line_that_is_cut_loses_nothing(place: Place, kind: str, how: str) -> None:
    """The query goes on without memories; all of it arrives when the line is back."""
    with place.open(FACT, recall={"deadline": 0.5}) as bank:
        llm = model()
        place.line.stop() if kind == "dead" else place.line.fault(Fault(hang=True))
        assert str(await ask(remembering(documents(llm), bank, session_id="trip"), how)) == ANSWER
        assert FACT not in llm.seen[-1]
        assert DOCUMENTS[0] in llm.seen[-1]
        if kind == "dead":
            place.line.start()
        place.line.heal()
        assert place.kept(bank) == [ASKED, ANSWER]
