"""Streamed answers of engines with memory: handed on as they come, kept when they are over, never consumed."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.query_engine import CustomQueryEngine
from rigs import Rig

from llamaindex_lorebank.query_engine import remembering

from .engine_rig import ANSWER, ASKED, FACT, HOW, IDS, ask, document, documents, model, read, streaming

WORDS = ANSWER.split(" ")


async def started(response: Any, count: int) -> Any:
    """The stream, after some tokens were read."""
    if isinstance(response, AsyncStreamingResponse):
        stream = response.response_gen
        for _ in range(count):
            await anext(stream)
        return stream
    for _ in range(count):
        next(response.response_gen)
    return response.response_gen


@pytest.mark.parametrize("how", HOW)
async def test_a_stream_is_handed_on_as_it_comes(rig: Rig, how: str) -> None:
    """It is of the host's own kind; while it is read only the question is kept, afterwards the answer, with its sources."""
    bank, llm = rig.open("alice", mental_models={"enabled": False}), model()
    [outcome] = bank.retain(FACT).stored
    response = await ask(remembering(streaming(llm), bank, session_id="trip"), how)
    assert type(response) is (StreamingResponse if how == "sync" else AsyncStreamingResponse)
    await started(response, 2)
    assert rig.kept(bank) == [ASKED]
    assert (await read(response)).split() == WORDS[2:]
    assert rig.kept(bank) == [ASKED, ANSWER]
    [kept] = [memory for memory in bank.list(limit=10) if memory.text == ANSWER]
    assert kept.metadata["sources"].split("\n") == [*IDS, outcome.id]
    assert [each.node.node_id for each in response.source_nodes] == [*IDS, outcome.id]


@pytest.mark.parametrize("way", ["str", "get_response"])
async def test_a_stream_may_be_read_in_each_of_the_host_s_ways(rig: Rig, way: str) -> None:
    """And again: the answer is kept once."""
    bank = rig.open("alice")
    response: Any = remembering(streaming(model()), bank, session_id="trip").query(ASKED)
    for _ in range(2):
        text = str(response) if way == "str" else response.get_response().response
        assert text == ANSWER
    assert rig.kept(bank) == [ASKED, ANSWER]
    bank = rig.open("ben")
    other: Any = await remembering(streaming(model()), bank, session_id="trip").aquery(ASKED)
    for _ in range(2):
        text = await other._async_str() if way == "str" else (await other.get_response()).response
        assert text == ANSWER
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("end", ["closed", "dropped", "unread", "failed"])
async def test_a_stream_that_breaks_off_leaves_the_question(rig: Rig, end: str, how: str) -> None:
    """And nothing of the half answer; the next query is as if nothing had happened."""
    bank, llm, failing = rig.open("alice", FACT), model(), RuntimeError("cut")
    engine = remembering(streaming(llm), bank, session_id="trip")
    llm.failing = failing if end == "failed" else None
    response = await ask(engine, how)
    if end == "failed":
        with pytest.raises(RuntimeError) as caught:
            await read(response)
        assert caught.value is failing
        llm.failing = None
    elif end != "unread":
        stream = await started(response, 2)
        if end == "closed":
            await stream.aclose() if how == "async" else stream.close()
        del stream
    del response
    gc.collect()
    for _ in range(5):  # the loop closes what is left of a stream
        await asyncio.sleep(0)
    assert await engine._work.aflush(10)
    assert rig.kept(bank) == [ASKED]
    assert await read(await ask(engine, how, "And to Oslo?")) == ANSWER
    assert rig.kept(bank) == [ASKED, "And to Oslo?", ANSWER]


async def test_a_cancelled_reader_leaves_the_question(rig: Rig) -> None:
    """The task that reads an answer is cancelled in the midst of it."""
    bank, reading = rig.open("alice"), asyncio.Event()
    engine = remembering(streaming(model()), bank, session_id="trip")

    async def read_slowly() -> None:
        response: Any = await engine.aquery(ASKED)
        async for _ in response.async_response_gen():
            reading.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(read_slowly())
    await reading.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)
    assert await engine._work.aflush(10)
    assert rig.kept(bank) == [ASKED]


@pytest.mark.parametrize("how", HOW)
async def test_half_an_answer_is_kept_where_the_bank_wants_it(rig: Rig, how: str) -> None:
    """`on_cancel="partial"`."""
    bank = rig.open("alice", retain={"on_cancel": "partial"})
    engine = remembering(streaming(model()), bank, session_id="trip")
    stream = await started(await ask(engine, how), 2)
    await stream.aclose() if how == "async" else stream.close()
    assert await engine._work.aflush(10)
    assert rig.kept(bank) == [ASKED, "Row twelve"]


@pytest.mark.parametrize("how", HOW)
async def test_an_empty_stream_is_no_answer(rig: Rig, how: str) -> None:
    """The host's "Empty Response" is handed on, and not kept."""
    bank, inner = rig.open("alice", mental_models={"enabled": False}), documents(model(), streaming=True)
    inner.retriever._index._index_struct.nodes.clear()
    assert await read(await ask(remembering(inner, bank, session_id="trip"), how)) == "Empty Response"
    assert rig.kept(bank) == [ASKED]


class Read(CustomQueryEngine):
    """Gives a stream that it has read itself."""

    def custom_query(self, query_str: str) -> Any:
        response = StreamingResponse(iter(WORDS), response_txt=None)  # type: ignore[arg-type]
        return StreamingResponse(response.response_gen, response_txt=ANSWER)


@pytest.mark.parametrize("how", HOW)
async def test_a_stream_that_was_read_already_is_an_answer(rig: Rig, how: str) -> None:
    """It is kept at once."""
    bank = rig.open("alice")
    response = await ask(remembering(Read(), bank, session_id="trip"), how)
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert str(response) == ANSWER


@pytest.mark.parametrize("how", HOW)
async def test_an_engine_that_does_not_retain_leaves_streams_alone(rig: Rig, how: str) -> None:
    """Whether they are read or dropped."""
    bank = rig.open("alice", FACT)
    engine = remembering(streaming(model()), bank, retain=False)
    assert await read(await ask(engine, how)) == ANSWER
    stream = await started(await ask(engine, how), 1)
    await stream.aclose() if how == "async" else stream.close()
    assert await engine._work.aflush(10)
    assert rig.kept(bank) == []


def test_documents_can_be_added_between_queries(rig: Rig) -> None:
    """The engine is used as it is, not as it was."""
    bank, llm = rig.open("alice", FACT), model()
    inner = documents(llm)
    engine = remembering(inner, bank, session_id="trip")
    engine.query(ASKED)
    inner.retriever._index.insert(document("Gate nine is far away."))
    engine.query("Which gate?")
    assert "Gate nine is far away." in llm.seen[-1]
