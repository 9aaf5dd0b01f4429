"""Users, conversations and agents around an engine with memory: who asks is told by the run's instrument tags."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.instrumentation.dispatcher import instrument_tags
from rigs import Rig

from llamaindex_lorebank.events import MemoryEventHandler
from llamaindex_lorebank.postprocessor import MentalModelPostprocessor
from llamaindex_lorebank.query_engine import remembering
from llamaindex_lorebank.runs import as_parent
from lorebank import UsageError, per_user

from .engine_rig import ANSWER, ASKED, FACT, HOW, SHAPES, SpokenLLM, ask, documents, model, read

SEATS = {"ana": "aisle", "ben": "window"}


def question(user: str, place: int) -> str:
    return f"Which seats does {user.title()} prefer? ({place})"


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["retriever", "router"])
async def test_two_users_at_once_are_kept_apart(rig: Rig, how: str, shape: str) -> None:
    """One engine; each query gets its user's memories, and is kept in that user's bank and conversation."""
    bank, llm = rig.open("base", recall={"limit": 50, "max_tokens": 8_000}), model()
    for user, seat in SEATS.items():
        rig.tell(bank.named(user), f"{user.title()} prefers {seat} seats.")
    engine = remembering(SHAPES[shape](llm), per_user(bank))
    asked = [(user, place) for place in range(6) for user in SEATS]

    async def run(user: str, place: int) -> None:
        with instrument_tags({"user_id": user, "session_id": f"s-{user}"}):
            assert str(await engine.aquery(question(user, place))) == ANSWER

    def run_in_thread(user: str, place: int) -> None:
        with instrument_tags({"user_id": user, "session_id": f"s-{user}"}):
            assert str(engine.query(question(user, place))) == ANSWER

    if how == "async":
        await asyncio.gather(*[run(*each) for each in asked])
    else:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda each: run_in_thread(*each), asked))
    answers = [prompt for prompt in llm.seen if "Some choices" not in prompt]
    assert len(answers) == len(asked)
    for prompt in answers:
        assert ("aisle" in prompt, "window" in prompt) == ("does Ana" in prompt, "does Ben" in prompt)
    for user in SEATS:
        own = bank.named(user)
        assert set(rig.kept(own)) == {question(user, place) for place in range(6)} | {ANSWER}
        assert {memory.session for memory in own.list(limit=100) if memory.source == "transcript"} == {f"s-{user}"}


@pytest.mark.parametrize("how", HOW)
async def test_a_query_that_names_no_user_is_an_error(rig: Rig, how: str) -> None:
    """It names the key, and where it belongs; the engine is not asked."""
    llm = model()
    engine = remembering(documents(llm), per_user(rig.open("base")))
    with pytest.raises(UsageError, match=r"'user_id'.*instrument_tags"):
        await ask(engine, how)
    assert llm.seen == []


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("fixed", "tags", "session"),
    [(None, {"session_id": "a"}, "a"), (None, {"thread_id": "b"}, "b"), ("fixed", {"session_id": "a"}, "fixed")],
)
async def test_conversations_are_told_apart(rig: Rig, fixed: Any, tags: dict[str, Any], session: str, how: str) -> None:
    """By the run's tags, unless the engine has one of its own."""
    bank = rig.open("alice")
    with instrument_tags(tags):
        await ask(remembering(documents(model()), bank, session_id=fixed), how)
    assert rig.kept(bank, session) == [ASKED, ANSWER]
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
async def test_the_same_question_asked_again_is_kept_again(rig: Rig, how: str) -> None:
    """Two queries are two runs; an answer that is remembered already is not kept again."""
    bank, other = rig.open("alice"), "Nobody has complained since Tuesday."
    answers = [ANSWER, other, ANSWER]
    llm = SpokenLLM(answer=lambda _: answers.pop(0))
    engine = remembering(documents(llm), bank, session_id="trip")
    for _ in range(3):
        await ask(engine, how)
    assert rig.kept(bank) == [ASKED, ANSWER, ASKED, other, ASKED]


@pytest.mark.parametrize("how", HOW)
async def test_an_agent_s_tool_leaves_memory_to_the_agent(rig: Rig, how: str) -> None:
    """What the model asks of a tool is no word of the user's: nothing is recalled, nothing is kept."""
    bank, llm = rig.open("alice", FACT), model()
    engine = remembering(documents(llm), bank, session_id="tool")
    with as_parent(bank, bank.session("agent")):
        assert str(await ask(engine, how)) == ANSWER
    assert FACT not in llm.seen[-1]
    assert rig.kept(bank) == []
    assert rig.recalls == 0


@pytest.mark.parametrize("mode", ["read-only", "ignored", "tools-only"])
@pytest.mark.parametrize("how", HOW)
async def test_the_session_s_mode_holds(rig: Rig, how: str, mode: Any) -> None:
    """Nothing is kept; memories are given in `read-only` alone."""
    bank, llm = rig.open("alice", FACT, mental_models={"enabled": False}), model()
    bank.session("trip").mode = mode
    assert str(await ask(remembering(documents(llm), bank, session_id="trip"), how)) == ANSWER
    assert (FACT in llm.seen[-1]) == (mode == "read-only")
    assert rig.kept(bank) == []


@pytest.mark.parametrize("shape", ["retriever", "router", "streaming", "observed"])
async def test_an_awaited_query_never_blocks_the_loop(rig: Rig, shape: str) -> None:
    """Neither the engine, nor the postprocessor, nor the handler."""
    bank, llm = rig.open("alice", FACT), model()
    with blockbuster_ctx(scanned_modules=["lorebank", "llamaindex_lorebank"]):
        if shape == "observed":
            handler = MemoryEventHandler(bank, session_id="trip")
            with handler:
                await documents(llm, node_postprocessors=[MentalModelPostprocessor(bank, session_id="trip")]).aquery(ASKED)
            assert await handler.aflush(10)
        else:
            await read(await remembering(SHAPES[shape](llm), bank, session_id="trip").aquery(ASKED))
    assert rig.kept(bank) == [ASKED, ANSWER]
