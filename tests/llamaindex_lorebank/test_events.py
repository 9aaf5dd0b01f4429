"""`MemoryEventHandler`: which runs it keeps, what it leaves alone, and that no run ever notices."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.chat_engine import CondenseQuestionChatEngine, ContextChatEngine, SimpleChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.instrumentation.events.query import QueryStartEvent
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from rigs import Rig

from llamaindex_lorebank.events import MemoryEventHandler
from llamaindex_lorebank.memory import BankMemory
from llamaindex_lorebank.postprocessor import MentalModelPostprocessor
from llamaindex_lorebank.query_engine import remembering
from lorebank import Bank, UsageError, open_bank, per_user
from lorebank.seams import OutageStarted, Skipped
from lorebank.testing import Fault, FaultServer

from .engine_rig import ANSWER, ASKED, FACT, HOW, SHAPES, ask, documents, model, read, router, streaming, tool

OFF: dict[str, Any] = {"mental_models": {"enabled": False}}
SKIPPED = Skipped("alice", "after_turn", "streamed")


async def heard(handler: MemoryEventHandler, run: Any) -> Any:
    """What a run gives while the handler listens."""
    with handler:
        given = await run
    assert await handler.aflush(10)
    return given


async def chat(engine: Any, how: str, text: str = ASKED) -> Any:
    return await engine.achat(text) if how == "async" else engine.chat(text)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "streaming"])
async def test_question_and_answer_of_the_outermost_query_are_kept_once(rig: Rig, shape: str, how: str) -> None:
    """Whatever the engine asks of others inside; one recall."""
    bank, llm = rig.open("alice", FACT, **OFF), model()
    response = await heard(MemoryEventHandler(bank, session_id="trip"), ask(SHAPES[shape](llm), how))
    assert str(response) == ANSWER
    assert rig.kept(bank, "trip") == [ASKED, ANSWER]
    assert rig.recalls == 1
    assert all(FACT not in prompt for prompt in llm.seen)


async def test_an_answer_is_kept_with_its_sources(rig: Rig) -> None:
    """The ids of the response's source nodes."""
    bank = rig.open("alice")
    await heard(MemoryEventHandler(bank, session_id="trip"), ask(documents(model()), "sync"))
    [kept] = [memory for memory in bank.list() if memory.text == ANSWER]
    assert kept.metadata["sources"] == "doc-0\ndoc-1\ndoc-2"


@pytest.mark.parametrize("how", HOW)
async def test_the_postprocessor_finds_what_was_prefetched(rig: Rig, how: str) -> None:
    """Once the handler's recall is over, the same turn asks for nothing more."""
    bank, llm = rig.open("alice", FACT, **OFF), model()
    handler = MemoryEventHandler(bank, session_id="trip")

    class Waiting(MentalModelPostprocessor):
        """Comes after the handler's recall."""

        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            assert handler.flush(10)
            return super()._postprocess_nodes(nodes, query_bundle)

        async def _apostprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            assert await handler.aflush(10)
            return await super()._apostprocess_nodes(nodes, query_bundle)

    last = [Waiting(bank, memories=True, session_id="trip")]
    await heard(handler, ask(documents(llm, node_postprocessors=last), how))
    assert FACT in llm.seen[-1]
    assert rig.recalls == 1
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
async def test_a_stream_is_never_consumed(rig: Rig, how: str) -> None:
    """Its reader gets all of it; the question is kept, and one event tells what is not."""
    bank = rig.open("alice")
    response = await heard(MemoryEventHandler(bank, session_id="trip"), ask(streaming(model()), how))
    assert response.response_txt is None
    assert await read(response) == ANSWER
    assert rig.kept(bank) == [ASKED]
    assert rig.of(Skipped) == [SKIPPED]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "router", "custom", "streaming"])
async def test_handler_and_engine_with_memory_keep_a_query_once(rig: Rig, shape: str, how: str) -> None:
    """Both know the run: one recall, one question, one answer; a stream that the engine keeps is nothing to tell of."""
    bank, llm = rig.open("alice", FACT, **OFF), model()
    handler = MemoryEventHandler(bank, session_id="trip")
    response = await heard(handler, ask(remembering(SHAPES[shape](llm), bank, session_id="trip"), how))
    assert await read(response) == ANSWER
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert rig.recalls == 1
    assert rig.of(Skipped) == []


@pytest.mark.parametrize("how", HOW)
async def test_an_engine_with_memory_inside_an_observed_one_keeps_nothing_twice(rig: Rig, how: str) -> None:
    """What it keeps belongs to the outermost query."""
    bank, llm = rig.open("alice", FACT, **OFF), model()
    inner, outer = tool(llm), router(llm)
    outer._query_engines = [remembering(inner.query_engine, bank, session_id="trip")]
    await heard(MemoryEventHandler(bank, session_id="trip"), ask(outer, how))
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
async def test_two_handlers_keep_a_query_once(rig: Rig, how: str) -> None:
    """Of the same bank and conversation."""
    bank = rig.open("alice")
    with MemoryEventHandler(bank, session_id="trip") as first, MemoryEventHandler(bank, session_id="trip") as second:
        await ask(documents(model()), how)
    assert first.flush(10)
    assert second.flush(10)
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["simple", "context", "condense"])
async def test_a_chat_is_kept_once(rig: Rig, kind: str, how: str) -> None:
    """The user's words as they were said, not as the engine condenses them, and the answer."""
    bank, llm = rig.open("alice"), model()
    memory = ChatMemoryBuffer.from_defaults(llm=llm)
    engine: Any = {
        "simple": lambda: SimpleChatEngine.from_defaults(llm=llm, memory=memory),
        "context": lambda: ContextChatEngine.from_defaults(documents(llm).retriever, llm=llm, memory=memory),
        "condense": lambda: CondenseQuestionChatEngine.from_defaults(documents(llm), llm=llm, memory=memory),
    }[kind]()
    await heard(MemoryEventHandler(bank, session_id="trip"), chat(engine, how))
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
async def test_a_streamed_chat_keeps_the_user_s_words(rig: Rig, how: str) -> None:
    """And says so; the stream is whole."""
    bank, llm = rig.open("alice"), model()
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=ChatMemoryBuffer.from_defaults(llm=llm))

    async def run() -> str:
        if how == "async":
            response = await engine.astream_chat(ASKED)
            return "".join([token async for token in response.async_response_gen()])
        return "".join(engine.stream_chat(ASKED).response_gen)

    assert (await heard(MemoryEventHandler(bank, session_id="trip"), run())).strip() == ANSWER
    assert rig.kept(bank) == [ASKED]
    assert rig.of(Skipped) == [SKIPPED]


@pytest.mark.parametrize("how", HOW)
async def test_a_chat_engine_that_remembers_is_left_alone(rig: Rig, how: str) -> None:
    """Its memory keeps the chat, in its own conversation."""
    bank, llm = rig.open("alice"), model()
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=BankMemory(bank, session_id="own"))
    await heard(MemoryEventHandler(bank, session_id="trip"), chat(engine, how))
    assert rig.kept(bank, "trip") == []
    assert rig.kept(bank, "own") == [ASKED, ANSWER]


async def test_a_query_of_an_agent_s_is_none_of_the_user_s(rig: Rig) -> None:
    """What runs in an agent is not recorded."""
    bank, llm = rig.open("alice"), model()
    call = ToolCallBlock(tool_call_id="1", tool_name="documents", tool_kwargs={"input": ASKED})
    steps = [ChatMessage(role="assistant", blocks=[call]), ChatMessage(role="assistant", content="done")]
    mock = MockFunctionCallingLLM(response_generator=lambda messages, **_: steps.pop(0), is_chat_model=True)

    async def run() -> Any:
        return await FunctionAgent(tools=[tool(llm)], llm=mock).run(user_msg="hello")

    assert str(await heard(MemoryEventHandler(bank, session_id="trip"), run())) == "done"
    assert len(llm.seen) == 1
    assert rig.kept(bank) == []


@pytest.mark.parametrize("how", HOW)
async def test_a_query_inside_an_application_s_own_span_is_kept(rig: Rig, how: str) -> None:
    """Tracing of the application's own makes no difference."""
    bank = rig.open("alice")
    spanned = get_dispatcher().span(lambda: documents(model()).query(ASKED))

    async def run() -> Any:
        return spanned() if how == "sync" else await get_dispatcher().span(ask)(documents(model()), how)

    await heard(MemoryEventHandler(bank, session_id="trip"), run())
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("recall", [True, False])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "router", "custom"])
async def test_a_failing_query_keeps_the_question(rig: Rig, shape: str, how: str, recall: bool) -> None:
    """Its error reaches the caller as it is."""
    bank, failing = rig.open("alice"), RuntimeError("no model")
    handler = MemoryEventHandler(bank, session_id="trip", auto_recall=recall)
    with pytest.raises(RuntimeError) as caught:
        await heard(handler, ask(SHAPES[shape](model(failing)), how))
    assert caught.value is failing
    assert await handler.aflush(10)
    assert rig.kept(bank) == [ASKED]


@pytest.mark.parametrize("how", HOW)
async def test_each_run_gets_its_user_s_bank(rig: Rig, how: str) -> None:
    """By the run's instrument tags; its conversation, too."""
    bank = rig.open("base")
    with MemoryEventHandler(per_user(bank)) as handler:
        for user in ("ana", "ben"):
            with instrument_tags({"user_id": user, "session_id": f"s-{user}"}):
                await ask(documents(model()), how, f"I am {user}.")
    assert handler.flush(10)
    for user in ("ana", "ben"):
        assert rig.kept(bank.named(user), f"s-{user}") == [f"I am {user}.", ANSWER]
    assert rig.kept(bank) == []


@pytest.mark.parametrize("how", HOW)
async def test_a_run_that_names_no_user_goes_on(rig: Rig, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """An error in the log that names the key, and one event."""
    bank = rig.open("base")
    assert str(await heard(MemoryEventHandler(per_user(bank)), ask(documents(model()), how))) == ANSWER
    assert rig.of(Skipped) == [Skipped("base", "before_turn", "UsageError")]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "'user_id'" in record.getMessage()
    assert "instrument_tags" in record.getMessage()


def test_a_handler_that_is_only_added_serves_queries(rig: Rig) -> None:
    """`get_dispatcher().add_event_handler(handler)`, as LlamaIndex's own documents have it; nested ones are not kept."""
    bank = rig.open("alice")
    handler = MemoryEventHandler(bank, session_id="trip")
    get_dispatcher().add_event_handler(handler)
    try:
        assert str(router(model()).query(ASKED)) == ANSWER
    finally:
        handler.detach()
    assert handler.flush(10)
    assert rig.kept(bank) == [ASKED, ANSWER]


def test_it_hears_once_however_often_it_is_attached_and_nothing_once_detached(rig: Rig) -> None:
    """`attach()` and `detach()` may be called again."""
    bank = rig.open("alice")
    handler = MemoryEventHandler(bank, session_id="trip").attach().attach()
    assert sum(each is handler for each in get_dispatcher().event_handlers) == 1
    documents(model()).query(ASKED)
    handler.detach()
    handler.detach()
    documents(model()).query("And to Oslo?")
    assert handler.flush(10)
    assert rig.kept(bank) == [ASKED, ANSWER]


def test_a_handler_that_neither_recalls_nor_retains_does_nothing(rig: Rig) -> None:
    """Each can be had without the other."""
    bank = rig.open("alice", FACT, **OFF)
    with MemoryEventHandler(bank, session_id="trip", auto_recall=False) as handler:
        documents(model()).query(ASKED)
    assert handler.flush(10)
    assert (rig.recalls, rig.kept(bank)) == (0, [ASKED, ANSWER])
    with MemoryEventHandler(bank, session_id="trip", auto_retain=False) as handler:
        documents(model()).query("Which seats on long flights, again?")
    assert handler.flush(10)
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


def test_raising_is_refused(url: str) -> None:
    """LlamaIndex swallows what a handler raises: neither the handler nor its bank may want it."""
    with open_bank(url, bank="alice") as bank, pytest.raises(UsageError, match="can't raise"):
        MemoryEventHandler(bank, on_failure="raise")  # type: ignore[arg-type]
    with open_bank(url, bank="alice", on_failure="raise") as bank:
        for given in (bank, per_user(bank)):
            with pytest.raises(UsageError, match="can't raise"):
                MemoryEventHandler(given)


def test_a_bank_that_was_closed_breaks_no_query(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is told in the log."""
    with open_bank(url, bank="alice") as bank:
        handler = MemoryEventHandler(bank, session_id="trip")
    with handler:
        assert str(documents(model()).query(ASKED)) == ANSWER
    assert handler.flush(10)
    assert "closed" in caplog.text


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("fault", [Fault(drop=True), Fault(hang=True), Fault(body=b"<html>no</html>")])
async def test_a_server_that_is_out_of_order_breaks_no_query(tmp_path: Any, fault: Fault, how: str) -> None:
    """The answer is right, the outage is told, and what was said is delivered later."""
    events: list[Any] = []
    options: dict[str, Any] = {"recall": {"deadline": 0.3}, "outbox": {"batch_seconds": 0.02}, **OFF}
    ledger = f"sqlite:///{tmp_path / 'outbox.db'}"
    with FaultServer() as server, open_bank(server.url, bank="alice", ledger=ledger, on_event=events.append, **options) as bank:
        bank.retain(FACT)
        assert bank.flush(timeout=30, until="completed").left == 0
        server.fault(fault, path="/memories")
        handler = MemoryEventHandler(bank, session_id="trip")
        assert str(await heard(handler, ask(documents(model()), how))) == ANSWER
        assert any(isinstance(event, OutageStarted) for event in events)
        server.heal()
        assert bank.flush(timeout=30, until="completed").left == 0
        delivered = "\n".join(server.bank("alice").documents.values())
        assert (delivered.count(ASKED), delivered.count(ANSWER)) == (1, 1)


def test_what_never_ends_is_forgotten(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest spans and turns go."""
    monkeypatch.setattr("llamaindex_lorebank.turns.OPEN", 10)
    monkeypatch.setattr("llamaindex_lorebank.events.SPANS", 50)
    handler = MemoryEventHandler(bank, session_id="s", auto_recall=False)
    with handler:
        for n in range(100):
            handler.handle(QueryStartEvent(query=ASKED, span_id=f"Engine.query-{n}"))
    assert len(handler._turns._open) == 10
    assert len(handler._spans._roots) == 50
    assert handler._spans.root_of("Engine.query-99") == "Engine.query-99"


def test_a_query_that_is_under_way_attaches_nothing_again(rig: Rig) -> None:
    """Its event may still reach a handler that was just detached."""
    handler = MemoryEventHandler(rig.open("alice"), session_id="trip")
    with handler:
        pass
    before = [*get_dispatcher().span_handlers]
    handler.handle(QueryStartEvent(query=ASKED, span_id="Engine.query-1"))
    assert get_dispatcher().span_handlers == before
    assert handler.flush(10)
    assert rig.recalls == 0
