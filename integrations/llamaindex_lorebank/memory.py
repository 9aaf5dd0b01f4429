"""A bank as the memory of LlamaIndex's agents and chat engines."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, Self, cast
from weakref import WeakValueDictionary

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer

from llamaindex_lorebank.injecting import Place, injected, parted, remembering, said_only, with_system
from llamaindex_lorebank.messages import SYSTEM, spoken
from llamaindex_lorebank.runs import bank_of, named_session
from llamaindex_lorebank.tracing import guarded
from lorebank import Bank, Injection, Message, Session, UsageError
from lorebank.seams import Alias, BankResolver, Offer, RunSessions, checked

_open: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The banks of this process's memories, by a name that says nothing: a `Context` that goes on here finds them again."""
CHATS = 1_000
"""Conversations that a memory keeps the messages of; the one that was used longest ago is let go."""


@dataclass(slots=True)
class Chat:
    """One conversation: what the host stores of it, and the session that is told all but its first `foreign` messages, which
    somebody else has said. `prefix` is what the system message begins with, where `place` leaves that to who asks.
    """

    bank: Bank
    session: Session | Alias
    primary: BaseMemory
    place: Place = "user"
    offer: Offer | None = None
    prefix: str = ""
    foreign: int = 0

    def before(self, history: Sequence[ChatMessage], asked: str | None) -> Injection:
        """Tells the session what the user has said, and gives what belongs in front of it."""
        with guarded(self.session, "before_turn"):
            return self.session.before_turn(self.told(history, asked), offer=self.offer)
        return Injection()

    async def abefore(self, history: Sequence[ChatMessage], asked: str | None) -> Injection:
        """Awaitable form of `before`."""
        with guarded(self.session, "before_turn"):
            return await self.session.abefore_turn(self.told(history, asked), offer=self.offer)
        return Injection()

    def after(self, history: Sequence[ChatMessage]) -> None:
        """Tells the session all that was said."""
        with guarded(self.session, "after_turn"):
            self.session.after_turn(self.told(history))

    async def aafter(self, history: Sequence[ChatMessage]) -> None:
        """Awaitable form of `after`."""
        with guarded(self.session, "after_turn"):
            await self.session.aafter_turn(self.told(history))

    def shown(self, stored: Sequence[ChatMessage], injection: Injection, asked: str | None) -> list[ChatMessage]:
        """The stored messages as the model is to see them. What is `asked` is no message yet: the host adds it behind these."""
        self.prefix, memories = parted(injection, self.place)
        if asked is None:
            messages = remembering(stored, memories, own=injection.position == "before-user")
        else:
            messages = [*stored, *([injected(memories)] if memories else [])]
        return with_system(messages, self.prefix) if self.place == "system" and self.prefix else messages

    def told(self, history: Sequence[ChatMessage], asked: str | None = None) -> list[Message]:
        """What the session is told: neutral messages, and what the user says next."""
        return [*spoken(history)[self.foreign :], *([] if asked is None else [Message("user", asked)])]


def asking(history: Sequence[ChatMessage], input: object) -> tuple[bool, str | None]:
    """Whether a turn is open for which memory is asked, and what the user says in it, where that is no message yet."""
    newest = _newest(history)
    text = input.content if isinstance(input, ChatMessage) else input
    if newest is not None and is_open(newest) and (not text or newest.role != MessageRole.USER or text == newest.content):
        return True, None
    return bool(text), str(text) if text else None


def is_open(message: ChatMessage) -> bool:
    """Whether the model is still to answer after this message, in the same turn."""
    [neutral] = spoken([message])
    return neutral.role in ("user", "tool") or bool(neutral.tool_calls)


def asks(messages: Sequence[ChatMessage]) -> bool:
    """Whether a user has spoken last."""
    newest = _newest(messages)
    return newest is not None and newest.role == MessageRole.USER


def _newest(messages: Sequence[ChatMessage]) -> ChatMessage | None:
    return next((message for message in reversed(messages) if message.role not in SYSTEM), None)


class BankMemory(BaseMemory):
    """Gives an agent or a chat engine a memory that outlives the conversation.

    Setup:
        `pip install 'lorebank[llamaindex]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run the bank of the user in its instrument tags
        session_id: the conversation; by default the one that the run's tags name (`thread_id`, `session_id`), else the primary
            memory's own, else one that lives as long as this object
        primary: another memory that keeps the messages of this conversation, such as a `Memory`; by default a
            `ChatMemoryBuffer` for each conversation. With `per_user` there can't be one: users would share it
        token_limit: how many tokens of messages such a buffer gives; by default its own
        insert: `"user"` puts instructions and mental models ahead of the memories, in the model's copy of the newest user
            message; `"system"` puts them into a system message, for engines and agents that have no system prompt of their own

    Instantiation:
        `BankMemory(open_bank(bank="ana"))`

    Usage:
        `SimpleChatEngine.from_defaults(llm=llm, memory=BankMemory(bank))` or `agent.run("...", memory=BankMemory(bank))`. Agents
        have more of `with_memory(agent, bank)`: it merges the prefix into their system prompt, which a memory alone can't.

    One recall a turn, however often the model is called in it, and each message is retained once. What is stored in the primary
    memory is what the host put there. `ContextChatEngine` and `CondensePlusContextChatEngine` ask before the user's message
    exists: prefix and memories are then a user message of their own before it, which a model that wants user and assistant to
    take turns may refuse; the model that condenses sees them, too, and is called from the first turn on. In
    `CondenseQuestionChatEngine` a memory reaches that model only: give the one that answers
    `with_memory(query_engine, bank, retain=False)`. A memory that is down never breaks the chat, unless the bank was opened with
    `on_failure="raise"`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    bank: Any = Field(exclude=True, repr=False)
    session_id: str | None = None
    primary: BaseMemory | None = Field(default=None, exclude=True, repr=False)
    insert: Literal["user", "system"] = "user"
    token_limit: int | None = None
    _own: str = PrivateAttr()
    _ticket: str = PrivateAttr(default_factory=lambda: uuid.uuid4().hex)
    _sessions: RunSessions = PrivateAttr()
    _chats: OrderedDict[tuple[object, ...], BaseMemory] = PrivateAttr(default_factory=OrderedDict)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(
        self,
        bank: Bank | BankResolver,
        session_id: str | None = None,
        primary: BaseMemory | None = None,
        insert: Literal["user", "system"] = "user",
        *,
        token_limit: int | None = None,
    ) -> None:
        if primary is not None and not isinstance(checked(bank), Bank):
            raise UsageError("`primary` keeps one conversation, and with per_user(bank) all users would share it: leave it out")
        fields: dict[str, Any] = {
            "bank": checked(bank),
            "session_id": session_id,
            "primary": primary,
            "insert": insert,
            "token_limit": token_limit,
        }
        super().__init__(**fields)
        self._own = getattr(primary, "session_id", None) or uuid.uuid4().hex
        self._sessions = RunSessions(session_id=session_id)

    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, bank: Bank | BankResolver, chat_history: list[ChatMessage] | None = None, **options: Any
    ) -> Self:
        """A memory that begins with a history; `options` are those of the class."""
        memory = cls(bank, **options)
        if chat_history:
            memory.set(chat_history)
        return memory

    @classmethod
    def class_name(cls) -> str:
        return "BankMemory"

    @property
    def tokenizer_fn(self) -> Callable[[str], list[Any]]:
        """The primary memory's tokenizer; an `AttributeError` where it has none."""
        return cast("Callable[[str], list[Any]]", cast("Any", self.conversation().primary).tokenizer_fn)

    def get(self, input: str | ChatMessage | None = None, **kwargs: Any) -> list[ChatMessage]:
        """The messages for the model, with prefix and memories for the turn that is open; `input` is what the user says, where
        that is no message yet.
        """
        chat = self.conversation()
        stored = chat.primary.get(cast("Any", input), **kwargs)
        history = chat.primary.get_all()
        open_, asked = asking(history, input)
        return chat.shown(stored, chat.before(history, asked), asked) if open_ else stored

    async def aget(self, input: str | ChatMessage | None = None, **kwargs: Any) -> list[ChatMessage]:
        """Awaitable form of `get`."""
        chat = self.conversation()
        stored = await chat.primary.aget(cast("Any", input), **kwargs)
        history = await chat.primary.aget_all()
        open_, asked = asking(history, input)
        return chat.shown(stored, await chat.abefore(history, asked), asked) if open_ else stored

    def get_all(self) -> list[ChatMessage]:
        """The messages as they are stored."""
        return self.conversation().primary.get_all()

    async def aget_all(self) -> list[ChatMessage]:
        """Awaitable form of `get_all`."""
        return await self.conversation().primary.aget_all()

    def put(self, message: ChatMessage) -> None:
        """Stores a message, and retains it; memory is asked for what a user says."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Awaitable form of `put`."""
        await self.aput_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Stores messages, and retains them all at once."""
        chat, said = self.conversation(), said_only(messages)
        chat.primary.put_messages(said)
        history = chat.primary.get_all()
        if asks(said):
            chat.before(history, None)
        elif said:
            chat.after(history)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Awaitable form of `put_messages`."""
        chat, said = self.conversation(), said_only(messages)
        await chat.primary.aput_messages(said)
        history = await chat.primary.aget_all()
        if asks(said):
            await chat.abefore(history, None)
        elif said:
            await chat.aafter(history)

    def set(self, messages: list[ChatMessage]) -> None:
        """Stores these messages in the place of all. Those that were never seen are retained; the bank forgets none."""
        chat, said = self.conversation(), said_only(messages)
        chat.foreign = 0
        chat.primary.set(said)
        if said:
            chat.after(said)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Awaitable form of `set`."""
        chat, said = self.conversation(), said_only(messages)
        chat.foreign = 0
        await chat.primary.aset(said)
        if said:
            await chat.aafter(said)

    def reset(self) -> None:
        """Forgets the messages. The bank keeps what it knows: removing from it is `bank.forget(session=...)`."""
        self.conversation().primary.reset()

    async def areset(self) -> None:
        """Awaitable form of `reset`."""
        await self.conversation().primary.areset()

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The settings and the messages of the present conversation, none where users have their own; never the bank. A primary
        memory that is not a `ChatMemoryBuffer` can't be saved: a `Context` then leaves the memory out.
        """
        stored = saved(self.conversation().primary) if isinstance(self.bank, Bank) else None
        _open[self._ticket] = self.bank
        return {**super().to_dict(**kwargs), "own_session_id": self._own, "primary": stored, "process": self._ticket}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The memory that `to_dict` gave: `BankMemory.from_dict(saved, bank=bank)`. In the process that has saved it the bank is
        found again.
        """
        given: dict[str, Any] = {**data, **kwargs}
        given["bank"] = given.get("bank") or _open.get(given.pop("process", ""))
        if given["bank"] is None:
            raise UsageError(
                "a saved BankMemory holds no bank: BankMemory.from_dict(saved, bank=open_bank(...)); a Context that goes on in "
                "another process is one of an agent made with with_memory(agent, bank)"
            )
        own = given.pop("own_session_id", None)
        for name in ("class_name", "process"):
            given.pop(name, None)
        memory = cls(**{**given, "primary": restored(given.get("primary"))})
        memory._own = own or memory._own
        return memory

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in BankMemory.model_fields}
        with self._lock:
            kept = [(str(key[-1]), each) for key, each in self._chats.items()] if isinstance(self.bank, Bank) else []
        return BankMemory._restored, (fields, self._own, kept)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Any:
        make, parts = self.__reduce__()
        return make(*deepcopy(parts, memo))

    @classmethod
    def _restored(cls, fields: dict[str, Any], own: str, kept: Sequence[tuple[str, BaseMemory]]) -> BankMemory:
        """A memory from what was pickled; the users of a shared one begin anew."""
        memory = cls(**fields)
        memory._own = own
        memory._chats.update({_key(memory.bank, name): each for name, each in kept})
        return memory

    def conversation(self) -> Chat:
        """The conversation that the present run belongs to."""
        bank = bank_of(self.bank)
        name = self.session_id or named_session() or self._own
        return Chat(bank, self._sessions.of(bank, {"session_id": name}), self.primary or self._kept(bank, name), self.insert)

    def _kept(self, bank: Bank, name: str) -> BaseMemory:
        """The messages of a conversation."""
        key = _key(bank, name)
        with self._lock:
            memory = self._chats.pop(key, None) or buffer(self.token_limit)
            self._chats[key] = memory
            while len(self._chats) > CHATS:
                self._chats.popitem(last=False)
        return memory


def _key(bank: Bank, name: str) -> tuple[object, ...]:
    """What tells conversations apart: nobody gets another one's messages, whatever they are called."""
    return id(bank.connections), bank.scope, name


def buffer(token_limit: int | None, messages: list[ChatMessage] | None = None) -> BaseMemory:
    """A memory that keeps a conversation's messages."""
    made: Any = ChatMemoryBuffer
    return cast("BaseMemory", made.from_defaults(chat_history=messages, token_limit=token_limit))


class OwnedBuffer(ChatMemoryBuffer):
    """A buffer that a `Context` has kept: whose the conversation was, and how many of its messages somebody else has said."""

    owner: str = ""
    foreign: int = 0


def saved(primary: BaseMemory) -> dict[str, Any]:
    """A buffer's messages, to be stored. The host's own `to_dict` fails on them with some versions of pydantic."""
    if type(primary) not in (ChatMemoryBuffer, OwnedBuffer):
        raise UsageError(
            f"a {type(primary).__name__} keeps its messages elsewhere: pass the memory again, nothing of it is saved"
        )
    messages = [each.model_dump(mode="json") for each in primary.get_all()]
    return {"token_limit": cast("ChatMemoryBuffer", primary).token_limit, "messages": messages}


def restored(stored: Any) -> Any:
    """The buffer that was saved; a memory as it is."""
    if not isinstance(stored, dict):
        return stored
    found = cast("dict[str, Any]", stored)
    messages = [ChatMessage.model_validate(each) for each in found["messages"]]
    return buffer(found["token_limit"], messages)
