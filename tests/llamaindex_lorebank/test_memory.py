"""`BankMemory` in chat engines: what the model sees, what the bank has afterwards, and what the host stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.memory import ChatMemoryBuffer

from llamaindex_lorebank import BankMemory
from llamaindex_lorebank.testing import StrictLLM, wire
from lorebank import UsageError, per_user

from .memory_rig import (
    ANSWER,
    ASKED,
    FACT,
    KINDS,
    MODES,
    PREFIX,
    PRIMARIES,
    THEN,
    answering,
    chat,
    engine_of,
    roles,
    script_of,
    text_of,
)

Rig = Any  # of conftest.py


def talk(*texts: str) -> list[ChatMessage]:
    """A history, user first."""
    return [ChatMessage(text, role="assistant" if place % 2 else "user") for place, text in enumerate(texts)]


@pytest.mark.parametrize("primary", PRIMARIES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_engine_remembers(rig: Rig, kind: str, mode: str, primary: str) -> None:
    """One recall a turn; prefix and memories where the model answers; each message retained once, and nothing of ours stored."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=script_of(kind, ANSWER, "Yes."))
    engine = engine_of(kind, llm, BankMemory(bank, "c", rig.primary(primary)))
    assert await chat(engine, mode, ASKED) == ANSWER
    assert await chat(engine, mode, THEN) == "Yes."
    assert len(llm.seen) == len(llm.script)
    reached = llm.seen[::2] if kind == "condense question" else answering(kind, llm)
    assert [(text_of(seen).count(f"- {FACT} ("), text_of(seen).count(PREFIX)) for seen in reached] == [(1, 1)] * 2
    if kind == "condense question":  # what condenses the question is all that a memory reaches there
        assert not any(PREFIX in text_of(seen) for seen in answering(kind, llm))
    assert (rig.recalls, rig.kept(bank)) == (2, [ASKED, ANSWER, THEN, "Yes."])
    assert [each.content for each in engine.chat_history] == [ASKED, ANSWER, THEN, "Yes."]


@pytest.mark.parametrize("kind", ["simple", "context", "condense plus context"])
@pytest.mark.parametrize("mode", MODES)
async def test_what_the_model_sees_has_the_order_of_a_conversation(rig: Rig, kind: str, mode: str) -> None:
    """One system message, the engine's own; prefix, memories, and the user's words last."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=script_of(kind, ANSWER, "Yes."))
    engine = engine_of(kind, llm, BankMemory(bank, "c"))
    await chat(engine, mode, ASKED)
    await chat(engine, mode, THEN)
    first, second = answering(kind, llm)
    asked = ["user"] if kind == "simple" else ["user", "user"]
    assert (roles(first), roles(second)) == (["system", *asked], ["system", "user", "assistant", *asked])
    for seen, text in ((first, ASKED), (second, THEN)):
        whole = text_of(seen)
        order = [
            whole.index("Be brief."),
            *map(whole.rindex, (PREFIX, "<mental_models>\n", f"- {FACT} (", "</memories>\n", text)),
        ]
        assert order == sorted(order)
        assert whole.endswith(text)
    assert "</memories>" not in text_of(second[:-2])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["context", "condense plus context"])
async def test_templates_in_a_memory_are_no_templates(rig: Rig, kind: str, mode: str) -> None:
    """The context engines pass all messages through a prompt template."""
    told = f"{FACT} Not {{query_str}}, not {{context_str}}, not {{x}}."
    bank = rig.open("alice", told, mental_models={"enabled": False})
    llm = StrictLLM(script=script_of(kind, ANSWER))
    assert await chat(engine_of(kind, llm, BankMemory(bank)), mode, ASKED) == ANSWER
    [seen] = answering(kind, llm)
    assert f"- {FACT} Not ｛query_str｝, not ｛context_str｝, not ｛x｝." in text_of(seen)
    assert text_of(seen).count(ASKED) == 1


@pytest.mark.parametrize("primary", PRIMARIES)
@pytest.mark.parametrize("mode", MODES)
async def test_as_a_system_message_the_prefix_keeps_its_bytes(rig: Rig, mode: str, primary: str) -> None:
    """For engines without a prompt of their own: first, alone, the same in each turn; memories stay with the user's words."""
    bank = rig.open("alice", FACT)
    llm = StrictLLM(script=[ANSWER, "Yes.", "No."])
    memory = BankMemory(bank, "c", rig.primary(primary), insert="system")
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)
    for text in (ASKED, THEN, "Is it?"):
        await chat(engine, mode, text)
    assert [roles(seen)[:2] for seen in llm.seen] == [["system", "user"]] * 3
    assert str(llm.seen[0][0].content).startswith(PREFIX)
    assert llm.prefixes[1:] == llm.prefixes[1:2] * 2
    assert llm.prefixes[0] != ""
    assert [f"- {FACT} (" in str(seen[-1].content) for seen in llm.seen] == [True] * 3
    assert not any(PREFIX in text_of(seen[1:]) for seen in llm.seen)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["simple", "context", "condense plus context"])
async def test_a_history_that_is_sent_again_is_retained_once(rig: Rig, kind: str, mode: str) -> None:
    """`chat_history=` with everything each time, by a server that stores nothing; messages that were never seen are kept."""
    bank = rig.open("alice", FACT)
    before, answers = talk("I am Ana.", "Hello Ana."), (ANSWER, "Yes.")
    for text, answer in zip((ASKED, THEN), answers, strict=True):
        llm = StrictLLM(script=script_of(kind, answer))
        engine = engine_of(kind, llm, BankMemory(bank, "c"))
        assert await chat(engine, mode, text, before) == answer
        before = [*before, *talk(text, answer)]
    assert (rig.recalls, rig.kept(bank)) == (2, [each.content for each in before])
    assert [each.content for each in engine.chat_history] == [each.content for each in before]


@pytest.mark.parametrize("kind", KINDS)
async def test_users_and_conversations_of_one_engine_are_told_apart(rig: Rig, kind: str) -> None:
    """By the run's instrument tags, at the same time; each sees its own memories and its own messages."""
    hall = rig.open("hall")
    users, rounds = ("ana", "ben", "cid"), 2
    for user in users:
        rig.tell(hall.named(user), f"The favourite seat of {user} is number {len(user) * 7}{user[0]}.")
    llm = StrictLLM(script=["Noted."], repeat=True)
    engine = engine_of(kind, llm, BankMemory(per_user(hall)))

    async def talks(user: str, session: str) -> None:
        for turn in range(rounds):
            with instrument_tags({"user_id": user, "session_id": session}):
                await chat(engine, MODES[turn * 2 + 1], f"{user} in {session} asks {turn}: which seat is my favourite?")

    await asyncio.gather(*(talks(user, session) for user in users for session in ("one", "two")))
    for user in users:
        with instrument_tags({"user_id": user, "session_id": "one"}):
            asked = [f"{user} in one asks {turn}: which seat is my favourite?" for turn in range(rounds)]
            assert [each.content for each in engine.chat_history] == [asked[0], "Noted.", asked[1], "Noted."]
        kept = rig.kept(hall.named(user), "one")  # an answer that only repeats one from the other session may be passed over
        assert [text for text in kept if text != "Noted."] == asked
    reached = [seen for seen in llm.seen if PREFIX in text_of(seen)]
    assert len(reached) == len(users) * 2 * rounds * (2 if kind == "condense plus context" else 1)
    for seen in reached:
        [user] = {each for each in users if f"{each} in " in text_of(seen) or f"seat of {each}" in text_of(seen)}
        assert f"seat of {user} is" in text_of(seen)


async def test_a_missing_user_is_named(rig: Rig) -> None:
    """Nobody is served without it."""
    engine = engine_of("simple", StrictLLM(script=[]), BankMemory(per_user(rig.open("hall"))))
    with pytest.raises(UsageError, match=r"user_id.*instrument_tags"):
        engine.chat(ASKED)
    with pytest.raises(UsageError, match=r"user_id.*instrument_tags"):
        await engine.achat(ASKED)


def test_users_can_not_share_a_primary_memory(rig: Rig) -> None:
    """It holds one conversation. What is no bank is refused, too."""
    with pytest.raises(UsageError, match="all users would share it"):
        BankMemory(per_user(rig.open("hall")), primary=ChatMemoryBuffer.from_defaults())
    for wrong in (None, "alice"):
        with pytest.raises(UsageError, match="must be a Bank"):
            BankMemory(wrong)  # type: ignore[arg-type]


def test_two_conversations_share_the_bank_and_nothing_else(rig: Rig) -> None:
    """A new one knows what an old one was told, and shows none of its messages."""
    bank = rig.open("alice")
    first = SimpleChatEngine.from_defaults(llm=StrictLLM(script=["Noted."]), memory=BankMemory(bank))
    first.chat(FACT)
    llm = StrictLLM(script=[ANSWER])
    second = SimpleChatEngine.from_defaults(llm=llm, memory=BankMemory(bank))
    second.chat(ASKED)
    assert roles(llm.seen[0]) == ["user"]
    assert f"- {FACT} (" in text_of(llm.seen[0])
    assert len({memory.session for memory in bank.list() if memory.source == "transcript"}) == 2


def test_the_session_is_the_one_given_else_the_run_s_else_the_primary_memory_s(rig: Rig) -> None:
    """Each wins over the next."""
    bank, primary = rig.open("alice"), rig.primary("memory", session_id="primary")
    with instrument_tags({"thread_id": "run"}):
        BankMemory(bank, "given", primary).put(ChatMessage("One thing."))
        BankMemory(bank, primary=primary).put(ChatMessage("Another thing."))
    BankMemory(bank, primary=primary).put(ChatMessage("A third thing."))
    kept = {session: rig.kept(bank, session)[-1] for session in ("given", "run", "primary")}
    assert kept == {"given": "One thing.", "run": "Another thing.", "primary": "A third thing."}


@pytest.mark.parametrize("mode", MODES)
async def test_reset_forgets_the_messages_and_not_the_bank(rig: Rig, mode: str) -> None:
    """Long-term memory stays."""
    bank = rig.open("alice")
    llm = StrictLLM(script=["Noted.", ANSWER])
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=BankMemory(bank))
    await chat(engine, mode, FACT)
    engine.reset()
    assert engine.chat_history == []
    await chat(engine, mode, ASKED)
    assert roles(llm.seen[1]) == ["user"]
    assert f"- {FACT} (" in text_of(llm.seen[1])
    assert rig.kept(bank) == [FACT, "Noted.", ASKED, ANSWER]


@pytest.mark.parametrize("primary", PRIMARIES)
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_primary_memory_holds_what_the_host_put_there(rig: Rig, how: str, primary: str) -> None:
    """Every method, both ways: the stored bytes are those of a primary memory that is used alone."""
    bank, plain = rig.open("alice", FACT), rig.primary(primary)
    memory = BankMemory(bank, "c", rig.primary(primary))
    for each in (memory, plain):
        if how == "sync":
            each.set(talk("I am Ana.", "Hello Ana."))
            each.put(ChatMessage(ASKED))
            each.get()
            each.put_messages([ChatMessage(ANSWER, role="assistant")])
        else:
            await each.aset(talk("I am Ana.", "Hello Ana."))
            await each.aput(ChatMessage(ASKED))
            await each.aget()
            await each.aput_messages([ChatMessage(ANSWER, role="assistant")])
    stored = memory.get_all() if how == "sync" else await memory.aget_all()
    assert wire(stored) == wire(plain.get_all())
    assert wire(memory.get()) == wire(plain.get())
    assert (rig.recalls, rig.kept(bank)) == (1, ["I am Ana.", "Hello Ana.", ASKED, ANSWER])
    memory.reset() if how == "sync" else await memory.areset()
    assert memory.get_all() == []


def test_what_the_model_saw_is_never_stored_when_it_comes_back(rig: Rig) -> None:
    """`chat_history=memory.get()` is usual; so is a host that edits what it got."""
    bank = rig.open("alice", FACT)
    for insert in ("user", "system"):
        memory = BankMemory(bank, "c", insert=insert)
        memory.put(ChatMessage(ASKED))
        seen = memory.get()
        seen[-1].blocks[-1].text = "Current state: {}\n" + seen[-1].blocks[-1].text
        assert [each.content for each in memory.get_all()] == [ASKED]
        seen = [*memory.get(), *memory.get(input="Else?"), ChatMessage(ANSWER, role="assistant")]
        other = BankMemory(bank, f"other {insert}")
        other.set(seen)
        assert PREFIX not in text_of(other.get_all())
        assert FACT not in text_of(other.get_all())
        assert rig.kept(bank, f"other {insert}") == [ASKED, ASKED, ANSWER]


async def test_it_can_be_told_to_begin_with_a_history(rig: Rig) -> None:
    """`from_defaults`, with the options of the class."""
    bank = rig.open("alice")
    memory = BankMemory.from_defaults(bank, chat_history=talk("I am Ana.", "Hello Ana."), session_id="c", token_limit=7)
    assert rig.kept(bank, "c") == ["I am Ana.", "Hello Ana."]
    memory.put(ChatMessage("One two three four five."))
    assert roles(memory.get()) == ["user"]
    assert len(memory.get_all()) == 3
    assert memory.tokenizer_fn("One two")
