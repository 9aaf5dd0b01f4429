"""What docs/comparison.md says of lorebank in LlamaIndex, where no other test says it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation.dispatcher import instrument_tags

from llamaindex_lorebank import BankMemory, BankRetriever, BankToolSpec, with_memory
from llamaindex_lorebank.testing import StrictLLM
from lorebank import DeadlineError, open_bank
from lorebank.seams import BankPrepared
from lorebank.testing import Fault, FaultServer

from . import engine_rig
from .agent_rig import agent_of, weather
from .memory_rig import ANSWER, ASKED, FACT, PREFIX, PRIMARIES, THEN, roles, text_of

pytestmark = pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning")  # ReActAgent's own
Rig = Any  # of conftest.py
HOW = ("sync", "async")
STEPS = [
    'Thought: I look.\nAction: weather\nAction Input: {"city": "Rome"}',
    'Thought: I look again.\nAction: weather\nAction Input: {"city": "Oslo"}',
    f"Thought: I can answer.\nAnswer: {ANSWER}",
]


@pytest.fixture
def remote(both: Rig) -> Rig:
    """On the small server."""
    assert both.server is not None
    return both


on_a_server = pytest.mark.parametrize("both", ["hindsight"], indirect=True)


async def put(memory: BankMemory, how: str, text: str, role: Any = "user") -> None:
    message = ChatMessage(text, role=role)
    await memory.aput(message) if how == "async" else memory.put(message)


@pytest.mark.parametrize("bare", [False, True], ids=["with_memory", "bare"])
async def test_a_react_agent_that_calls_its_model_three_times_recalls_once(rig: Rig, bare: bool) -> None:
    """One system message each time, which holds the agent's own prompt; the prefix is in it, or ahead of the user's words."""
    bank, llm = rig.open("alice", FACT), StrictLLM(script=STEPS)
    plain: Any = ReActAgent(llm=llm, tools=[weather], system_prompt="Be brief.")
    agent = plain if bare else with_memory(plain, bank, session_id="c")
    await agent.run(ASKED, memory=BankMemory(bank, "c") if bare else None)
    assert [roles(seen).count("system") for seen in llm.seen] == [1, 1, 1]
    assert [str(seen[0].content).startswith(PREFIX) for seen in llm.seen] == [not bare] * 3
    assert [(text_of(seen).count(PREFIX), text_of(seen).count(f"- {FACT} (")) for seen in llm.seen] == [(1, 1)] * 3
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("primary", PRIMARIES)
async def test_each_message_is_kept_as_it_is_put(rig: Rig, primary: str, how: str) -> None:
    """Not when the memory overflows."""
    bank = rig.open("alice", FACT)
    memory = BankMemory(bank, "c", rig.primary(primary))
    await put(memory, how, ASKED)
    assert rig.kept(bank) == [ASKED]
    await put(memory, how, ANSWER, "assistant")
    assert rig.kept(bank) == [ASKED, ANSWER]


@on_a_server
@pytest.mark.parametrize("how", HOW)
async def test_a_put_does_not_wait_for_a_server(remote: Rig, how: str) -> None:
    """That takes no write: the messages wait on disk, and arrive later."""
    bank = remote.open("alice", FACT, retain={"every_n_turns": 1})
    remote.server.fault(Fault(hang=True), path="/memories$", method="POST")
    memory = BankMemory(bank, "c")
    await put(memory, how, ASKED)
    await put(memory, how, ANSWER, "assistant")
    assert bank.outbox.status().waiting == 2
    remote.server.heal()
    assert remote.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("primary", PRIMARIES)
async def test_a_history_that_is_set_again_after_a_reset_writes_nothing(rig: Rig, primary: str, how: str) -> None:
    """What is new in it is kept."""
    bank = rig.open("alice", FACT)
    memory = BankMemory(bank, "c", rig.primary(primary))
    history = [ChatMessage(text, role=role) for text, role in ((ASKED, "user"), (ANSWER, "assistant"), (THEN, "user"))]
    for count in (2, 2, 3):
        if how == "async":
            await memory.areset()
            await memory.aset(history[:count])
        else:
            memory.reset()
            memory.set(history[:count])
    assert rig.kept(bank) == [ASKED, ANSWER, THEN]


@on_a_server
async def test_the_bank_s_settings_hold_in_all_that_reads(remote: Rig) -> None:
    """Tool, agent, chat engine and query engine ask once each, as `open_bank` was told; a retriever's bounds are its own."""
    settings = {"types": ("observation",), "max_tokens": 77, "deadline": 10}
    bank = remote.open("alice", FACT, recall=settings, mental_models={"enabled": False})
    BankToolSpec(bank, include=["recall"]).recall(ASKED)
    with instrument_tags({"session_id": "agent"}):
        await with_memory(agent_of("function", StrictLLM(script=[ANSWER])), bank).run(ASKED)
    SimpleChatEngine.from_defaults(llm=StrictLLM(script=[ANSWER]), memory=BankMemory(bank, "chat")).chat(ASKED)
    with_memory(engine_rig.documents(engine_rig.model()), bank, session_id="query").query(ASKED)
    BankRetriever(bank).retrieve(ASKED)
    asked = [request.json() for request in remote.server.requests if request.path.endswith("/memories/recall")]
    assert [body["types"] for body in asked] == [["observation"]] * 5
    assert [body["max_tokens"] for body in asked[:4]] == [77, 154, 154, 154]  # sessions ask for twice what they show
    assert asked[4]["max_tokens"] > 154


@on_a_server
def test_a_bank_that_could_not_be_made_is_made_later(remote: Rig) -> None:
    """With its missions, before the first write that arrives."""
    remote.server.fault(Fault(status=503))
    bank = remote.open("alice", retain={"missions": {"retain": "Seats."}})
    BankMemory(bank, "c").put(ChatMessage(ASKED))
    bank.session("c").retain_now()
    remote.server.heal()
    assert remote.kept(bank) == [ASKED]
    made = [request.json() for request in remote.server.requests if request.method == "PUT" and request.path.endswith("/alice")]
    assert made[-1] == {"retain_mission": "Seats."}
    assert BankPrepared("alice", made=True) in remote.events


@pytest.mark.parametrize(("operation", "within"), [("recall", "0.2"), ("reflect", "0.3"), ("forget", "0.4")])
def test_each_operation_has_a_bound_of_its_own(file: Any, operation: str, within: str) -> None:
    """Of the whole call, whatever the others have."""
    bounds = {"recall_timeout": 0.2, "reflect_timeout": 0.3, "timeout": 0.4, "close_timeout": 0}
    with FaultServer() as server, open_bank(server.url, bank="alice", ledger=f"sqlite:///{file}", connection=bounds) as bank:
        server.fault(Fault(hang=True))
        with pytest.raises(DeadlineError, match=f"within {within} s"):
            getattr(bank, operation)(str(uuid.UUID(int=1)))
        server.heal()
