"""What becomes of a `BankMemory` that is saved, copied, pickled or interrupted, and what of agents' scaffold is kept."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.instrumentation.dispatcher import instrument_tags

from llamaindex_lorebank import BankMemory, with_memory
from llamaindex_lorebank.messages import answer_of, spoken
from llamaindex_lorebank.testing import StrictLLM, call
from lorebank import Message, UsageError, open_bank, per_user
from lorebank.seams import ToolCall

from .agent_rig import FLOOR, agent_of
from .memory_rig import ANSWER, ASKED, FACT, MODES, PREFIX, THEN, chat, engine_of, script_of, text_of

Rig = Any  # of conftest.py


async def test_a_saved_memory_goes_on_where_it_was(rig: Rig) -> None:
    """The same conversation, with its messages; what comes back is retained no second time."""
    bank = rig.open("alice", FACT)
    memory = BankMemory(bank, insert="system", token_limit=500)
    memory.put_messages([ChatMessage(ASKED), ChatMessage(ANSWER, role="assistant")])
    saved = json.loads(json.dumps(memory.to_dict()))
    restored = BankMemory.from_dict(saved, bank=bank)
    assert (restored.insert, restored.token_limit, restored.class_name()) == ("system", 500, "BankMemory")
    assert [each.content for each in restored.get_all()] == [ASKED, ANSWER]
    restored.set(restored.get_all())
    restored.put(ChatMessage(THEN))
    [session] = {each.session for each in bank.list() if each.source == "transcript"}
    assert rig.kept(bank, session) == [ASKED, ANSWER, THEN]
    assert BankMemory.from_json(memory.to_json(), bank=bank).get_all() == memory.get_all()


def test_a_saved_memory_needs_its_bank(rig: Rig) -> None:
    """The process that saved it knows the bank still; another one does not, and a bank is never guessed."""
    bank = rig.open("alice")
    saved = BankMemory(bank, "c").to_dict()
    assert BankMemory.from_dict(saved).bank is bank
    with pytest.raises(UsageError, match=r"BankMemory\.from_dict\(saved, bank="):
        BankMemory.from_dict({**saved, "process": "another"})


def test_what_keeps_its_messages_elsewhere_is_not_saved(rig: Rig) -> None:
    """A restored conversation without its messages would be a lie."""
    with pytest.raises(UsageError, match="a Memory keeps its messages elsewhere"):
        BankMemory(rig.open("alice"), primary=rig.primary("memory")).to_dict()


def test_a_memory_of_many_users_is_saved_without_their_messages(rig: Rig) -> None:
    """Whoever it is restored for would see them."""
    hall = rig.open("hall")
    memory = BankMemory(per_user(hall))
    with instrument_tags({"user_id": "ana"}):
        memory.put(ChatMessage("I am Ana."))
        saved = memory.to_dict()
    assert "Ana" not in json.dumps(saved)
    copies = [BankMemory.from_dict(saved, bank=per_user(hall)), copy.deepcopy(memory)]
    for restored in copies:
        with instrument_tags({"user_id": "ben"}):
            assert restored.get_all() == []


def test_it_can_be_copied_and_pickled(rig: Rig) -> None:
    """A copy goes on by itself, on the same bank and in the same session."""
    bank = rig.open("alice", FACT)
    memory = BankMemory(bank)
    memory.put_messages([ChatMessage(ASKED), ChatMessage(ANSWER, role="assistant")])
    for copied in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):  # noqa: S301 - our own bytes
        assert [each.content for each in copied.get_all()] == [ASKED, ANSWER]
        copied.put(ChatMessage(THEN))
        assert len(memory.get_all()) == 2
    assert len({each.session for each in bank.list() if each.source == "transcript"}) == 1
    assert rig.kept(bank) == [ASKED, ANSWER, THEN]


def test_nothing_of_it_holds_a_secret(file: Path) -> None:
    """A bank's key stays with the bank."""
    options: dict[str, Any] = {"ledger": f"sqlite:///{file}", "connection": {"close_timeout": 0}}
    with open_bank("http://127.0.0.1:9", api_key="s3cret-key", **options) as bank:
        memory = BankMemory(bank, "c")
        assert "s3cret" not in repr(memory) + memory.to_json() + str(memory.model_dump())
        assert repr(memory) == "BankMemory(session_id='c', insert='user', token_limit=None)"


# the host's own threads and tasks fail with the model
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["simple", "context"])
async def test_the_user_s_words_are_kept_when_the_model_fails(rig: Rig, kind: str, mode: str, after: int) -> None:
    """Half an answer is not; the next turn goes on."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=script_of(kind, ANSWER, "Yes."), failing=TimeoutError("model"), after=after)
    engine = engine_of(kind, llm, BankMemory(bank, "c"))
    if after and not mode.startswith(("stream", "astream")):
        pytest.skip("nothing is half said without a stream")
    with pytest.raises(TimeoutError, match="model"):
        await chat(engine, mode, ASKED)
    assert rig.kept(bank) == [ASKED]
    llm.failing = None
    assert await chat(engine, mode, THEN) == "Yes."
    assert rig.kept(bank) == [ASKED, THEN, "Yes."]
    assert f"- {FACT} (" in text_of(llm.seen[-1])


@pytest.mark.parametrize("kind", ["simple", "context", "condense plus context", "condense question"])
async def test_a_stream_that_nobody_reads_is_retained_all_the_same(rig: Rig, kind: str) -> None:
    """The host's own thread reads it to its end. Some engines of the lowest version have none: there what was asked is kept."""
    bank, expected = rig.open("alice", FACT), [ASKED] if FLOOR and "context" in kind else [ASKED, ANSWER]
    engine = engine_of(kind, StrictLLM(script=script_of(kind, ANSWER)), BankMemory(bank, "c"))
    stream = engine.stream_chat(ASKED)
    assert next(stream.response_gen)
    for _ in range(400):  # the host does not give its thread away everywhere
        if rig.kept(bank) == expected:
            break
        await asyncio.sleep(0.05)
    assert rig.kept(bank) == expected


@pytest.mark.parametrize("kind", ["simple", "context", "agent"])
async def test_the_loop_is_never_blocked(rig: Rig, kind: str) -> None:
    """Not by the first turn, which opens what is to be opened, nor by a later one."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[ANSWER, "Yes."])
    engine = None if kind == "agent" else engine_of(kind, llm, BankMemory(bank, "c"))
    agent = with_memory(agent_of("function", llm), bank, session_id="c")
    with blockbuster_ctx(scanned_modules=["lorebank", "llamaindex_lorebank"]):
        for text in (ASKED, THEN):
            await chat(engine, "achat", text) if engine is not None else await agent.run(text)
    assert rig.kept(bank) == [ASKED, ANSWER, THEN, "Yes."]


@pytest.mark.parametrize(
    ("stored", "answer"),
    [
        ("Yes.", "Yes."),
        ("Thought: Easy.\nAnswer: Yes.", "Yes."),
        ("Thought: Easy.\nand more\nAnswer: Yes.\n\nAnswer: is no step here.", "Yes.\n\nAnswer: is no step here."),
        ("Thought: I look.\nAction: a\nAction Input: {}\nObservation: x\nThought: Good.\nAnswer: Yes.", "Yes."),
        (
            "Thought: I look.\nAction: a\nAction Input: {}\nObservation: Thought: x\nAnswer: no\nThought: y\nAnswer: Yes.\nAnd.",
            "Yes.\nAnd.",
        ),
        ("Thought: that is the word.", "Thought: that is the word."),
        ("I say:\nThought: x\nAnswer: y", "I say:\nThought: x\nAnswer: y"),
    ],
)
def test_the_answer_is_found_in_the_scaffold(stored: str, answer: str) -> None:
    """Of the last step; any other text is left alone."""
    assert answer_of(stored) == answer


def test_code_that_was_run_is_a_tool_call_and_its_result_no_user_s_word() -> None:
    """Only where both stand together: somebody may write about code."""
    ran = ChatMessage("I count. <execute>\nprint(1)\n</execute>", role="assistant")
    result = ChatMessage("Result of executing the code given:\n\n1")
    assert spoken([ran, result]) == [
        Message("assistant", "I count.", tool_calls=(ToolCall("execute", {"code": "print(1)"}),)),
        Message("tool", str(result.content), name="execute"),
    ]
    assert [message.role for message in spoken([result, ran])] == ["user", "assistant"]
    assert spoken([ran])[0].text == ran.content


def test_a_tool_s_result_has_the_tool_s_name() -> None:
    """By the id of the call: what our own tools give is known by it."""
    result = ChatMessage("- Ana prefers aisle seats.", role="tool", additional_kwargs={"tool_call_id": "call-recall"})
    assert [message.name for message in spoken([call("recall", query="seat"), result])] == [None, "recall"]
    both = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_call_id="1", tool_name="a", tool_kwargs="{}")])
    assert spoken([both])[0].tool_calls == (ToolCall("a", {"input": "{}"}),)


async def test_threads_of_one_conversation_lose_nothing(rig: Rig) -> None:
    """Messages that are put at the same time are all retained, once."""
    bank = rig.open("alice")
    memory = BankMemory(bank, "c")
    threads = [threading.Thread(target=memory.put, args=(ChatMessage(f"Remark {n}"),)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(rig.kept(bank)) == sorted(f"Remark {n}" for n in range(12))
    assert PREFIX in text_of(memory.get())
