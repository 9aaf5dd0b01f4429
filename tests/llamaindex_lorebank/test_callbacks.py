"""`MemoryCallbackHandler`: queries by the old `CallbackManager`; what it keeps, and that no query ever notices."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.evaluation import EvaluationResult
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetryQueryEngine
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from rigs import Rig

from llamaindex_lorebank.callbacks import MemoryCallbackHandler
from llamaindex_lorebank.events import MemoryEventHandler
from llamaindex_lorebank.query_engine import remembering
from lorebank import UsageError, open_bank, per_user
from lorebank.seams import Skipped

from .engine_rig import ANSWER, ASKED, FACT, HOW, SHAPES, ask, documents, model, read, streaming, tool

OFF: dict[str, Any] = {"mental_models": {"enabled": False}}
SERVED = [shape for shape in SHAPES if shape not in ("custom", "streaming")]


@contextmanager
def heard(*handlers: MemoryCallbackHandler) -> Iterator[None]:
    """The handlers are the ones of all engines that are made inside."""
    manager = Settings.callback_manager = CallbackManager([*handlers])
    try:
        yield
    finally:
        manager.set_handlers([])  # `CallbackManager([])` would take over those of `Settings`
        assert all(handler.flush(10) for handler in handlers)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", SERVED)
async def test_question_and_answer_of_the_outermost_query_are_kept_once(rig: Rig, shape: str, how: str) -> None:
    """Whatever the engine asks of others inside; one recall."""
    bank = rig.open("alice", FACT, **OFF)
    with heard(MemoryCallbackHandler(bank, session_id="trip")):
        assert str(await ask(SHAPES[shape](model()), how)) == ANSWER
    assert rig.kept(bank, "trip") == [ASKED, ANSWER]
    assert rig.recalls == 1


@pytest.mark.parametrize("how", HOW)
async def test_a_stream_is_never_consumed(rig: Rig, how: str) -> None:
    """Its reader gets all of it; the question is kept, and one event tells what is not."""
    bank = rig.open("alice")
    with heard(MemoryCallbackHandler(bank, session_id="trip")):
        response = await ask(streaming(model()), how)
        assert response.response_txt is None
        assert await read(response) == ANSWER
    assert rig.kept(bank) == [ASKED]
    assert rig.of(Skipped) == [Skipped("alice", "after_turn", "streamed")]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "router", "streaming"])
async def test_handlers_and_engine_with_memory_keep_a_query_once(rig: Rig, shape: str, how: str) -> None:
    """All three at once: one recall, one question, one answer."""
    bank, llm = rig.open("alice", FACT, **OFF), model()
    with (
        MemoryEventHandler(bank, session_id="trip") as events,
        heard(MemoryCallbackHandler(bank, session_id="trip"), MemoryCallbackHandler(bank, session_id="trip")),
    ):
        assert await read(await ask(remembering(SHAPES[shape](llm), bank, session_id="trip"), how)) == ANSWER
    assert events.flush(10)
    assert FACT in llm.seen[-1]
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert rig.recalls == 1
    assert rig.of(Skipped) == []


@pytest.mark.parametrize("how", HOW)
async def test_it_knows_the_run_of_an_engine_with_memory(rig: Rig, how: str) -> None:
    """Without an event handler that could tell both."""
    bank = rig.open("alice", FACT, **OFF)
    with heard(MemoryCallbackHandler(bank, session_id="trip")):
        await ask(remembering(documents(model()), bank, session_id="trip"), how)
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert rig.recalls == 1


@pytest.mark.parametrize("how", HOW)
async def test_it_and_the_event_handler_keep_a_query_once(rig: Rig, how: str) -> None:
    """Without an engine that remembers, too."""
    bank = rig.open("alice")
    with MemoryEventHandler(bank, session_id="trip") as events, heard(MemoryCallbackHandler(bank, session_id="trip")):
        await ask(documents(model()), how)
    assert events.flush(10)
    assert rig.kept(bank) == [ASKED, ANSWER]


class Twice:
    """An evaluator that wants another try."""

    tries = 0

    def evaluate_response(self, *_: Any) -> EvaluationResult:
        self.tries += 1
        return EvaluationResult(response="", passing=self.tries > 1, feedback="Say more.")


def test_of_several_tries_the_last_is_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that tells nothing of its own queries; the question is the first one."""
    bank, llm = rig.open("alice"), model()
    monkeypatch.setattr(Settings, "_llm", llm)  # LlamaIndex's own transform of the question asks for one
    answers = ["Not sure.", ANSWER]
    llm.answer = lambda _: answers.pop(0)
    with heard(MemoryCallbackHandler(bank, session_id="trip")):
        assert str(RetryQueryEngine(documents(llm), Twice()).query(ASKED)) == ANSWER  # type: ignore[arg-type]
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
async def test_a_chat_engine_s_own_query_is_none_of_the_user_s(rig: Rig, how: str) -> None:
    """The chat is not served here, and neither is its condensed question."""
    bank, llm = rig.open("alice"), model()
    with heard(MemoryCallbackHandler(bank, session_id="trip")):
        engine = CondenseQuestionChatEngine.from_defaults(documents(llm), llm=llm, memory=ChatMemoryBuffer.from_defaults(llm=llm))
        assert str(await engine.achat(ASKED) if how == "async" else engine.chat(ASKED)) == ANSWER
    assert rig.kept(bank) == []


async def test_an_agent_s_query_is_none_of_the_user_s_but_a_workflow_s_is(rig: Rig) -> None:
    """What a model asks of a tool is not kept; a step of the application's own workflow asks what the user has said."""
    bank, llm = rig.open("alice"), model()
    call = ToolCallBlock(tool_call_id="1", tool_name="documents", tool_kwargs={"input": "Which row?"})
    steps = [ChatMessage(role="assistant", blocks=[call]), ChatMessage(role="assistant", content="done")]
    mock = MockFunctionCallingLLM(response_generator=lambda messages, **_: steps.pop(0), is_chat_model=True)

    class Asking(Workflow):
        @step
        async def ask(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result=str(await documents(llm).aquery(ASKED)))

    with heard(MemoryCallbackHandler(bank, session_id="trip")):
        assert str(await FunctionAgent(tools=[tool(llm)], llm=mock).run(user_msg="hello")) == "done"
        assert rig.kept(bank) == []
        assert await Asking().run() == ANSWER
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("recall", [True, False])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "router"])
async def test_a_failing_query_keeps_the_question(rig: Rig, shape: str, how: str, recall: bool) -> None:
    """Its error reaches the caller as it is."""
    bank, failing = rig.open("alice"), RuntimeError("no model")
    with heard(MemoryCallbackHandler(bank, session_id="trip", auto_recall=recall)):
        engine = SHAPES[shape](model(failing))
        with pytest.raises(RuntimeError) as caught:
            await ask(engine, how)
    assert caught.value is failing
    assert rig.kept(bank) == [ASKED]


@pytest.mark.parametrize("how", HOW)
async def test_each_run_gets_its_user_s_bank(rig: Rig, how: str) -> None:
    """By the run's instrument tags; its conversation, too."""
    bank = rig.open("base")
    with heard(MemoryCallbackHandler(per_user(bank))):
        engine = documents(model())
        for user in ("ana", "ben"):
            with instrument_tags({"user_id": user, "session_id": f"s-{user}"}):
                await ask(engine, how, f"I am {user}.")
    for user in ("ana", "ben"):
        assert rig.kept(bank.named(user), f"s-{user}") == [f"I am {user}.", ANSWER]


@pytest.mark.parametrize("how", HOW)
async def test_a_run_that_names_no_user_goes_on(rig: Rig, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """An error in the log that names the key, and one event."""
    bank = rig.open("base")
    with heard(MemoryCallbackHandler(per_user(bank))):
        assert str(await ask(documents(model()), how)) == ANSWER
    assert rig.of(Skipped) == [Skipped("base", "before_turn", "UsageError")]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "'user_id'" in record.getMessage()


def test_a_handler_that_was_removed_hears_nothing(rig: Rig) -> None:
    """`CallbackManager.remove_handler`."""
    bank = rig.open("alice")
    handler = MemoryCallbackHandler(bank, session_id="trip")
    with heard(handler):
        engine = documents(model())
        engine.query(ASKED)
        engine.callback_manager.remove_handler(handler)
        engine.query("And to Oslo?")
    assert rig.kept(bank) == [ASKED, ANSWER]


def test_raising_is_refused(url: str) -> None:
    """A callback must not break what it watches."""
    with open_bank(url, bank="alice") as bank, pytest.raises(UsageError, match="can't raise"):
        MemoryCallbackHandler(bank, on_failure="raise")  # type: ignore[arg-type]
    with open_bank(url, bank="alice", on_failure="raise") as bank, pytest.raises(UsageError, match="can't raise"):
        MemoryCallbackHandler(per_user(bank))


def test_a_bank_that_was_closed_breaks_no_query(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is told in the log."""
    with open_bank(url, bank="alice") as bank:
        handler = MemoryCallbackHandler(bank, session_id="trip")
    with heard(handler):
        assert str(documents(model()).query(ASKED)) == ANSWER
    assert "closed" in caplog.text
