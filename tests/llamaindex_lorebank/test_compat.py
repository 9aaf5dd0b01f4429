"""The shim for those who come from `hindsight-llamaindex` 0.1.5."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.instrumentation.dispatcher import instrument_tags

from llamaindex_lorebank import compat
from llamaindex_lorebank.compat import configuring
from llamaindex_lorebank.compat.memory import DEFAULT_SYSTEM_PROMPT
from llamaindex_lorebank.testing import StrictLLM, call
from lorebank import Bank, LorebankError, UsageError, open_bank
from lorebank.seams import Places, Skipped
from lorebank.testing import FaultServer

from .memory_rig import ANSWER, ASKED, FACT, THEN, text_of

pytestmark = pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning")  # ReActAgent's own
Rig = Any  # of conftest.py
HOW = ("sync", "async")
EMPTY = inspect.Parameter.empty
CLIENT = {"client": None, "hindsight_api_url": None, "api_key": None}
READING: dict[str, Any] = {"budget": "mid", "max_tokens": 4096, "tags": None, "recall_tags": None, "recall_tags_match": "any"}
MEMORY: dict[str, Any] = {
    "mission": None,
    "context": "llamaindex",
    **READING,
    "system_prompt": DEFAULT_SYSTEM_PROMPT,
    "chat_history_limit": 100,
}
TOOLS: dict[str, Any] = {
    "bank_id": EMPTY,
    **CLIENT,
    **dict.fromkeys(["budget", "max_tokens", "tags", "recall_tags", "recall_tags_match"]),
    **dict.fromkeys(["retain_metadata", "retain_document_id", "retain_context", "recall_types"]),
    "recall_include_entities": False,
    **dict.fromkeys(["reflect_context", "reflect_max_tokens", "reflect_response_schema", "reflect_tags", "reflect_tags_match"]),
    "mission": None,
}
PLACE = {"hindsight_api_url": None, "api_key": None}
CONFIG = {**PLACE, **READING, "context": "llamaindex", "mission": None, "verbose": False}
TAKEN: list[tuple[Callable[..., Any], dict[str, Any], int]] = [
    (compat.configure, CONFIG, 10),
    (compat.HindsightLlamaIndexConfig, CONFIG, 10),
    (compat.get_config, {}, 0),
    (compat.reset_config, {}, 0),
    (compat.create_hindsight_tools, TOOLS | dict.fromkeys(["include_retain", "include_recall", "include_reflect"], True), 0),
    (compat.HindsightToolSpec, TOOLS, 0),
    (compat.HindsightMemory.__init__, {"self": EMPTY, "client": EMPTY, "mission": None}, 3),
    (compat.HindsightMemory.from_defaults, {"bank_id": EMPTY, **CLIENT, **MEMORY}, 1),
    (compat.HindsightMemory.from_client, {"client": EMPTY, "bank_id": EMPTY, **MEMORY}, 2),
    (compat.HindsightMemory.from_url, {"hindsight_api_url": EMPTY, "bank_id": EMPTY, "api_key": None}, 2),
]
"""The arguments of the official package, with their defaults, and how many of them may be given by place."""


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is configured, and no bank is open."""
    monkeypatch.setattr(configuring, "_places", places := Places())
    yield
    compat.reset_config()
    for bank in places.banks.values():
        bank.close()


@pytest.fixture
def hall(rig: Rig) -> Bank:
    """Banks of users; Ana's knows one thing."""
    bank: Bank = rig.open("hall")
    rig.tell(bank.named("ana"), FACT)
    return bank


def memory_of(bank: Bank, **options: Any) -> compat.HindsightMemory:
    return compat.HindsightMemory.from_client(bank, "ana", **options)


def said(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(text, role="assistant" if place % 2 else "user") for place, text in enumerate(texts)]


async def got(memory: Any, how: str, *messages: ChatMessage) -> list[ChatMessage]:
    """What the model is given after these messages."""
    for message in messages:
        await memory.aput(message) if how == "async" else memory.put(message)
    found: list[ChatMessage] = await memory.aget() if how == "async" else memory.get()
    return found


async def used(tool: Any, how: str, **arguments: Any) -> str:
    return str(await tool.acall(**arguments) if how == "async" else tool.call(**arguments))


@pytest.mark.parametrize(("taker", "taken", "places"), TAKEN, ids=lambda each: getattr(each, "__qualname__", ""))
def test_the_arguments_are_those_of_the_official_package(taker: Callable[..., Any], taken: dict[str, Any], places: int) -> None:
    """With its defaults, in its order; the rest by keyword. Only the hosted service's address is no default."""
    parameters = [each for each in inspect.signature(taker).parameters.values() if each.kind is not each.VAR_KEYWORD]
    assert {each.name: each.default for each in parameters} == taken
    assert sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters) == places
    if places:
        assert [each.name for each in parameters][:places] == list(taken)[:places]


def test_the_door_has_the_names_of_the_official_one() -> None:
    """All of them."""
    assert compat.__all__ == [
        "HindsightError",
        "HindsightLlamaIndexConfig",
        "HindsightMemory",
        "HindsightToolSpec",
        "configure",
        "create_hindsight_tools",
        "get_config",
        "reset_config",
    ]


@pytest.mark.parametrize("kind", [FunctionAgent, ReActAgent])
async def test_an_agent_remembers(rig: Rig, hall: Bank, kind: Any) -> None:
    """`agent.run(memory=...)`: one recall a turn, one system message, each message retained once, tagged as wanted."""
    answer = f"Thought: I can answer.\nAnswer: {ANSWER}" if kind is ReActAgent else ANSWER
    act = 'Thought: I look.\nAction: look\nAction Input: {"at": "seats"}' if kind is ReActAgent else call("look", at="seats")
    llm = StrictLLM(script=[act, answer])

    def look(at: str) -> str:
        """Looks."""
        return at

    agent = kind(llm=llm, tools=[look], system_prompt="Be brief." if kind is FunctionAgent else None)
    rig.events.clear()
    assert ANSWER in str(await agent.run(ASKED, memory=memory_of(hall, tags=["chat"])))
    assert [text_of(seen).count(f"- {FACT} (") for seen in llm.seen] == [1, 1]
    assert rig.recalls == 1
    kept = hall.named("ana").list(tags=["chat"])
    assert {memory.text for memory in kept} >= {ASKED, ANSWER}
    assert {memory.tags for memory in kept} == {("chat",)}


@pytest.mark.parametrize("how", HOW)
async def test_memories_reach_the_next_conversation(rig: Rig, hall: Bank, how: str) -> None:
    """`put` retains, `get` recalls for the newest words of the user; `reset` clears the conversation alone."""
    memory = memory_of(hall)
    assert (memory.bank_id, memory.max_tokens, memory.tags) == ("ana", 4096, None)
    shown = await got(memory, how, *said(ASKED, ANSWER, THEN))
    assert [each.role for each in shown] == [MessageRole.USER, MessageRole.ASSISTANT, MessageRole.USER]
    assert f"- {FACT} (" in text_of(shown[-1:])
    assert [each.content for each in memory.get_all()] == [ASKED, ANSWER, THEN]
    memory.reset()
    memory.set(said(ASKED, ANSWER, THEN))
    assert rig.kept(hall.named("ana")) == [ASKED, ANSWER, THEN]
    memory.reset()
    assert memory.get_all() == []
    assert f"- {ASKED} (" in text_of(await got(memory_of(hall), how, ChatMessage("Did Ana ask for seats on long flights?")))


@pytest.mark.parametrize("how", HOW)
async def test_the_model_sees_the_newest_messages(rig: Rig, hall: Bank, how: str) -> None:
    """As many as wanted, and from a user's on; all are stored and retained."""
    memory = memory_of(hall, chat_history_limit=2)
    shown = await got(memory, how, *said("One?", "Yes, one.", "Two?", "Yes, two.", "Three?"))
    assert [str(each.content).splitlines()[-1] for each in shown] == ["Three?"]
    shown = await got(memory, how, ChatMessage("Yes, three.", role="assistant"))
    assert [str(each.content) for each in shown] == ["Three?", "Yes, three."]
    assert len(memory.get_all()) == len(rig.kept(hall.named("ana"))) == 6


def test_a_memory_is_saved_and_comes_back(hall: Bank) -> None:
    """Its arguments and its conversation, in the same session; never the bank."""
    memory = memory_of(hall, tags=["chat"], chat_history_limit=7)
    memory.put(ChatMessage(ASKED))
    for again in (
        compat.HindsightMemory.from_dict(memory.to_dict(), client=hall),
        compat.HindsightMemory.from_dict(memory.to_dict()),
        copy.deepcopy(memory),
    ):
        assert (type(again), again.bank_id, again.tags) == (compat.HindsightMemory, "ana", ["chat"])
        assert (again.chat_history_limit, [each.content for each in again.get_all()]) == (7, [ASKED])
        assert again.conversation().session.id == memory.conversation().session.id
    pickled = pickle.loads(pickle.dumps(memory))  # noqa: S301 - our own
    assert (pickled.bank_id, [each.content for each in pickled.get_all()]) == ("ana", [ASKED])
    pickled.bank.connections.close()


@pytest.mark.parametrize("how", HOW)
async def test_the_tools_retain_recall_and_reflect(rig: Rig, hall: Bank, how: str) -> None:
    """Names and arguments as there; a numbered list is what is recalled, and nothing known is said."""
    options: dict[str, Any] = {"tags": ["trip"], "retain_metadata": {"from": "chat"}, "retain_document_id": "d"}
    retain, recall, reflect = compat.create_hindsight_tools(bank_id="ana", client=hall, retain_context="travel", **options)
    assert [tool.metadata.name for tool in (retain, recall, reflect)] == ["retain_memory", "recall_memory", "reflect_on_memory"]
    assert await used(retain, how, content="Ana lives in Porto.") == "1 memory stored."
    assert (await used(recall, how, query=ASKED)).startswith(f"1. {FACT}")
    assert await used(recall, how, query="Quantum chromodynamics?") == "No relevant memories found."
    assert FACT in await used(reflect, how, query=ASKED)
    [porto] = hall.named("ana").list(document="d")
    assert (porto.text, porto.tags, porto.metadata["from"], porto.context) == ("Ana lives in Porto.", ("trip",), "chat", "travel")


async def test_an_agent_uses_the_tools(rig: Rig, hall: Bank) -> None:
    """As many of them as are wanted."""
    tools: Any = compat.create_hindsight_tools(bank_id="ana", client=hall, include_reflect=False)
    llm = StrictLLM(script=[call("retain_memory", content="Ana lives in Porto."), call("recall_memory", query="Porto?"), "Yes."])
    await FunctionAgent(llm=llm, tools=tools).run("Where?")
    assert str(llm.seen[-1][-1].content) == "1. Ana lives in Porto."
    none: Any = dict.fromkeys(["include_retain", "include_recall", "include_reflect"], False)
    assert compat.create_hindsight_tools(bank_id="ana", client=hall, **none) == []


def test_tags_narrow_what_the_tools_read(rig: Rig, hall: Bank) -> None:
    """`reflect` has those of `recall`, or its own; what a recall would refuse is refused at once."""
    ana = hall.named("ana")
    ana.retain("Ana prefers window seats on short flights.", tags=["short"])
    spec = compat.HindsightToolSpec(bank_id="ana", client=hall, recall_tags=["short"], recall_tags_match="any_strict")
    assert "long flights" not in spec.recall_memory(ASKED) + spec.reflect_on_memory(ASKED)
    assert "window" in spec.recall_memory(ASKED)
    other = compat.HindsightToolSpec(bank_id="ana", client=hall, recall_tags=["short"], reflect_tags=["none"])
    assert "long flights" in other.reflect_on_memory(ASKED)  # "any" lets what has no tags through
    assert "window" not in other.reflect_on_memory(ASKED)
    refused: list[Any] = [{"recall_tags": []}, {"reflect_tags": []}, {"recall_types": ["facts"]}, {"recall_tags_match": "some"}]
    for wrong in refused:
        with pytest.raises(UsageError):
            compat.HindsightToolSpec(bank_id="ana", client=hall, **wrong)


def test_what_is_configured_holds_for_tools_and_memories(url: str, hall: Bank) -> None:
    """Where an argument is left at its default; and no longer than until the reset."""
    config = compat.configure(hindsight_api_url=url, budget="high", max_tokens=99, tags=["all"], context="app", mission="Seats.")
    assert compat.get_config() is config
    memory = compat.HindsightMemory.from_defaults("ana")
    memory.put(ChatMessage("I always take aisle seats."))
    recall, retain = memory.bank.connections.settings.recall, memory.bank.connections.settings.retain
    assert (recall.budget, recall.max_tokens, retain.retain_context) == ("high", 99, "app")
    assert (retain.missions.retain, retain.missions.reflect) == ("Seats.", "Seats.")
    assert compat.HindsightToolSpec(bank_id="ana").retain_memory("Ana lives in Porto.") == "1 memory stored."
    assert {each.text for each in hall.named("ana").list(tags=["all"])} == {"I always take aisle seats.", "Ana lives in Porto."}
    own = compat.HindsightMemory.from_url(url, "ana", max_tokens=50)
    assert own.bank.connections.settings.recall.max_tokens == 50
    compat.reset_config()
    assert compat.get_config() is None
    assert compat.HindsightMemory.from_url(url, "ana").bank.connections.settings.recall.max_tokens == 4096


def test_a_place_is_opened_once_for_all(url: str) -> None:
    """That want the same of it; a key without a server is a question."""
    first = compat.HindsightMemory.from_url(url, "ana")
    assert compat.HindsightMemory.from_defaults("ben", hindsight_api_url=url).bank.connections is first.bank.connections
    compat.create_hindsight_tools(bank_id="ana", hindsight_api_url=url)
    compat.create_hindsight_tools(bank_id="ben", hindsight_api_url=url)
    assert len(configuring._places.banks) == 2
    with pytest.raises(UsageError, match=r"hindsight_api_url='https://api\.hindsight\.vectorize\.io'"):
        compat.create_hindsight_tools(bank_id="ana", api_key="k")


@pytest.mark.parametrize("how", HOW)
async def test_a_server_that_is_down_is_told_and_breaks_nothing(file: Path, how: str) -> None:
    """The chat goes on, tools tell the model, writes wait; with `on_failure="raise"` both raise."""
    events: list[Any] = []
    with FaultServer() as server:
        url = server.url
    options: dict[str, Any] = {"ledger": f"sqlite:///{file}", "connection": {"close_timeout": 0}}
    with open_bank(url, bank="hall", on_event=events.append, **options) as hall:
        [shown] = await got(memory_of(hall), how, ChatMessage(ASKED))
        assert str(shown.content).endswith(ASKED)
        assert "</memories>" not in str(shown.content)
        retain, recall, _ = compat.create_hindsight_tools(bank_id="ana", client=hall)
        assert await used(retain, how, content="Ana lives in Porto.") == "1 memory queued."
        assert "does not mean that nothing is known" in await used(recall, how, query=ASKED)
        assert Skipped("ana", "recall", "UnavailableError") in events
        assert hall.named("ana").outbox.status().waiting == 2
    with ExitStack() as stack:
        hall = stack.enter_context(open_bank(url, bank="hall", on_failure="raise", **options))
        with pytest.raises(compat.HindsightError):
            await used(compat.create_hindsight_tools(bank_id="ana", client=hall)[1], how, query=ASKED)
        with pytest.raises(LorebankError):
            await got(memory_of(hall), how, ChatMessage(ASKED))


def test_the_mode_of_a_session_holds_in_the_tools(rig: Rig, hall: Bank) -> None:
    """`ignored`: they say why; the session is the one that the run names."""
    hall.named("ana").session("t").mode = "ignored"
    hall.named("ana").session("t").save()
    spec = compat.HindsightToolSpec(bank_id="ana", client=hall)
    with instrument_tags({"session_id": "t"}):
        for told in (spec.retain_memory("Ana lives in Porto."), spec.recall_memory(ASKED), spec.reflect_on_memory(ASKED)):
            assert "was not done" in told
    assert spec.recall_memory(ASKED).startswith(f"1. {FACT}")


def test_what_has_no_meaning_here_says_what_to_use(rig: Rig, hall: Bank) -> None:
    """At construction."""
    for wrong, words in (
        ({"client": "theirs"}, r"open_bank\(url, api_key=\.\.\.\); found str"),
        ({"recall_tags": ["a"]}, r"BankRetriever\(bank, tags=\.\.\.\)"),
        ({"system_prompt": "Know: {memories}"}, "your agent's own prompt"),
        ({"chat_history_limit": 0}, "1 or more; found 0"),
        ({"max_tokens": 77}, r"open_bank\(\.\.\., recall=\{'max_tokens': 77\}\)"),
        ({"budget": "low"}, r"recall=\{'budget': 'low'\}"),
        ({"context": "app"}, r"retain=\{'retain_context': 'app'\}"),
        ({"mission": "Seats."}, r"retain=\{'missions': \{'retain': 'Seats\.', 'reflect': 'Seats\.'\}\}"),
        ({"verbose": True}, "no argument 'verbose'"),
    ):
        given: dict[str, Any] = {"client": hall, **wrong}
        with pytest.raises(UsageError, match=words):
            compat.HindsightMemory.from_defaults("ana", **given)
    with pytest.raises(UsageError, match="`bank_id` is missing"):
        compat.HindsightMemory(hall)
    with pytest.raises(UsageError, match="recall_include_entities"):
        compat.create_hindsight_tools(bank_id="ana", client=hall, recall_include_entities=True)
    with pytest.raises(UsageError, match=r"recall=\{'max_tokens'"):
        compat.create_hindsight_tools(bank_id="ana", client=hall, reflect_max_tokens=100)
    with pytest.raises(UsageError, match="missions"):
        compat.create_hindsight_tools(bank_id="ana", client=hall, mission="Seats.")


def test_a_bank_that_has_the_settings_takes_them(rig: Rig) -> None:
    """Its own are no surprise."""
    missions = {"retain": "Seats.", "reflect": "Seats."}
    own: dict[str, Any] = {"recall": {"max_tokens": 77}, "retain": {"missions": missions, "retain_context": "app"}}
    bank = rig.open("hall", **own)
    memory = memory_of(bank, max_tokens=77, context="app", mission="Seats.")
    assert memory.max_tokens == 77
    assert len(compat.create_hindsight_tools(bank_id="ana", client=bank, mission="Seats.")) == 3
