"""`BankMemoryBlock` in a `Memory`: what it gives, and when it hears of what was said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.memory import InsertMethod, Memory

from llamaindex_lorebank import BankMemoryBlock
from llamaindex_lorebank.testing import StrictLLM, call
from lorebank import LorebankError, UsageError, open_bank, per_user
from lorebank.testing import FaultServer

from .agent_rig import KEPT, agent_of, script_of
from .memory_rig import ANSWER, ASKED, FACT, MODES, PREFIX, THEN, chat, roles, text_of

Rig = Any  # of conftest.py
pytestmark = pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning")  # ReActAgent's own


def memory_of(rig: Rig, *blocks: BankMemoryBlock, **options: Any) -> Memory:
    memory: Memory = rig.primary("memory", memory_blocks=list(blocks), **options)
    return memory


@pytest.mark.parametrize("insert", list(InsertMethod))
@pytest.mark.parametrize("mode", MODES)
async def test_a_chat_engine_remembers(rig: Rig, mode: str, insert: InsertMethod) -> None:
    """One recall a turn. What was answered is retained with the next question."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[ANSWER, "Yes."])
    memory = memory_of(rig, BankMemoryBlock(bank), session_id="c", insert_method=insert)
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)
    assert await chat(engine, mode, ASKED) == ANSWER
    assert rig.kept(bank, "c") == [ASKED]
    assert await chat(engine, mode, THEN) == "Yes."
    first = ["user"] if insert == InsertMethod.USER else ["system", "user"]
    assert (roles(llm.seen[0]), rig.recalls, rig.kept(bank, "c")) == (first, 2, [ASKED, ANSWER, THEN])
    for seen in llm.seen:
        assert text_of(seen).count(f"- {FACT} (") == 1
        assert text_of(seen).count(PREFIX) == 1
    assert [each.content for each in memory.get_all()] == [ASKED, ANSWER, THEN, "Yes."]


@pytest.mark.parametrize("kind", ["function", "react", "workflow", "hand-off"])
async def test_an_agent_remembers_and_retains_at_its_end(rig: Rig, kind: str) -> None:
    """The agent asks its memory once more when it is done; the question that it repeats is no second one."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[*script_of(kind, ANSWER), *script_of(kind, "Yes.")])
    memory = memory_of(rig, BankMemoryBlock(bank, "c"), insert_method=InsertMethod.USER)
    for text, answer in ((ASKED, ANSWER), (THEN, "Yes.")):
        assert (await agent_of(kind, llm).run(text, memory=memory)).response.content == answer
    assert all(f"- {FACT} (" in text_of(seen) for seen in llm.seen)
    assert (rig.recalls, rig.kept(bank, "c")) == (2, [ASKED, *KEPT[kind], ANSWER, THEN, *KEPT[kind], "Yes."])


async def test_what_overflows_is_retained_once(rig: Rig) -> None:
    """Whether or not it was seen before; a window that moves on loses and repeats nothing."""
    bank = rig.open("alice", FACT)
    memory = memory_of(rig, BankMemoryBlock(bank, "c"), token_limit=200, token_flush_size=20, chat_history_token_ratio=0.2)
    said = [f"Remark number {n} is about row {n * 7} of the plane." for n in range(24)]
    for place, text in enumerate(said):
        await memory.aput(ChatMessage(text, role="assistant" if place % 2 else "user"))
        if place in (4, 5, 10, 20):
            await memory.aget()
    assert len(await memory.aget()) < 12
    assert rig.kept(bank, "c") == said


async def test_a_full_memory_drops_memories_before_the_prefix(rig: Rig) -> None:
    """With a priority; without one, the framework truncates nothing of it."""
    bank = rig.open("alice", FACT)
    block = BankMemoryBlock(bank, "c", priority=1)
    content = await block.aget([ChatMessage(ASKED)])
    assert f"- {FACT} (" in content
    prefix = await block.atruncate(content, 50)
    assert prefix is not None
    assert content.startswith(prefix)
    assert prefix.endswith("</mental_models>")
    assert await block.atruncate(prefix, 50) is None
    assert BankMemoryBlock(bank).priority == 0


@pytest.mark.parametrize("messages", [None, [], [ChatMessage("Be brief.", role="system")]])
async def test_where_nothing_is_asked_there_is_nothing(rig: Rig, messages: Any) -> None:
    """An empty block is left out by the framework."""
    bank = rig.open("alice", FACT)
    assert await BankMemoryBlock(bank).aget(messages) == ""
    await BankMemoryBlock(bank).aput([])
    assert (rig.recalls, rig.kept(bank)) == (0, [])


async def test_users_and_conversations_of_one_block_are_told_apart(rig: Rig) -> None:
    """By the instrument tags, at the same time; the session else is the `Memory`'s own."""
    hall = rig.open("hall")
    block = BankMemoryBlock(per_user(hall))

    async def talk(user: str) -> None:
        memory = memory_of(rig, block, session_id=f"of {user}")
        llm = StrictLLM(script=[call("weather", city="Rome"), f"Good, {user}."])
        with instrument_tags({"user_id": user}):
            await agent_of("function", llm).run(f"I am {user}.", memory=memory)

    await asyncio.gather(*map(talk, ("ana", "ben", "cid")))
    for user in ("ana", "ben", "cid"):
        assert rig.kept(hall.named(user), f"of {user}") == [f"I am {user}.", 'weather("city": "Rome")', f"Good, {user}."]
    with pytest.raises(UsageError, match=r"user_id.*instrument_tags"):
        await block.aget([ChatMessage(ASKED)])


async def test_a_block_s_settings_hold_no_secret(rig: Rig) -> None:
    """A bank's key stays with the bank; what is no bank is refused."""
    block = BankMemoryBlock(rig.open("alice"), "c")
    assert "bank" not in block.model_dump()
    assert "Bank" not in repr(block).replace("BankMemoryBlock", "")
    with pytest.raises(UsageError, match="must be a Bank"):
        BankMemoryBlock("alice")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_is_down_gives_an_empty_block(rig: Rig, mode: str) -> None:
    """The answer is right, and what was said is delivered later; with `on_failure="raise"` it raises."""
    options: dict[str, Any] = {"ledger": f"sqlite:///{rig.file}", "recall": {"deadline": 0.5}, "outbox": {"batch_seconds": 0.02}}
    with FaultServer() as server, open_bank(server.url, bank="alice", **options) as bank:
        server.stop()
        llm = StrictLLM(script=[ANSWER, "Yes."])
        engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory_of(rig, BankMemoryBlock(bank, "c")))
        assert await chat(engine, mode, ASKED) == ANSWER
        assert await chat(engine, mode, THEN) == "Yes."
        assert "</memories>" not in "".join(map(text_of, llm.seen))
        server.start()
        assert bank.flush(timeout=60, until="completed").left == 0
        [text] = server.bank("alice").documents.values()
        assert all(text.count(each) == 1 for each in (ASKED, ANSWER, THEN))
    loud: dict[str, Any] = options | {"connection": {"close_timeout": 0}, "on_failure": "raise"}
    with open_bank(server.url, bank="alice", **loud) as bank, pytest.raises(LorebankError):
        await BankMemoryBlock(bank).aget([ChatMessage(ASKED)])
