"""`HindsightMemory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar
from weakref import WeakSet

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr

from llamaindex_lorebank.compat.configuring import DEFAULTS, chosen, missions, opened, refuse_others
from llamaindex_lorebank.memory import BankMemory, Chat
from lorebank import Bank, Session, UsageError
from lorebank.seams import checked_client

DEFAULT_SYSTEM_PROMPT = (
    "Below are relevant memories from previous conversations:\n{memories}\n"
    "Use these memories to provide more personalized and contextual responses."
)
"""Theirs: what an argument is that was left out."""
UNBOUNDED = 2**31
"""A token bound that no conversation reaches: this memory counts messages."""
CONFIGURED = ("context", "budget", "max_tokens", "tags", "recall_tags", "recall_tags_match")
ARGUMENTS = ("bank_id", *CONFIGURED, "system_prompt", "chat_history_limit")
M = TypeVar("M", bound="HindsightMemory")


class HindsightMemory(BankMemory):
    """A memory for agents and chat engines: recall before the model answers, retain of what is said.

    Key init args:
        client: a bank. Its own settings hold: another `budget`, `max_tokens`, `context` or `mission` is a `UsageError`
        bank_id: the name of the bank
        tags: on all that is retained
        chat_history_limit: how many messages the model sees; the conversation itself stays whole

    `system_prompt` and `recall_tags` have no meaning here. The rest is `BankMemory`'s. An agent of `with_memory` that is given
    this memory shows its model the whole conversation.

    >>> from lorebank.testing import temporary_bank
    >>> with temporary_bank() as bank:
    ...     memory = HindsightMemory.from_client(bank, "ana", tags=["chat"])
    ...     memory.put(ChatMessage("I always take aisle seats."))
    ...     [kept.text for kept in bank.named("ana").list(tags=["chat"])]
    ['I always take aisle seats.']
    """

    bank_id: str = ""
    context: str = DEFAULTS.context
    budget: str = DEFAULTS.budget
    max_tokens: int = DEFAULTS.max_tokens
    tags: list[str] | None = None
    recall_tags: list[str] | None = None
    recall_tags_match: str = DEFAULTS.recall_tags_match
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    chat_history_limit: int = 100
    _tagged: WeakSet[Session] = PrivateAttr(default_factory=WeakSet)

    def __init__(self, client: Bank, mission: str | None = None, **kwargs: Any) -> None:
        wanted = _wanted(kwargs)
        bank = checked_client(client).named(wanted["bank_id"])
        refuse_others(bank, mission=chosen("mission", mission), **{name: wanted[name] for name in CONFIGURED[:3]})
        super().__init__(bank, token_limit=UNBOUNDED)
        for name, value in wanted.items():
            setattr(self, name, value)

    @classmethod
    def from_defaults(  # type: ignore[override]
        cls,
        bank_id: str,
        *,
        client: Bank | None = None,
        hindsight_api_url: str | None = None,
        api_key: str | None = None,
        mission: str | None = None,
        context: str = "llamaindex",
        budget: str = "mid",
        max_tokens: int = 4096,
        tags: list[str] | None = None,
        recall_tags: list[str] | None = None,
        recall_tags_match: str = "any",
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        chat_history_limit: int = 100,
        **kwargs: Any,
    ) -> Self:
        """A memory on a bank, or on the server or file that is named here, by `configure` or by the environment."""
        given = {name: value for name, value in locals().items() if name in ARGUMENTS} | kwargs
        return cls(client or _opened(hindsight_api_url, api_key, mission, _wanted(given)), mission, **given)

    @classmethod
    def from_client(
        cls,
        client: Bank,
        bank_id: str,
        *,
        mission: str | None = None,
        context: str = "llamaindex",
        budget: str = "mid",
        max_tokens: int = 4096,
        tags: list[str] | None = None,
        recall_tags: list[str] | None = None,
        recall_tags_match: str = "any",
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        chat_history_limit: int = 100,
    ) -> Self:
        """A memory on a bank."""
        return cls(client, mission, **{name: value for name, value in locals().items() if name in ARGUMENTS})

    @classmethod
    def from_url(cls, hindsight_api_url: str, bank_id: str, *, api_key: str | None = None, **kwargs: Any) -> Self:
        """A memory on a server or a file."""
        return cls.from_defaults(bank_id, hindsight_api_url=hindsight_api_url, api_key=api_key, **kwargs)

    @classmethod
    def class_name(cls) -> str:
        return "HindsightMemory"

    def get(self, input: str | ChatMessage | None = None, **kwargs: Any) -> list[ChatMessage]:
        """The newest messages for the model, the newest of a user's with memories ahead of it."""
        return self._newest(super().get(input, **kwargs))

    async def aget(self, input: str | ChatMessage | None = None, **kwargs: Any) -> list[ChatMessage]:
        """Awaitable form of `get`."""
        return self._newest(await super().aget(input, **kwargs))

    def conversation(self) -> Chat:
        """The conversation that the present run belongs to; its session has the tags."""
        chat = super().conversation()
        session = chat.session
        if self.tags and isinstance(session, Session) and session not in self._tagged:
            for tag in self.tags:
                session.tags.add(tag)
            self._tagged.add(session)
        return chat

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The memory that `to_dict` gave: `HindsightMemory.from_dict(saved, client=bank)`."""
        own = {name: data[name] for name in ARGUMENTS}
        rest = {name: value for name, value in data.items() if name not in ARGUMENTS}
        return _again(cls, BankMemory.from_dict, (rest | {"bank": kwargs.get("client")},), own)

    def __reduce__(self) -> tuple[Any, ...]:
        make, parts = super().__reduce__()
        return _again, (type(self), make, parts, {name: getattr(self, name) for name in ARGUMENTS})

    def _newest(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        """The newest messages, from a user's on: no tool's result is without its call."""
        if len(messages) <= self.chat_history_limit:
            return messages
        kept = messages[-self.chat_history_limit :]
        first = next((place for place, message in enumerate(kept) if message.role == MessageRole.USER), 0)
        return kept[first:]


def _again(kind: type[M], make: Callable[..., BankMemory], parts: tuple[Any, ...], own: Mapping[str, Any]) -> M:
    """A memory with the conversations of another one."""
    plain = make(*parts)
    memory = kind(plain.bank, **own)
    memory.primary = plain.primary
    for name in ("_own", "_chats"):
        setattr(memory, name, getattr(plain, name))
    return memory


def _opened(url: str | None, key: str | None, mission: str | None, wanted: Mapping[str, Any]) -> Bank:
    """A bank at a place, with what is wanted as its settings."""
    retain = {"retain_context": wanted["context"], **missions(chosen("mission", mission))}
    return opened(url, key, recall={name: wanted[name] for name in ("budget", "max_tokens")}, retain=retain)


def _wanted(given: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments but the mission; those that were left out as `configure` has them."""
    if unknown := [name for name in given if name not in ARGUMENTS]:
        raise UsageError(f"`HindsightMemory` has no argument {unknown[0]!r}; it has {', '.join(ARGUMENTS)}")
    if "bank_id" not in given:
        raise UsageError("`bank_id` is missing: HindsightMemory.from_client(client, bank_id)")
    prompt, limit = given.get("system_prompt", DEFAULT_SYSTEM_PROMPT), given.get("chat_history_limit", 100)
    if prompt != DEFAULT_SYSTEM_PROMPT:
        raise UsageError(
            "`system_prompt` has no meaning here: memories stand in a block of their own ahead of the user's words. Leave it "
            "out, and say in your agent's own prompt what to do with them"
        )
    if not isinstance(limit, int) or limit < 1:
        raise UsageError(f"`chat_history_limit` must be a number of messages, 1 or more; found {limit!r}")
    wanted = {name: chosen(name, given.get(name)) for name in CONFIGURED}
    if wanted["recall_tags"]:
        raise UsageError(
            "`recall_tags` can't narrow what is recalled on its own: give what must stay apart a bank of its own (`bank_id`), or "
            "read by tags with create_hindsight_tools(recall_tags=...) or BankRetriever(bank, tags=...)"
        )
    return {"bank_id": given["bank_id"], **wanted, "system_prompt": prompt, "chat_history_limit": limit}
