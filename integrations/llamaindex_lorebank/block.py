"""A bank as one of the blocks of LlamaIndex's `Memory`."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock

from llamaindex_lorebank.injecting import parted
from llamaindex_lorebank.memory import CHATS, asking, asks
from llamaindex_lorebank.messages import spoken
from llamaindex_lorebank.runs import bank_of, named_session
from llamaindex_lorebank.tracing import guarded
from lorebank import Bank, Injection, Session
from lorebank.seams import BankResolver, RunSessions, ahead_of, checked

MEMORIES = "<memories>\n"
"""Where the memories begin in what a block gives."""


@dataclass(slots=True)
class _Transcript:
    """What was said in a session, also what `Memory` shows no more: its first `gone` messages."""

    messages: list[ChatMessage] = field(default_factory=list)
    gone: int = 0

    def shown(self, window: Sequence[ChatMessage]) -> list[ChatMessage]:
        """All messages, the newest of which are these."""
        self.messages[self.gone :] = window
        return list(self.messages)

    def left(self, oldest: Sequence[ChatMessage]) -> bool:
        """Notes that the oldest messages are shown no more; whether one of them was never seen."""
        unseen = self.gone + len(oldest) > len(self.messages)
        self.messages[self.gone : self.gone + len(oldest)] = oldest
        self.gone += len(oldest)
        return unseen


class BankMemoryBlock(BaseMemoryBlock[str]):
    """Gives a `Memory` that you assemble yourself a long-term memory.

    Setup:
        `pip install 'lorebank[llamaindex]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run the bank of the user in its instrument tags
        session_id: the conversation; by default the one that the run's tags name (`thread_id`, `session_id`), else the `Memory`'s
        name: the tag around the block
        priority: 0, never truncated; else a `Memory` that is full drops the memories first, and the prefix then

    Instantiation:
        `Memory.from_defaults(memory_blocks=[BankMemoryBlock(bank)])`

    Instructions, mental models and memories come with each question, one recall a turn. A block hears of messages when the
    `Memory` is asked, or overflows: an answer is retained when the agent ends its run or the chat engine is asked the next time,
    and the last answer of a chat engine never. `BankMemory(bank, primary=Memory.from_defaults())` hears of all at once; prefer
    it. With `InsertMethod.SYSTEM`, the default, an agent with a system prompt shows its model two system messages, and a
    `ReActAgent` drops this one. A memory that is down gives an empty block, unless the bank was opened with
    `on_failure="raise"`.
    """

    bank: Any = Field(exclude=True, repr=False)
    session_id: str | None = None
    name: str = "long_term_memory"
    description: str | None = "What is known from earlier conversations."
    _own: str = PrivateAttr(default_factory=lambda: uuid.uuid4().hex)
    _sessions: RunSessions = PrivateAttr()
    _transcripts: OrderedDict[tuple[object, ...], _Transcript] = PrivateAttr(default_factory=OrderedDict)

    def __init__(self, bank: Bank | BankResolver, session_id: str | None = None, **fields: Any) -> None:
        given: dict[str, Any] = {"bank": checked(bank), "session_id": session_id, **fields}
        super().__init__(**given)
        self._sessions = RunSessions(session_id=session_id)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """Prefix and memories for the newest message of the user; nothing where it is answered."""
        said = _once(messages or [])
        session, transcript = self._present(block_kwargs.get("session_id"))
        history = transcript.shown(said)
        injection = Injection()
        if asking(said, None)[0]:
            with guarded(session, "before_turn"):
                injection = await session.abefore_turn(spoken(history))
        elif said:
            with guarded(session, "after_turn"):
                await session.aafter_turn(spoken(history))
        return ahead_of(*parted(injection, "user"))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Retains the messages that `Memory` shows no more, where they were never seen."""
        name = messages[0].additional_kwargs.get("session_id") if messages else None
        session, transcript = self._present(name)
        if transcript.left(messages):
            with guarded(session, "after_turn"):
                await session.aafter_turn(spoken(transcript.messages))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The block without memories; nothing where it has none."""
        prefix, memories, _ = content.rpartition(MEMORIES)
        return prefix.rstrip() or None if memories else None

    def _present(self, name: object) -> tuple[Session, _Transcript]:
        """The session of the present run, and what was said in it."""
        bank = bank_of(self.bank)
        named = self.session_id or named_session() or str(name or self._own)
        key = id(bank.connections), bank.scope, named
        self._transcripts[key] = transcript = self._transcripts.pop(key, None) or _Transcript()
        while len(self._transcripts) > CHATS:
            self._transcripts.popitem(last=False)
        return self._sessions.of(bank, {"session_id": named}), transcript


def _once(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages without the one that `Memory` adds for what was asked, where that is among them."""
    if len(messages) > 1 and asks(messages) and asking(messages[:-1], messages[-1]) == (True, None):
        return list(messages[:-1])
    return list(messages)
