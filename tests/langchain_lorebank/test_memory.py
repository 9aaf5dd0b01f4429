"""`BankMemory` in classic chains and in chains of runnables."""

from __future__ import annotations

import asyncio
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, get_buffer_string
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from langchain_lorebank import BankMemory
from langchain_lorebank.testing import ScriptedChatModel
from lorebank import LorebankError, UsageError, open_bank, per_user
from lorebank.seams import OutageStarted
from lorebank.testing import FaultServer

# the classic classes are deprecated as such, and used here on purpose
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*was deprecated in LangChain.*"),
    pytest.mark.filterwarnings("ignore:Please see the migration guide"),  # the same, as langchain-classic 1.0.0 says it
]

Rig = Any  # of conftest.py
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
CHAT = ChatPromptTemplate.from_messages([("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")])
TEXT = PromptTemplate.from_template("{history}\n\nHuman: {input}\nAI:")


def classic(kind: str, memory: BankMemory, *script: Any) -> tuple[Any, ScriptedChatModel]:
    """A classic chain, and its model."""
    from langchain_classic.chains import ConversationChain, LLMChain

    model = ScriptedChatModel(script=list(script))
    prompt = CHAT if memory.return_messages else TEXT
    if kind == "ConversationChain":
        return ConversationChain(llm=model, memory=memory, prompt=prompt), model
    return LLMChain(llm=model, memory=memory, prompt=prompt), model


async def asked(chain: Any, how: str, text: str = ASKED) -> Any:
    """The answer of a chain, under whatever key it has."""
    if how == "invoke":
        found = chain.invoke({"input": text})
    elif how == "ainvoke":
        found = await chain.ainvoke({"input": text})
    elif how == "stream":
        [found] = list(chain.stream({"input": text}))
    else:
        [found] = [chunk async for chunk in chain.astream({"input": text})]
    return found.get("response", found.get("text"))


def blocks(messages: list[BaseMessage]) -> list[str]:
    """The memories that a model saw."""
    found = re.findall(r"<memories>\n.*?</memories>", get_buffer_string(messages), re.DOTALL)
    return [re.sub(r" \(\d{4}-\d\d-\d\d\)$", "", line[2:]) for each in found for line in each.splitlines() if line[:2] == "- "]


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("kind", ["ConversationChain", "LLMChain"])
@pytest.mark.parametrize("as_messages", [False, True])
async def test_a_classic_chain_remembers(rig: Rig, kind: str, how: str, as_messages: bool) -> None:
    """Prefix and memories ahead of the recent turns; one recall a turn; what was said is kept once, and nothing of ours."""
    bank = rig.open("alice", FACT)
    chain, model = classic(kind, BankMemory(bank, "c", return_messages=as_messages), ANSWER, "Yes.")
    assert await asked(chain, how) == ANSWER
    assert await asked(chain, how, "Is Ana's seat sure?") == "Yes."
    assert [blocks(seen) for seen in model.seen] == [[FACT], [FACT]]
    text = get_buffer_string(model.seen[1])
    order = ["long-term memory", "</memories>", f"Human: {ASKED}", f"AI: {ANSWER}", "Human: Is Ana's seat sure?"]
    assert [text.index(each) for each in order] == sorted(text.index(each) for each in order)
    assert sum(isinstance(message, SystemMessage) for message in model.seen[1]) == int(as_messages)
    assert (rig.recalls, rig.kept(bank)) == (2, [ASKED, ANSWER, "Is Ana's seat sure?", "Yes."])


@pytest.mark.parametrize("how", ["ainvoke", "stream", "astream"])
async def test_a_chain_of_runnables_remembers(rig: Rig, how: str) -> None:
    """By `assign`, with a `save_context` after the answer."""
    bank = rig.open("alice", FACT)
    memory, model = BankMemory(bank, "c", return_messages=True), ScriptedChatModel(script=[ANSWER, "Yes."])
    loaded = RunnableLambda(memory.load_memory_variables, memory.aload_memory_variables) | itemgetter("history")
    chain: Any = RunnablePassthrough.assign(history=loaded) | CHAT | model | StrOutputParser()
    for text, answer in ((ASKED, ANSWER), ("Is Ana's seat sure?", "Yes.")):
        if how == "astream":
            parts = [part async for part in chain.astream({"input": text})]
        else:
            parts = [await chain.ainvoke({"input": text})] if how == "ainvoke" else list(chain.stream({"input": text}))
        if how == "stream":
            memory.save_context({"input": text}, {"output": "".join(parts)})
        else:
            await memory.asave_context({"input": text}, {"output": "".join(parts)})
        assert "".join(parts) == answer
    assert [blocks(seen) for seen in model.seen] == [[FACT], [FACT]]
    assert (rig.recalls, rig.kept(bank)) == (2, [ASKED, ANSWER, "Is Ana's seat sure?", "Yes."])


def test_a_new_chain_knows_what_an_old_one_was_told(rig: Rig) -> None:
    """Another conversation, and none of the old one's turns beside it."""
    bank = rig.open("alice")
    first, _ = classic("LLMChain", BankMemory(bank), "Noted.")
    first.invoke({"input": FACT})
    assert rig.kept(bank) == [FACT, "Noted."]
    second, model = classic("LLMChain", BankMemory(bank), ANSWER)
    second.invoke({"input": ASKED})
    assert FACT in blocks(model.seen[0])[0]
    assert "Human: Ana" not in str(model.seen[0])


def test_only_the_last_turns_are_shown(rig: Rig) -> None:
    """`k` of them; nothing else is forgotten."""
    bank = rig.open("alice")
    memory = BankMemory(bank, k=2)
    for n in range(4):
        memory.save_context({"input": f"Remark {n}"}, {"output": f"Reply {n}"})
    assert memory.load_memory_variables({}) == {"history": "Human: Remark 2\nAI: Reply 2\nHuman: Remark 3\nAI: Reply 3"}
    assert len(rig.kept(bank)) == 8
    assert BankMemory(bank, k=0).load_memory_variables({}) == {"history": ""}


@pytest.mark.parametrize("inner_messages", [False, True])
@pytest.mark.parametrize("as_messages", [False, True])
async def test_a_memory_that_is_given_keeps_the_turns(rig: Rig, as_messages: bool, inner_messages: bool) -> None:
    """Text or messages, whatever it gives and whatever is wanted."""
    from langchain_classic.memory import ConversationBufferMemory

    bank = rig.open("alice", FACT)
    inner = ConversationBufferMemory(memory_key="turns", return_messages=inner_messages)
    memory = BankMemory(bank, memory=inner, return_messages=as_messages)
    chain, model = classic("ConversationChain", memory, ANSWER, "Yes.")
    await asked(chain, "invoke")
    await asked(chain, "ainvoke", "Is Ana's seat sure?")
    assert ASKED in str(model.seen[1])
    assert ANSWER in str(model.seen[1])
    assert [message.text for message in inner.chat_memory.messages] == [ASKED, ANSWER, "Is Ana's seat sure?", "Yes."]
    assert rig.kept(bank) == [ASKED, ANSWER, "Is Ana's seat sure?", "Yes."]
    await memory.aclear()
    assert inner.chat_memory.messages == []


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_clear_forgets_the_turns_and_not_the_bank(rig: Rig, how: str) -> None:
    """Long-term memory stays."""
    bank = rig.open("alice")
    memory = BankMemory(bank)
    memory.save_context({"input": FACT}, {"output": ANSWER})
    await memory.aclear() if how == "async" else memory.clear()
    assert memory.load_memory_variables({}) == {"history": ""}
    assert rig.kept(bank) == [FACT, ANSWER]
    assert FACT in str(memory.load_memory_variables({"input": ASKED})["history"])


SHAPES: dict[str, tuple[Any, Any, dict[str, str]]] = {
    "question and answer": ({"question": ASKED}, {"answer": ANSWER, "source_documents": [1]}, {}),
    "an agent's": ({"input": ASKED, "chat": "x"}, {"output": ANSWER, "intermediate_steps": []}, {}),
    "named": ({"a": "x", "b": ASKED}, {"c": "x", "d": ANSWER}, {"input_key": "b", "output_key": "d"}),
    "the only ones": ({"whatever": ASKED, "stop": ["\n"]}, {"else": ANSWER}, {}),
    "a message": ({"input": HumanMessage(ASKED)}, {"output": AIMessage(ANSWER)}, {}),
    "messages": (
        {"messages": [HumanMessage("Hello."), AIMessage("Hi."), HumanMessage(ASKED)]},
        {"messages": [HumanMessage("Hello."), AIMessage("Hi."), HumanMessage(ASKED), AIMessage(ANSWER)]},
        {},
    ),
    "with its own variable": ({"input": ASKED, "history": f"<memories>\n- {FACT}\n</memories>"}, {"text": ANSWER}, {}),
    "with its own variable and no usual name": ({"x": ASKED, "history": "Human: old"}, {"y": ANSWER}, {}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_inputs_and_outputs_of_every_shape_are_understood(rig: Rig, shape: str) -> None:
    """Guessed or named; saving needs no loading."""
    inputs, outputs, keys = SHAPES[shape]
    bank = rig.open("alice")
    memory = BankMemory(bank, **keys)
    memory.save_context(inputs, outputs)
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert memory.load_memory_variables({}) == {"history": f"Human: {ASKED}\nAI: {ANSWER}"}


def test_what_can_not_be_guessed_is_asked_for(rig: Rig) -> None:
    """By the name of the option, with the names that the chain has."""
    memory = BankMemory(rig.open("alice"))
    with pytest.raises(UsageError, match=r"which of 'a', 'b' is meant.*input_key="):
        memory.load_memory_variables({"a": "x", "b": "y"})
    with pytest.raises(UsageError, match="`output_key` is 'c', but the chain has 'd'"):
        BankMemory(rig.open("alice"), output_key="c").save_context({"input": "x"}, {"d": "y"})


def test_a_turn_that_is_loaded_again_is_the_same_turn(rig: Rig) -> None:
    """A chain that failed is tried again: one recall, the user's words once."""

    def fail(_messages: object) -> str:
        raise TimeoutError("model")

    bank = rig.open("alice", FACT)
    chain, model = classic("LLMChain", BankMemory(bank), fail, ANSWER)
    with pytest.raises(TimeoutError):
        chain.invoke({"input": ASKED})
    assert rig.kept(bank) == [ASKED]
    chain.invoke({"input": ASKED})
    assert [blocks(seen) for seen in model.seen] == [[FACT], [FACT]]
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


async def test_turns_at_once_are_told_apart(rig: Rig) -> None:
    """By what was said, in threads and in tasks."""
    bank = rig.open("alice")
    memory = BankMemory(bank, k=100)
    chain, _ = classic("LLMChain", memory, *[lambda messages: f"On {messages[-1].text.splitlines()[-2][7:]}: granted."] * 16)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: chain.invoke({"input": f"Wish {n}"}), range(8)))
    await asyncio.gather(*(chain.ainvoke({"input": f"Wish {n}"}) for n in range(8, 16)))
    assert sorted(text for text in rig.kept(bank) if text.startswith("Wish")) == sorted(f"Wish {n}" for n in range(16))
    turns = memory.load_memory_variables({})["history"].splitlines()
    assert all(turns[at + 1] == f"AI: On {line[7:]}: granted." for at, line in enumerate(turns) if line.startswith("Human: "))


def test_many_users_need_a_memory_each(rig: Rig) -> None:
    """A chain's memory does not see whose run it is."""
    bank = rig.open("hall")
    with pytest.raises(UsageError, match=r"BankMemory\(bank\.named\(user\)\)"):
        BankMemory(per_user(bank))  # type: ignore[arg-type]
    for wrong in (None, "alice"):
        with pytest.raises(UsageError, match="must be a Bank"):
            BankMemory(wrong)  # type: ignore[arg-type]


def test_two_variables_of_a_given_memory_are_one_too_many(rig: Rig) -> None:
    """Which one has the turns could only be guessed."""
    from langchain_classic.memory import CombinedMemory, SimpleMemory

    both = CombinedMemory(memories=[SimpleMemory(memories={"a": 1}), SimpleMemory(memories={"b": 2})])
    with pytest.raises(UsageError, match="must fill one variable"):
        BankMemory(rig.open("alice"), memory=both)


def test_its_repr_and_its_json_hold_no_secret(file: Path) -> None:
    """A bank's key stays with the bank."""
    with open_bank(
        "http://127.0.0.1:9", api_key="s3cret-key", ledger=f"sqlite:///{file}", connection={"close_timeout": 0}
    ) as bank:
        memory = BankMemory(bank, "c")
        assert "s3cret" not in repr(memory) + str(memory.to_json()) + str(memory.model_dump())
        assert repr(memory) == "BankMemory(session_id='c')"


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_a_server_that_is_down_breaks_no_chain(file: Path, how: str) -> None:
    """The turns are shown, memory is not, and all is delivered later; `on_failure="raise"` raises."""
    events: list[Any] = []
    options: dict[str, Any] = {"ledger": f"sqlite:///{file}", "recall": {"deadline": 0.5}, "outbox": {"batch_seconds": 0.02}}
    with FaultServer() as server, open_bank(server.url, bank="alice", on_event=events.append, **options) as bank:
        server.stop()
        chain, model = classic("LLMChain", BankMemory(bank), ANSWER, "Yes.")
        assert await asked(chain, how) == ANSWER
        assert await asked(chain, how, "Sure?") == "Yes."
        assert f"Human: {ASKED}\nAI: {ANSWER}" in str(model.seen[1][0].text)
        assert any(isinstance(event, OutageStarted) for event in events)
        server.start()
        assert bank.flush(timeout=60, until="completed").left == 0
        [text] = server.bank("alice").documents.values()
        assert all(text.count(each) == 1 for each in (ASKED, ANSWER, "Sure?"))
    with open_bank(server.url, bank="alice", on_failure="raise", **options | {"connection": {"close_timeout": 0}}) as bank:
        chain, _ = classic("LLMChain", BankMemory(bank), ANSWER)
        with pytest.raises(LorebankError):
            await asked(chain, how, "And now?")


def test_without_the_classic_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `BankMemory` needs it."""
    monkeypatch.setitem(sys.modules, "langchain_classic.base_memory", None)
    monkeypatch.delitem(sys.modules, "langchain_lorebank.memory")
    monkeypatch.delattr("langchain_lorebank.BankMemory", raising=False)
    with pytest.raises(ImportError, match=r"lorebank\[langchain-classic\]"):
        import_module("langchain_lorebank.memory")
