"""Memory in chat engines and agents on a Hindsight server: a covering sample on the small one in this process and a real one."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage

from llamaindex_lorebank import BankMemory, BankMemoryBlock, with_memory
from llamaindex_lorebank.testing import StrictLLM
from lorebank.testing import Fault

from .agent_rig import AGENTS, KEPT, agent_of
from .agent_rig import script_of as agent_script
from .memory_rig import ANSWER, ASKED, FACT, KINDS, MODES, PREFIX, THEN, answering, chat, engine_of, script_of, text_of

Rig = Any  # of conftest.py
Place = Any  # the same
pytestmark = pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning")  # ReActAgent's own


def recalled(seen: list[ChatMessage]) -> bool:
    """Whether a model saw the fact among the memories, once."""
    _, memories, text = text_of(seen).rpartition("<memories>\n")
    return bool(memories) and text.partition("</memories>")[0].count(f"- {FACT}") == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_engine_remembers(both: Rig, kind: str, mode: str) -> None:
    """On either engine: one recall a turn, memories where the model answers, each message once."""
    bank = both.open("alice", FACT)
    llm = StrictLLM(script=script_of(kind, ANSWER, "Yes."))
    engine = engine_of(kind, llm, BankMemory(bank, "c"))
    assert await chat(engine, mode, ASKED) == ANSWER
    assert await chat(engine, mode, THEN) == "Yes."
    reached = llm.seen[::2] if kind == "condense question" else answering(kind, llm)
    assert all(map(recalled, reached))
    assert (both.recalls, both.kept(bank)) == (2, [ASKED, ANSWER, THEN, "Yes."])


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("kind", AGENTS)
async def test_an_agent_remembers(both: Rig, kind: str, bare: bool) -> None:
    """On either engine: one recall a run, the prefix in front of each call, each message once."""
    bank = both.open("alice", FACT)
    llm = StrictLLM(script=agent_script(kind, ANSWER))
    plain = agent_of(kind, llm, "Be brief.")
    run = plain.run(ASKED, memory=BankMemory(bank, "c")) if bare else with_memory(plain, bank, session_id="c").run(ASKED)
    assert (await run).response.content == ANSWER
    assert all(recalled(seen) and text_of(seen).count(PREFIX) == 1 for seen in llm.seen)
    assert (both.recalls, both.kept(bank)) == (1, [ASKED, *KEPT[kind], ANSWER])


@pytest.mark.parametrize("mode", MODES)
async def test_a_chat_engine_on_a_real_server(place: Place, mode: str) -> None:
    """Memories from what the server knows; each message reaches it once, also what is sent again."""
    with place.open(FACT) as bank:
        llm = StrictLLM(script=[ANSWER, "Yes."])
        memory = BankMemory(bank, "c")
        engine = engine_of("simple", llm, memory)
        await chat(engine, mode, ASKED)
        await chat(engine, mode, THEN, memory.get_all())
        assert all(map(recalled, llm.seen))
        assert (place.recalls, place.kept(bank)) == (2, [ASKED, ANSWER, THEN, "Yes."])


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("kind", AGENTS)
async def test_an_agent_on_a_real_server(place: Place, kind: str, bare: bool) -> None:
    """One recall a run, and no scaffold on the server."""
    with place.open(FACT) as bank:
        llm = StrictLLM(script=agent_script(kind, ANSWER))
        plain = agent_of(kind, llm)
        run = plain.run(ASKED, memory=BankMemory(bank, "c")) if bare else with_memory(plain, bank, session_id="c").run(ASKED)
        assert (await run).response.content == ANSWER
        assert all(map(recalled, llm.seen))
        assert (place.recalls, place.kept(bank)) == (1, [ASKED, *KEPT[kind], ANSWER])


async def test_a_block_on_a_real_server(place: Place, rig: Rig) -> None:
    """As `BankMemory`, one question later."""
    with place.open(FACT) as bank:
        llm = StrictLLM(script=[ANSWER, "Yes."])
        engine = engine_of("simple", llm, rig.primary("memory", memory_blocks=[BankMemoryBlock(bank, "c")], insert_method="user"))
        await chat(engine, "achat", ASKED)
        await chat(engine, "chat", THEN)
        assert all(map(recalled, llm.seen))
        assert (place.recalls, place.kept(bank)) == (2, [ASKED, ANSWER, THEN])


@pytest.mark.parametrize("kind", ["dead", "slow"])
async def test_a_line_that_is_cut_loses_nothing(place: Place, kind: str) -> None:
    """The run goes on without memories; all of it arrives when the line is back."""
    with place.open(FACT, recall={"deadline": 0.5}) as bank:
        llm = StrictLLM(script=[ANSWER])
        place.line.stop() if kind == "dead" else place.line.fault(Fault(hang=True))
        output = await with_memory(agent_of("function", llm), bank, session_id="c").run(ASKED)
        assert output.response.content == ANSWER
        assert "</memories>" not in text_of(llm.seen[0])
        if kind == "dead":
            place.line.start()
        place.line.heal()
        assert place.kept(bank) == [ASKED, ANSWER]
