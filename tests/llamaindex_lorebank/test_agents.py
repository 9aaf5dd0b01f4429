"""`with_memory(agent, bank)`: every kind of workflow agent, what its model sees, and what the bank has afterwards."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentInput, AgentOutput
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import AgentStream
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context
from workflows.errors import WorkflowCancelledByUser

from llamaindex_lorebank import BankMemory, BankToolSpec, with_memory
from llamaindex_lorebank.testing import StrictLLM, call
from lorebank import UsageError, per_user
from lorebank.seams import Retained

from .agent_rig import AGENTS, FLOOR, KEPT, above_the_floor, agent_of, script_of
from .memory_rig import ANSWER, ASKED, FACT, PREFIX, PRIMARIES, THEN, roles, text_of

Rig = Any  # of conftest.py
pytestmark = [
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),  # a Context that is used again
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),  # ReActAgent's own
]
PROMPTS = (None, "Be brief.")
LONG = "The seat in row twelve that is next to nobody, then."


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("kind", AGENTS)
async def test_an_agent_remembers(rig: Rig, kind: str, prompt: str | None, streaming: bool) -> None:
    """One recall a run however many model calls; one system message that holds the agent's prompt and the prefix; each message
    retained once, without scaffold.
    """
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=script_of(kind, ANSWER))
    agent = with_memory(agent_of(kind, llm, prompt, streaming=streaming), bank, session_id="c")
    shown = "" if prompt is None or (FLOOR and kind.startswith("react")) else prompt
    memory = ChatMemoryBuffer.from_defaults()
    output = await agent.run(ASKED, memory=memory)
    assert output.response.content == ANSWER
    assert len(llm.seen) == len(llm.script) >= 2
    for seen in llm.seen:
        assert str(seen[0].content).startswith(PREFIX)
        assert str(seen[0].content).count("</mental_models>") == int(not rig.real)  # where the rig seeds none
        assert shown in str(seen[0].content)
        assert seen[1].content == f"{seen[1].blocks[0].text}\n{ASKED}"
        assert f"- {FACT} (" in seen[1].blocks[0].text
        assert "</memories>" not in text_of([seen[0], *seen[2:]])
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, *KEPT[kind], ANSWER])
    assert sum(event.stored for event in rig.of(Retained)) == len(rig.kept(bank))
    assert "</memories>" not in text_of(memory.get_all())
    assert memory.get_all()[0].content == ASKED


@pytest.mark.parametrize("primary", PRIMARIES)
@pytest.mark.parametrize("kind", AGENTS)
async def test_a_bare_memory_works_in_every_agent(rig: Rig, kind: str, primary: str) -> None:
    """Prefix and memories ahead of the user's words, also in a `ReActAgent`, which drops system messages that are not its own."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[*script_of(kind, ANSWER), *script_of(kind, "Yes.")])
    agent, memory = agent_of(kind, llm, "Be brief."), BankMemory(bank, "c", rig.primary(primary))
    for text, answer in ((ASKED, ANSWER), (THEN, "Yes.")):
        assert (await agent.run(text, memory=memory)).response.content == answer
    half = len(llm.seen) // 2
    for seen, text in zip(llm.seen, [ASKED] * half + [THEN] * half, strict=True):
        [said] = [message for message in seen if message.content and "</memories>" in message.content]
        assert said.content == f"{said.blocks[0].text}\n{text}"
        assert said.blocks[0].text.startswith(PREFIX)
        assert f"- {FACT} (" in said.blocks[0].text
        assert PREFIX not in str(seen[0].content)
    assert (rig.recalls, rig.kept(bank)) == (2, [ASKED, *KEPT[kind], ANSWER, THEN, *KEPT[kind], "Yes."])


@pytest.mark.parametrize("kind", AGENTS)
async def test_the_given_agent_stays_as_it_is(rig: Rig, kind: str) -> None:
    """The changed one is one of the same kind, and shares all that the given one has."""
    llm = StrictLLM(script=script_of(kind, ANSWER) * 2)
    agent = agent_of(kind, llm, "Be brief.")
    changed = with_memory(agent, rig.open("alice", FACT))
    assert isinstance(changed, type(agent))
    assert (type(changed).__name__, changed.workflow_name) == (type(agent).__name__, agent.workflow_name)
    assert (await changed.run(ASKED)).response.content == ANSWER
    half = len(llm.seen)
    assert (await agent.run(ASKED)).response.content == ANSWER
    assert all(PREFIX in text_of(seen) for seen in llm.seen[:half])
    assert not any(PREFIX in text_of(seen) or "</memories>" in text_of(seen) for seen in llm.seen[half:])
    assert rig.recalls == 1


@pytest.mark.parametrize("how", ["again", "restored"])
@pytest.mark.parametrize("given", ["nothing", "buffer", "memory", "bank memory", "bare"])
@pytest.mark.parametrize("kind", AGENTS)
async def test_a_context_goes_on(rig: Rig, kind: str, given: str, how: str) -> None:
    """Used again, or saved as JSON and restored. A `Memory`, which a context can't keep, is passed again."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[*script_of(kind, ANSWER), *script_of(kind, "Yes.")])
    plain = agent_of(kind, llm)
    agent = plain if given == "bare" else with_memory(plain, bank, session_id="c")
    memory = {"buffer": ChatMemoryBuffer.from_defaults(), "memory": rig.primary("memory")}.get(given)
    memory = BankMemory(bank, "c") if given in ("bank memory", "bare") else memory
    context = Context(agent)
    await agent.run(ASKED, ctx=context, memory=memory)
    if how == "restored":
        context = Context.from_dict(agent, json.loads(json.dumps(context.to_dict())))
    again = memory if given == "memory" else None
    assert (await agent.run(THEN, ctx=context, memory=again)).response.content == "Yes."
    assert [message.content for message in llm.seen[-1]].count(ASKED) == 1
    assert (rig.recalls, rig.kept(bank, "c")) == (2, [ASKED, *KEPT[kind], ANSWER, THEN, *KEPT[kind], "Yes."])


@pytest.mark.parametrize("how", ["again", "restored"])
async def test_a_context_tells_nobody_s_bank_what_another_user_has_said(rig: Rig, how: str) -> None:
    """The bank is the run's. The model sees the conversation that is in the context; each bank gets its user's own part."""
    hall = rig.open("hall")
    llm = StrictLLM(script=[ANSWER, "Yes.", "No."])
    agent = with_memory(agent_of("function", llm), per_user(hall))
    context = Context(agent)
    for user, text in (("ana", ASKED), ("ben", THEN), ("ana", "Is that all?")):
        with instrument_tags({"user_id": user, "session_id": "c"}):
            await agent.run(text, ctx=context)
        if how == "restored":
            context = Context.from_dict(agent, json.loads(json.dumps(context.to_dict())))
    assert [message.content for message in llm.seen[-1]].count(ASKED) == 1
    assert rig.kept(hall.named("ana")) == [ASKED, ANSWER, "Is that all?", "No."]
    assert rig.kept(hall.named("ben")) == [THEN, "Yes."]


@pytest.mark.parametrize("kind", AGENTS)
async def test_streams_show_the_answer_only(rig: Rig, kind: str) -> None:
    """Word by word, and in the final output nothing of ours."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=script_of(kind, ANSWER))
    handler = with_memory(agent_of(kind, llm), bank, session_id="c").run(ASKED)
    events = [event async for event in handler.stream_events()]
    output = await handler
    deltas = "".join(event.delta for event in events if isinstance(event, AgentStream))
    assert deltas.endswith(ANSWER)
    assert sum(isinstance(event, AgentStream) for event in events) > len(llm.seen)
    shown = [event for event in events if not isinstance(event, AgentInput)]
    assert not any(PREFIX in repr(each) or "</memories>" in repr(each) for each in (*shown, output))
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, *KEPT[kind], ANSWER])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("sent", ["everything", "texts"])
@pytest.mark.parametrize("kind", AGENTS)
async def test_a_history_that_is_sent_again_is_retained_once(rig: Rig, kind: str, sent: str, named: bool) -> None:
    """`chat_history=` in a run of its own each time, whether or not it says which conversation it is: with all that the agent
    stored, or with what a browser keeps of it.
    """
    bank, history = rig.open("alice", FACT), list[ChatMessage]()
    turns = [(ASKED, LONG), (THEN, "Yes, row twelve is booked for Ana, says the airline."), ("Thanks.", "Bye.")]
    for turn, (text, answer) in enumerate(turns):
        llm, memory = StrictLLM(script=script_of(kind, answer)), ChatMemoryBuffer.from_defaults()
        agent = with_memory(agent_of(kind, llm), bank, session_id="c" if named else None)
        alone = {"chat_history": [*history, ChatMessage(text)]}  # the newest message may stand in the history
        given = alone if turn == 1 else {"user_msg": text, "chat_history": history}
        assert (await agent.run(memory=memory, **given)).response.content == answer
        texts = [*history, ChatMessage(text), ChatMessage(answer, role="assistant")]
        history = memory.get_all() if sent == "everything" else texts
    kept, said = rig.kept(bank), [each for turn in turns for each in turn]
    assert (rig.recalls, [text for text in kept if text in said]) == (3, said)
    if sent == "everything":  # a call that is out of sight is recalled, and then only said again
        assert kept == [each for text, answer in turns for each in (text, *KEPT[kind], answer)]


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("kind", AGENTS)
async def test_users_of_one_agent_are_told_apart(rig: Rig, kind: str, bare: bool) -> None:
    """At the same time, by the instrument tags of each run; with a memory alone, too."""
    hall, users = rig.open("hall"), ("ana", "ben", "cid", "dan")
    for user in users:
        rig.tell(hall.named(user), f"The favourite seat of {user} is 7{user[0]}.")
    llms = {user: StrictLLM(script=script_of(kind, f"Good, {user}.")) for user in users}
    own = BankMemory(per_user(hall)) if bare else None
    plain = agent_of(kind, StrictLLM(script=[lambda messages: _answer(llms, messages)], repeat=True))
    agent = plain if bare else with_memory(plain, per_user(hall))

    async def run(user: str) -> None:
        with instrument_tags({"user_id": user, "session_id": f"of {user}"}):
            output = await agent.run(f"I am {user}: which seat is my favourite?", memory=own)
        assert output.response.content == f"Good, {user}."

    await asyncio.gather(*map(run, users))
    for user in users:
        asked = f"I am {user}: which seat is my favourite?"
        assert rig.kept(hall.named(user), f"of {user}") == [asked, *KEPT[kind], f"Good, {user}."]
        assert all(f"seat of {user} is" in text_of(seen) for seen in llms[user].seen)
        assert not any(f"seat of {other} is" in text_of(seen) for seen in llms[user].seen for other in users if other != user)
    assert rig.recalls == len(users)


def _answer(llms: dict[str, StrictLLM], messages: list[ChatMessage]) -> ChatMessage:
    """The answer of the model of whoever asks."""
    [user] = [name for name in llms if f"I am {name}" in text_of(messages)]
    return llms[user].chat(messages).message


async def test_a_run_without_its_user_is_refused_before_it_begins(rig: Rig) -> None:
    """With the key and where to put it."""
    llm = StrictLLM(script=[])
    agent = with_memory(agent_of("function", llm), per_user(rig.open("hall")))
    with pytest.raises(UsageError, match=r"user_id.*instrument_tags"):
        agent.run(ASKED)
    assert llm.seen == []


async def test_a_memory_that_is_given_keeps_its_bank_and_its_session(rig: Rig) -> None:
    """The prefix merges all the same."""
    hall = rig.open("hall")
    rig.tell(hall.named("ana"), FACT)
    llm = StrictLLM(script=script_of("function", ANSWER))
    memory = BankMemory(hall.named("ana"), "own")
    await with_memory(agent_of("function", llm, "Be brief."), hall.named("ben"), session_id="c").run(ASKED, memory=memory)
    assert all(roles(seen)[:2] == ["system", "user"] and str(seen[0].content).startswith(PREFIX) for seen in llm.seen)
    assert f"- {FACT} (" in str(llm.seen[0][1].content)
    assert rig.kept(hall.named("ana"), "own") == [ASKED, *KEPT["function"], ANSWER]
    assert rig.kept(hall.named("ben")) == []
    assert memory.get_all()[0].content == ASKED


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_instructions_name_the_tools_that_the_agent_has(rig: Rig, streaming: bool) -> None:
    """Each agent of a workflow its own, with their prefix; what they give is never retained."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[call("handoff", to_agent="second", reason="seats"), call("my_recall", query="seat"), ANSWER])
    agent = agent_of("hand-off", llm, streaming=streaming)
    agent.agents["second"].tools += BankToolSpec(bank, include=["recall"], prefix="my_").to_tool_list()
    await with_memory(agent, bank, session_id="c").run(ASKED)
    assert ["Call my_recall before" in str(seen[0].content) for seen in llm.seen] == [False, True, True]
    assert f"{FACT}" in str(llm.seen[2][-1].content)
    assert rig.recalls == 2  # one is the tool's
    assert rig.kept(bank) == [ASKED, KEPT["hand-off"][0], ANSWER]


@pytest.mark.parametrize("outer", AGENTS)
async def test_an_agent_in_a_tool_is_a_sub_agent(rig: Rig, outer: str) -> None:
    """It has the parent's bank, and nothing is recalled or retained on its own."""
    bank = rig.open("alice", FACT)
    inner_llm = StrictLLM(script=["Sunny, says the sub-agent."], repeat=True)
    inner = with_memory(agent_of("function", inner_llm, "Be a sub-agent."), bank)

    async def weather(city: str) -> str:
        """The weather in a city."""
        return str((await inner.run(f"What about {city}?")).response.content)

    if outer == "code act":
        pytest.skip("its tools are functions that its code calls")
    llm = StrictLLM(script=script_of(outer, ANSWER))
    await with_memory(agent_of(outer, llm, tools=[weather]), bank, session_id="c").run(ASKED)
    assert inner_llm.seen
    assert not any("</memories>" in text_of(seen) for seen in inner_llm.seen)
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, *KEPT[outer], ANSWER])


@above_the_floor
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", ["function", "workflow"])
async def test_a_run_that_is_stopped_early_sees_one_system_message(rig: Rig, kind: str, streaming: bool) -> None:
    """The host adds one of its own at the end, which a strict model refuses."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[call("weather", city="Rome"), ANSWER])
    agent = with_memory(agent_of(kind, llm, "Be brief.", streaming=streaming), bank, session_id="c")
    output = await agent.run(ASKED, max_iterations=1, early_stopping_method="generate")
    assert output.response.content == ANSWER
    assert roles(llm.seen[1]) == ["system", "user"]
    assert str(llm.seen[1][0].content).startswith(PREFIX)
    assert "Be brief." in str(llm.seen[1][0].content)
    assert "maximum" in str(llm.seen[1][0].content)
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


class Seat(BaseModel):
    """A seat."""

    row: int


@pytest.mark.parametrize("kind", ["function", pytest.param("workflow", marks=above_the_floor)])
async def test_structured_output_sees_the_conversation_and_nothing_of_ours(rig: Rig, kind: str) -> None:
    """It is made after the answer, by another call of the model."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[ANSWER, call("Seat", row=12)])
    output = await with_memory(agent_of(kind, llm, "Be brief.", output_cls=Seat), bank, session_id="c").run(ASKED)
    assert output.structured_response == {"row": 12}
    assert roles(llm.seen[1]) == ["system", "user"]
    assert ASKED in text_of(llm.seen[1])
    assert PREFIX not in text_of(llm.seen[1])
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


@pytest.mark.parametrize("bare", [True, False])
async def test_a_state_that_the_agent_writes_into_a_message_is_not_retained(rig: Rig, bare: bool) -> None:
    """The host edits the last message in place; it edits a copy."""
    bank, memory = rig.open("alice", FACT), ChatMemoryBuffer.from_defaults()
    llm = StrictLLM(script=[ANSWER])
    agent = agent_of("function", llm, initial_state={"mood": "fine"})
    if bare:
        await agent.run(ASKED, memory=BankMemory(bank, "c", memory))
    else:
        await with_memory(agent, bank, session_id="c").run(ASKED, memory=memory)
    assert "mood" in text_of(llm.seen[0])
    assert "mood" not in text_of(memory.get_all())
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize("kind", AGENTS)
async def test_the_user_s_words_are_kept_when_the_model_fails(rig: Rig, kind: str) -> None:
    """The failure reaches the caller; the next run goes on."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=script_of(kind, ANSWER), failing=TimeoutError("model"))
    agent = with_memory(agent_of(kind, llm, streaming=False), bank, session_id="c")
    with pytest.raises(Exception, match="model"):
        await agent.run(ASKED)
    assert rig.kept(bank) == [ASKED]


async def test_a_cancelled_run_keeps_the_user_s_words(rig: Rig) -> None:
    """And no half answer; the same agent serves the next run."""
    bank, begun = rig.open("alice", FACT), asyncio.Event()

    async def wait(city: str) -> str:
        """Waits for ever."""
        begun.set()
        await asyncio.Event().wait()
        return city

    llm = StrictLLM(script=[call("wait", city="Rome"), ANSWER])
    agent = with_memory(agent_of("function", llm, tools=[wait]), bank, session_id="c")
    handler = agent.run(ASKED)
    await begun.wait()
    await handler.cancel_run()
    with pytest.raises(WorkflowCancelledByUser):
        await handler
    assert rig.kept(bank) == [ASKED]
    assert (await agent.run(THEN)).response.content == ANSWER
    assert rig.kept(bank) == [ASKED, THEN, ANSWER]


class Parrot(BaseWorkflowAgent):
    """An agent of the application's own, which calls its model in its own way."""

    async def take_step(self, ctx: Any, llm_input: list[ChatMessage], tools: Any, memory: Any) -> AgentOutput:
        response = await self.llm.achat(llm_input)
        return AgentOutput(response=response.message, current_agent_name=self.name)

    async def handle_tool_call_results(self, ctx: Any, results: Any, memory: Any) -> None:
        raise NotImplementedError

    async def finalize(self, ctx: Any, output: AgentOutput, memory: Any) -> AgentOutput:
        await memory.aput(output.response)
        return output


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_an_agent_of_one_s_own_remembers(rig: Rig, prompt: str | None) -> None:
    """As long as it gives its model what it was given."""
    bank, llm = rig.open("alice", FACT), StrictLLM(script=[ANSWER])
    output = await with_memory(Parrot(llm=llm, system_prompt=prompt), bank, session_id="c").run(ASKED)
    assert output.response.content == ANSWER
    assert roles(llm.seen[0]) == ["system", "user"]
    assert str(llm.seen[0][0].content).startswith(PREFIX)
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


def test_what_can_have_no_memory_is_told_what_to_do(rig: Rig) -> None:
    """Chat engines, other workflows, anything else, and an agent that has one."""
    bank = rig.open("alice")
    agent = agent_of("function", StrictLLM(script=[]))
    with pytest.raises(UsageError, match="has a memory already"):
        with_memory(with_memory(agent, bank), bank)
    with pytest.raises(UsageError, match=r"SimpleChatEngine.*memory=BankMemory\(bank\)"):
        with_memory(SimpleChatEngine.from_defaults(llm=StrictLLM(script=[]), memory=BankMemory(bank)), bank)
    with pytest.raises(UsageError, match="found str"):
        with_memory("agent", bank)
    with pytest.raises(UsageError, match="no option 'top_k'"):
        with_memory(agent, bank, top_k=3)
    with pytest.raises(UsageError, match="must be a Bank"):
        with_memory(agent, None)  # type: ignore[arg-type]
