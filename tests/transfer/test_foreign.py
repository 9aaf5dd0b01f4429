"""Files of LangChain, LlamaIndex and mem0, as those libraries write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from llama_index.core.llms import ChatMessage as LlamaMessage
from llama_index.core.llms import ImageBlock, TextBlock
from llama_index.core.storage.chat_store import SimpleChatStore

from lorebank import Bank, UsageError


def told(bank: Bank) -> list[tuple[str | None, str | None, str]]:
    """Session, speaker and text of all memories, in the order of their arrival."""
    return [(each.session, each.speaker, each.text) for each in reversed(bank.list(state="all", limit=1000))]


CHAT: list[BaseMessage] = [
    SystemMessage("You are kind."),
    HumanMessage("I'm Ana, and I like tea."),
    AIMessage("Noted!", id="a1"),
    AIMessage("", tool_calls=[{"name": "retain", "args": {}, "id": "1"}]),
    ToolMessage("1 memory stored.", tool_call_id="1"),
    HumanMessage([{"type": "text", "text": "And"}, {"type": "image_url", "image_url": {"url": "x"}}, "cake."]),
    HumanMessage("ok"),
    ChatMessage("Me too.", role="Ben"),
    AIMessageChunk("Good."),
    HumanMessage("ok", name="Ana"),
    HumanMessage("ok"),
]
TOLD = [
    ("thread-1", "user", "I'm Ana, and I like tea."),
    ("thread-1", "assistant", "Noted!"),
    ("thread-1", "user", "And\ncake."),
    ("thread-1", "user", "ok"),
    ("thread-1", "Ben", "Me too."),
    ("thread-1", "assistant", "Good."),
    ("thread-1", "Ana", "ok"),
    ("thread-1", "user", "ok"),
]


def history(folder: Path, messages: list[BaseMessage]) -> Path:
    """A file as `FileChatMessageHistory` keeps it: the messages' dicts as a JSON list."""
    path = folder / "thread-1.json"
    path.write_text(json.dumps(messages_to_dict(messages)), encoding="utf-8")
    assert len(messages_from_dict(json.loads(path.read_text(encoding="utf-8")))) == len(messages)
    return path


def test_a_history_of_langchain_becomes_a_session(bank: Bank, tmp_path: Path) -> None:
    """Named after the file; messages of tools and of the system, and those without text, are left out."""
    report = bank.import_(history(tmp_path, CHAT))
    assert (report.format, report.added, report.skipped) == ("langchain", 8, 3)
    assert told(bank) == TOLD
    assert {(m.source, m.veracity, m.importance, m.type) for m in bank.list()} == {("import", "imported", 0.5, "experience")}
    assert [m.metadata for m in bank.list() if m.text == "Noted!"] == [{"role": "assistant", "message_id": "a1"}]


def test_a_history_that_has_grown_is_imported_once(bank: Bank, tmp_path: Path) -> None:
    """Also the same words said again are kept, and a history that was cut at its head adds nothing."""
    bank.import_(history(tmp_path, CHAT[:7]))
    report = bank.import_(history(tmp_path, CHAT))
    assert (report.added, report.known, told(bank)) == (4, 4, TOLD)
    report = bank.import_(history(tmp_path, CHAT[2:10]))
    assert (report.added, told(bank)) == (0, TOLD)


def test_roles_may_be_chosen(bank: Bank, tmp_path: Path) -> None:
    """Only the user's words, or the system's, too."""
    assert bank.named("one").import_(history(tmp_path, CHAT), roles=["user"]).added == 6
    assert bank.named("all").import_(history(tmp_path, CHAT), roles=["user", "assistant", "system", "tool"]).added == 10


def test_times_that_a_host_keeps_are_read(bank: Bank, tmp_path: Path) -> None:
    """In ISO form, in seconds or in milliseconds; nonsense is no time."""
    moment = datetime(2026, 3, 1, 8, tzinfo=UTC)
    stamps = ["2026-03-01T09:00:00+01:00", "2026-03-01T08:00:00", moment.timestamp(), moment.timestamp() * 1000]
    messages: list[BaseMessage] = [
        HumanMessage(f"It is {n}.", additional_kwargs={"timestamp": stamp}) for n, stamp in enumerate(stamps)
    ]
    bank.import_(history(tmp_path, [*messages, HumanMessage("It is late.", additional_kwargs={"timestamp": "late"})]))
    times = {memory.text: memory.mentioned_at for memory in bank.list()}
    assert {times[f"It is {n}."] for n in range(4)} == {moment}
    assert times["It is late."] != moment


def store(folder: Path, chats: dict[str, list[LlamaMessage]], *, twice: bool = False) -> Path:
    """A chat store's file; `from_persist_path` reads it."""
    path = folder / "chat_store.json"
    body = {key: [message.model_dump(mode="json") for message in chat] for key, chat in chats.items()}
    text = json.dumps({"store": body, "class_name": "SimpleChatStore"}, ensure_ascii=False)
    path.write_text(json.dumps(text) if twice else text, encoding="utf-8")
    read = SimpleChatStore.from_persist_path(str(path))
    assert {key: len(chat) for key, chat in read.store.items()} == {key: len(chat) for key, chat in chats.items()}
    return path


CHATS = {
    "monday": [
        LlamaMessage(role="system", content="You are kind."),
        LlamaMessage(role="user", content="Ich heiße Ana."),
        LlamaMessage(role="assistant", blocks=[TextBlock(text="Hallo"), ImageBlock(url="http://x/y"), TextBlock(text="Ana!")]),
        LlamaMessage(role="tool", content="done", additional_kwargs={"tool_call_id": "1", "name": "retain"}),
    ],
    "tuesday": [LlamaMessage(role="user", content="Hallo"), LlamaMessage(role="chatbot", content="Guten Tag.")],
}


@pytest.mark.parametrize("twice", [False, True], ids=["JSON", "JSON in JSON"])
def test_a_chat_store_becomes_sessions(bank: Bank, tmp_path: Path, twice: bool) -> None:
    """Each of its chats one; older stores wrote their JSON as a JSON text."""
    path = store(tmp_path, CHATS, twice=twice)
    report = bank.import_(path)
    assert (report.format, report.added, report.skipped) == ("llamaindex", 4, 2)
    assert told(bank) == [
        ("monday", "user", "Ich heiße Ana."),
        ("monday", "assistant", "Hallo\nAna!"),
        ("tuesday", "user", "Hallo"),
        ("tuesday", "assistant", "Guten Tag."),
    ]
    assert bank.import_(path).added == 0
    assert bank.named("tue").import_(path, only="tuesday").added == 2
    with pytest.raises(UsageError, match="'monday', 'tuesday'"):
        bank.import_(path, only="friday")


def test_a_list_of_llamaindex_messages_is_a_chat(bank: Bank, tmp_path: Path) -> None:
    """As `model_dump` gives them, and in the older form with `content`; `messages` may hold them, lines as well."""
    new = [message.model_dump(mode="json") for message in CHATS["tuesday"]]
    old = [{"role": "user", "content": "Hallo", "additional_kwargs": {}}, {"role": "assistant", "content": "Guten Tag."}]
    path = tmp_path / "chat.json"
    for number, text in enumerate(
        (json.dumps(new), json.dumps(old), json.dumps({"messages": old}), "\n".join(json.dumps(each) for each in old))
    ):
        path.write_text(text, encoding="utf-8")
        assert bank.named(f"b{number}").import_(path).format == "llamaindex"
        assert told(bank.named(f"b{number}")) == [("chat", "user", "Hallo"), ("chat", "assistant", "Guten Tag.")]


MEM0: list[dict[str, Any]] = [
    {
        "id": "f4cbdb08-7062-4f3e-8eb2-9f5c80dfe64c",
        "memory": "Name is Ana",
        "hash": "a1b2",
        "metadata": {"category": "hobbies", "nested": {"a": [1]}},
        "categories": ["personal_details"],
        "created_at": "2024-07-26T10:29:36.630547-07:00",
        "updated_at": None,
        "user_id": "ana",
        "run_id": "trip-1",
    },
    {"id": "0a14d8f0-e364-4f5c-b305-10da1f0d0878", "memory": "Likes tea", "created_at": "2024-07-26T10:30:00Z", "user_id": "ana"},
    {"memory": "Likes cake", "expiration_date": "2124-01-01"},
]


@pytest.mark.parametrize("form", ["list", "results", "memories", "lines"])
def test_an_export_of_mem0_becomes_facts(bank: Bank, tmp_path: Path, form: str) -> None:
    """With their ids, times, categories as tags, and metadata; each once."""
    path = tmp_path / "mem0.json"
    whole: Any = MEM0 if form in ("list", "lines") else {form: MEM0, "relations": []}
    path.write_text("\n".join(map(json.dumps, MEM0)) if form == "lines" else json.dumps(whole), encoding="utf-8")
    report = bank.import_(path)
    assert (report.format, report.added) == ("mem0", 3)
    memory = bank.get(str(MEM0[0]["id"]))
    assert (memory.text, memory.tags, memory.session) == ("Name is Ana", ("personal_details",), "trip-1")
    assert memory.metadata == {"category": "hobbies", "nested": {"a": [1]}, "user_id": "ana"}
    assert memory.mentioned_at == datetime(2024, 7, 26, 17, 29, 36, 630547, tzinfo=UTC)
    assert (memory.source, memory.veracity, memory.importance, memory.type) == ("import", "imported", 0.6, "world")
    assert [m.valid_until for m in bank.list() if m.text == "Likes cake"] == [datetime(2124, 1, 1, tzinfo=UTC)]
    assert (bank.import_(path).added, bank.import_(path).known) == (0, 3)


def test_memories_of_several_users_never_meet_in_one_bank(bank: Bank, tmp_path: Path) -> None:
    """The caller has to say whose bank it is."""
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps({"results": [*MEM0, {"id": "b", "memory": "Likes coffee", "user_id": "ben"}]}), encoding="utf-8")
    with pytest.raises(UsageError, match="2 users"):
        bank.import_(path)
    assert bank.import_(path, only="ben").added == 1
    assert [memory.text for memory in bank.list()] == ["Likes coffee"]
    with pytest.raises(UsageError, match="'carl'"):
        bank.import_(path, only="carl")


BROKEN: dict[str, tuple[Any, str]] = {
    "no JSON": ("Ana sings.", "neither"),
    "binary": (b"\xff\xfe\x00", "neither"),
    "empty": ("", "none that is known"),
    "a number": ("5", "no list"),
    "an empty list": ("[]", "none that is known"),
    "another object": ('{"a": 1}', "no list"),
    "a table": ('[{"a": 1}]', "none that is known"),
    "a broken message": ([{"type": "human", "data": {"content": "a b"}}, {"type": "human", "data": {"content": 5}}], r"\[1\]"),
    "an unknown role": ([{"type": "human", "data": {"content": "hi"}}, {"role": "wizard", "content": "x"}], "wizard"),
    "no memory": ({"results": [{"id": "a", "memory": "Tea"}, {"id": "b"}]}, r"results\[1\]"),
    "a chat that is none": ({"store": {"a": "b"}}, "no list of messages"),
    "a very long memory": ({"results": [{"id": "a", "memory": "x" * 70_000}]}, "65,536"),
}


@pytest.mark.parametrize(("content", "match"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_wrong_anywhere_is_refused_whole(bank: Bank, tmp_path: Path, content: Any, match: str) -> None:
    """The message names the file and the place."""
    path = tmp_path / "broken.json"
    body = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(body)
    with pytest.raises(UsageError, match=match) as caught:
        bank.import_(path)
    assert "broken.json" in str(caught.value)
    assert bank.list() == ()


def test_a_named_format_is_not_guessed(bank: Bank, tmp_path: Path) -> None:
    """A file without anything in it is read as what the caller says; one of another format is refused."""
    path = tmp_path / "thread-1.json"
    path.write_text("[]", encoding="utf-8")
    assert bank.import_(path, format="langchain").added == 0
    with pytest.raises(UsageError, match="results"):
        bank.import_(history(tmp_path, CHAT), format="mem0")


def test_hostile_texts_are_made_storable(bank: Bank, tmp_path: Path) -> None:
    """NULs and lone surrogates get a mark; a long message becomes several memories."""
    path = tmp_path / "chat\x01.json"
    long = "Ana sings. " * 8000
    chat = [
        {"role": "user", "content": "a\0b \ud800c"},
        {"role": "user", "content": long, "additional_kwargs": {"name": "A\nna"}},
    ]
    path.write_text(json.dumps(chat), encoding="utf-8")
    assert bank.import_(path).added == 3
    first, *parts = reversed(bank.list())
    assert (first.text, first.session) == ("a\ufffdb \ufffdc", "chat")
    assert {part.speaker for part in parts} == {"A na"}
    assert " ".join(part.text for part in parts) == long.strip()


def test_secrets_of_a_chat_are_taken_out(bank: Bank, tmp_path: Path) -> None:
    """And the message is still known when it comes again."""
    path = history(tmp_path, [HumanMessage("My password=hunter2hunter2, please.")])
    assert bank.import_(path).redactions == 1
    assert [memory.text for memory in bank.list()] == ["My password=[redacted], please."]
    assert bank.import_(path).added == 0
