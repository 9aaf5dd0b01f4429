"""Memory in LlamaIndex when the server is dead, slow, or answers nonsense: the run goes on, and everything is delivered later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs import OUTAGES, Line, line_with

from llamaindex_lorebank import BankMemory, with_memory
from llamaindex_lorebank.testing import StrictLLM
from lorebank import LorebankError, open_bank
from lorebank.seams import OutageEnded, OutageStarted

from .agent_rig import AGENTS, KEPT, agent_of
from .agent_rig import script_of as agent_script
from .memory_rig import ANSWER, ASKED, FACT, KINDS, MODES, chat, engine_of, roles, script_of, text_of

pytestmark = pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning")  # ReActAgent's own


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with line_with(FACT, tmp_path) as made:
        yield made


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", OUTAGES)
async def test_a_chat_engine_goes_on_and_everything_is_delivered_later(line: Line, kind: str, mode: str) -> None:
    """A right answer, the state told as events, the deadline waited for once, and nothing lost."""
    bank = line.open()
    line.fail(kind)
    llm = StrictLLM(script=[ANSWER, "Yes."])
    engine = engine_of("simple", llm, BankMemory(bank, "c"))
    begun = time.monotonic()
    assert await chat(engine, mode, ASKED) == ANSWER
    assert await chat(engine, mode, "Is it?") == "Yes."
    assert time.monotonic() - begun < 10
    assert "</memories>" not in "".join(map(text_of, llm.seen))
    assert any(isinstance(event, OutageStarted) and event.part == "recall" for event in line.events)
    line.heal(kind)
    delivered = line.delivered(bank)
    assert all(delivered.count(each) == 1 for each in (ASKED, ANSWER, "Is it?", "Yes."))


@pytest.mark.parametrize("engine", KINDS)
async def test_every_engine_goes_on(line: Line, engine: str) -> None:
    """With a server that is dead."""
    bank = line.open()
    line.fail("dead")
    llm = StrictLLM(script=script_of(engine, ANSWER))
    assert await chat(engine_of(engine, llm, BankMemory(bank, "c")), "achat", ASKED) == ANSWER
    line.heal("dead")
    assert all(line.delivered(bank).count(each) == 1 for each in (ASKED, ANSWER))


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize(("agent", "kind"), [(each, "dead") for each in AGENTS] + [("function", each) for each in OUTAGES[1:]])
async def test_an_agent_goes_on_and_everything_is_delivered_later(line: Line, agent: str, kind: str, bare: bool) -> None:
    """As without memory: its own prompt, its own messages, a right answer."""
    bank = line.open()
    line.fail(kind)
    llm = StrictLLM(script=agent_script(agent, ANSWER))
    plain = agent_of(agent, llm, "Be brief.")
    run = plain.run(ASKED, memory=BankMemory(bank, "c")) if bare else with_memory(plain, bank, session_id="c").run(ASKED)
    assert (await run).response.content == ANSWER
    assert all(roles(seen)[:2] == ["system", "user"] and seen[1].content.endswith(ASKED) for seen in llm.seen)
    assert "</memories>" not in "".join(map(text_of, llm.seen))
    line.heal(kind)
    delivered = line.delivered(bank)
    assert all(delivered.count(each) == 1 for each in (ASKED, ANSWER))
    assert delivered.count("execute(" if agent == "code act" else "city") == sum(
        "city" in k or "execute" in k for k in KEPT[agent]
    )


async def test_memory_comes_back_within_the_conversation(line: Line) -> None:
    """A later turn has memories again, and the end of the outage is told."""
    bank = line.open()
    line.fail("dead")
    llm = StrictLLM(script=["Yes."], repeat=True)
    engine = engine_of("simple", llm, BankMemory(bank, "c"))
    await chat(engine, "achat", ASKED)
    line.heal("dead")
    for n in range(50):
        await chat(engine, "achat", f"{ASKED} {n}")
        if FACT in text_of(llm.seen[-1]):
            break
    assert FACT in text_of(llm.seen[-1])
    assert [event.part for event in line.events if isinstance(event, OutageEnded) and event.part == "recall"] == ["recall"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["dead", "garbage"])
async def test_an_application_that_wants_it_is_told_by_an_error(line: Line, kind: str, mode: str) -> None:
    """With `on_failure="raise"`; the user's words are kept all the same."""
    bank = line.open(on_failure="raise")
    line.fail(kind)
    with pytest.raises(LorebankError):
        await chat(engine_of("simple", StrictLLM(script=[ANSWER]), BankMemory(bank, "c")), mode, ASKED)
    with pytest.raises(LorebankError):
        await with_memory(agent_of("function", StrictLLM(script=[ANSWER])), bank, session_id="a").run(ASKED)
    line.heal(kind)
    assert line.delivered(bank).count(ASKED) == 2


async def test_memory_that_is_off_is_as_if_it_were_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LOREBANK_URL=off`."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    llm = StrictLLM(script=[ANSWER, "Yes."])
    with open_bank(f"sqlite:///{tmp_path / 'none.db'}", bank="alice") as bank:
        assert await chat(engine_of("context", llm, BankMemory(bank)), "achat", ASKED) == ANSWER
        assert (await with_memory(agent_of("function", llm), bank).run(ASKED)).response.content == "Yes."
    assert [roles(seen) for seen in llm.seen] == [["system", "user"], ["user"]]
    assert not (tmp_path / "none.db").exists()
