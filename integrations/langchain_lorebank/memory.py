"""A bank as the memory of LangChain's classic chains."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, get_buffer_string
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_lorebank.messages import OURS, is_user, to_messages
from lorebank import Bank, Injection, Message, Session, UsageError
from lorebank.seams import BankResolver, RunSessions, quiet

try:
    from langchain_classic.base_memory import BaseMemory
except ImportError as error:
    raise ImportError("BankMemory needs LangChain's classic package: pip install 'lorebank[langchain-classic]'") from error

INPUTS = ("input", "question", "query", "human_input", "text", "prompt", "messages")
OUTPUTS = ("response", "text", "result", "answer", "output", "messages")
"""Where the user's words and the answer are looked for, in this order."""
PENDING = 256
"""Turns that may be open at once: loaded, and not saved yet."""


@dataclass(slots=True)
class _Turns:
    """The turns that are open, by what the user said, and the last ones that are over.

    Loading the words of the newest open turn again is the same turn. Nothing here depends on threads, tasks or contexts.
    """

    recent: deque[BaseMessage]
    open: OrderedDict[str, str] = field(default_factory=OrderedDict)
    newest: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begun(self, said: str) -> str:
        """The run id of a turn that is loaded."""
        with self.lock:
            if self.newest == said and said in self.open:
                return self.open[said]
            self.open.pop(said, None)
            self.open[said] = uuid.uuid4().hex
            self.newest = said
            while len(self.open) > PENDING:
                self.open.popitem(last=False)
            return self.open[said]

    def ended(self, said: str) -> str:
        """The run id of a turn that is saved."""
        with self.lock:
            self.newest = None
            return self.open.pop(said, None) or uuid.uuid4().hex

    def keep(self, messages: Sequence[BaseMessage]) -> None:
        """The newest messages."""
        with self.lock:
            self.recent.extend(messages)

    def latest(self) -> list[BaseMessage]:
        with self.lock:
            return list(self.recent)

    def clear(self) -> None:
        with self.lock:
            self.recent.clear()
            self.open.clear()
            self.newest = None


class BankMemory(BaseMemory):
    """Gives a classic chain a memory that outlives it, beside the recent turns.

    Setup:
        `pip install 'lorebank[langchain-classic]'`

    Key init args:
        bank: an open `Bank`. A chain's memory does not see whose run it is: many users need a `BankMemory` each
        session_id: the conversation; by default one that lives as long as this object
        memory_key: the prompt variable that gets everything, `history` by default
        memory: another memory that keeps the recent turns; without one the last `k` turns are kept here
        return_messages: messages for a `MessagesPlaceholder` instead of text
        input_key, output_key: where the user's words and the answer are; by default they are looked for

    Instantiation:
        `BankMemory(open_bank(bank="ana"))`

    Usage:
        `ConversationChain(llm=model, memory=BankMemory(bank))`, or in a chain of runnables
        `RunnablePassthrough.assign(history=RunnableLambda(memory.load_memory_variables, memory.aload_memory_variables))`
        with a `save_context` after the answer.

    The variable holds the instructions and mental models first, then what was recalled, then the recent turns. As messages,
    all that is not said by somebody is one human message that carries the key `lorebank`: a prompt has a system message of its
    own. A memory that is down never breaks the chain, unless the bank was opened with `on_failure="raise"`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    bank: Any = Field(exclude=True, repr=False)
    session_id: str
    memory_key: str = "history"
    memory: BaseMemory | None = None
    return_messages: bool = False
    input_key: str | None = None
    output_key: str | None = None
    k: int = Field(default=5, ge=0)
    _sessions: RunSessions = PrivateAttr()
    _turns: _Turns = PrivateAttr()

    def __init__(
        self,
        bank: Bank,
        session_id: str | None = None,
        *,
        memory_key: str = "history",
        memory: BaseMemory | None = None,
        return_messages: bool = False,
        input_key: str | None = None,
        output_key: str | None = None,
        k: int = 5,
    ) -> None:
        fields: dict[str, Any] = {
            "bank": _fixed(bank),
            "session_id": uuid.uuid4().hex if session_id is None else session_id,
            "memory_key": memory_key,
            "memory": memory,
            "return_messages": return_messages,
            "input_key": input_key,
            "output_key": output_key,
            "k": k,
        }
        super().__init__(**fields)
        if memory is not None:
            _variable_of(memory)
        self._sessions = RunSessions(session_id=self.session_id)
        self._turns = _Turns(deque(maxlen=2 * self.k))

    @property
    def memory_variables(self) -> list[str]:
        """The one variable that is filled."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Recalls for the user's words, and gives all under the memory's key. Without words (`{}`) it only shows the turns."""
        given = self._without_own(inputs)
        inner = None if self.memory is None else self.memory.load_memory_variables(given)
        said, injection, session = self._said(given), Injection(), self._session()
        if said:
            with quiet(session, "before_turn"):
                messages, run_id = self._begun(said)
                injection = session.before_turn(messages, history="delta", run_id=run_id)
        return {self.memory_key: self._shown(injection, inner)}

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Awaitable form of `load_memory_variables`."""
        given = self._without_own(inputs)
        inner = None if self.memory is None else await self.memory.aload_memory_variables(given)
        said, injection, session = self._said(given), Injection(), self._session()
        if said:
            with quiet(session, "before_turn"):
                messages, run_id = self._begun(said)
                injection = await session.abefore_turn(messages, history="delta", run_id=run_id)
        return {self.memory_key: self._shown(injection, inner)}

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Retains the turn; neither what was recalled for it nor the turns before are in it."""
        given, messages, run_id = self._ended(inputs, outputs)
        session = self._session()
        with quiet(session, "after_turn"):
            session.after_turn(to_messages(messages), history="delta", run_id=run_id)
        if self.memory is not None:
            self.memory.save_context(given, outputs)

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Awaitable form of `save_context`."""
        given, messages, run_id = self._ended(inputs, outputs)
        session = self._session()
        with quiet(session, "after_turn"):
            await session.aafter_turn(to_messages(messages), history="delta", run_id=run_id)
        if self.memory is not None:
            await self.memory.asave_context(given, outputs)

    def clear(self) -> None:
        """Forgets the recent turns. The bank keeps what it knows: removing from it is `bank.forget(session=...)`."""
        self._turns.clear()
        if self.memory is not None:
            self.memory.clear()

    async def aclear(self) -> None:
        """Awaitable form of `clear`."""
        self._turns.clear()
        if self.memory is not None:
            await self.memory.aclear()

    def _session(self) -> Session:
        return self._sessions.of(self.bank, {})

    def _without_own(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A chain hands over its inputs with this memory's own variable among them."""
        return {name: value for name, value in inputs.items() if name != self.memory_key}

    def _said(self, given: Mapping[str, Any]) -> list[BaseMessage]:
        """What the user says in this turn."""
        others = () if self.memory is None else self.memory.memory_variables
        key = _key(given, self.input_key, INPUTS, ("stop", *others), "input_key")
        said = [] if key is None else _messages(given[key], HumanMessage)
        return [message for message in said if is_user(message)][-1:]

    def _begun(self, said: Sequence[BaseMessage]) -> tuple[list[Message], str]:
        """What the model is about to see, and the turn's run id. The turns before are known by their ids: they are not retained
        again, and what was kept of them is not recalled beside them.
        """
        run_id = self._turns.begun(_text(said))
        return to_messages([*self._turns.latest(), *_identified(said, run_id)]), run_id

    def _ended(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[BaseMessage], str]:
        """The inputs without this memory's own variable, the messages of the turn, and its run id."""
        given = self._without_own(inputs)
        said = self._said(given)
        key = _key(outputs, self.output_key, OUTPUTS, (), "output_key")
        answered = [] if key is None else _since_user(_messages(outputs[key], AIMessage))
        run_id = self._turns.ended(_text(said))
        messages = _identified(said + answered, run_id)
        self._turns.keep([*messages[:1], *messages[1:][-1:]])
        return given, messages, run_id

    def _shown(self, injection: Injection, inner: Mapping[str, Any] | None) -> str | list[BaseMessage]:
        """What the prompt gets: prefix, memories, turns."""
        turns = self._turns.latest() if inner is None or self.memory is None else inner[_variable_of(self.memory)]
        head = "\n\n".join(filter(None, (injection.system_prefix, injection.memories)))
        if not self.return_messages:
            text = turns if isinstance(turns, str) else get_buffer_string(turns)
            return "\n\n".join(filter(None, (head, text)))
        said = turns if isinstance(turns, list) else [_ours(turns)] if turns else []
        return [_ours(head), *said] if head else list(said)


def _fixed(bank: object) -> Bank:
    """A bank; a resolver can't be asked, as a chain's memory does not see the run."""
    if isinstance(bank, Bank):
        return bank
    if isinstance(bank, BankResolver):
        raise UsageError(
            "BankMemory can't tell whose run it is in: give each user a memory of their own, BankMemory(bank.named(user)), "
            "or use MemoryMiddleware or a tool, which take per_user(bank)"
        )
    raise UsageError(f"`bank` must be a Bank (open_bank()); found {type(bank).__name__}")


def _variable_of(memory: BaseMemory) -> str:
    """The one variable that a memory fills."""
    names = memory.memory_variables
    if len(names) != 1:
        raise UsageError(f"`memory` must fill one variable; {type(memory).__name__} fills {names!r}")
    return names[0]


def _key(given: Mapping[str, Any], wanted: str | None, usual: Sequence[str], others: Sequence[str], option: str) -> str | None:
    """Where a chain keeps what is looked for; `None` where it has nothing at all."""
    names = [name for name in given if name not in others]
    if not names:
        return None
    if wanted is not None:
        if wanted not in given:
            raise UsageError(f"`{option}` is {wanted!r}, but the chain has {', '.join(map(repr, names))}")
        return wanted
    found = next((name for name in usual if name in names), names[0] if len(names) == 1 else None)
    if found is None:
        raise UsageError(f"which of {', '.join(map(repr, names))} is meant? Name it: BankMemory(bank, {option}=...)")
    return found


def _messages(value: object, kind: type[HumanMessage | AIMessage]) -> list[BaseMessage]:
    """A chain's value as messages; a text is one of the given kind."""
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, BaseMessage) for each in value):
        return list(value)
    if value is None or value == "":
        return []
    return [kind(content=value if isinstance(value, str) else str(value))]


def _since_user(messages: list[BaseMessage]) -> list[BaseMessage]:
    """What was said after the newest user message."""
    newest = max((place for place, message in enumerate(messages) if message.type == "human"), default=-1)
    return [message for message in messages[newest + 1 :] if message.type != "system"]


def _identified(messages: Sequence[BaseMessage], run_id: str) -> list[BaseMessage]:
    """Messages with ids: their own, else by their place in the turn."""
    return [m if m.id else m.model_copy(update={"id": f"{run_id}:{place}"}) for place, m in enumerate(messages)]


def _text(said: Sequence[BaseMessage]) -> str:
    return "\n".join(str(message.text) for message in said)


def _ours(text: str) -> HumanMessage:
    """A message that holds what nobody said; never retained."""
    return HumanMessage(text, additional_kwargs={OURS: True})
