"""Memory for workflow agents: each run has its own, and the prefix stands in the agent's own system message."""

from __future__ import annotations

import copy
import functools
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from types import new_class
from typing import Any, TypeVar

from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import FunctionTool

from llamaindex_lorebank.injecting import with_system
from llamaindex_lorebank.memory import BankMemory, Chat, OwnedBuffer, restored, saved
from llamaindex_lorebank.messages import OUR_TOOLS
from llamaindex_lorebank.runs import as_parent, bank_of, named_session, parent_of
from llamaindex_lorebank.tools import BankToolSpec
from lorebank import Bank, UsageError
from lorebank.seams import TOOLBOOK, BankResolver, Offer, RunSessions, ToolName, checked

A = TypeVar("A", BaseWorkflowAgent, AgentWorkflow)
_prefix: ContextVar[str] = ContextVar("lorebank_prefix", default="")
"""What the system message of the model's next call begins with."""


class RunMemory(BankMemory):
    """An agent's memory in one run: the messages of a memory that the agent was given, and the session of the run's user."""

    _now: Chat = PrivateAttr()
    _given: BaseMemory = PrivateAttr()

    def __init__(self, chat: Chat, given: BaseMemory) -> None:
        super().__init__(chat.bank, chat.session.id, chat.primary)
        self._now, self._given = chat, given

    @property
    def given(self) -> BaseMemory:
        """The memory that the agent was given."""
        return self._given

    @property
    def now(self) -> Chat:
        """The conversation."""
        return self._now

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """What a `Context` keeps of it: the memory that the agent was given."""
        if isinstance(self._given, BankMemory):
            return {"given": self._given.to_dict(**kwargs)}
        return {**saved(self._given), "owner": owner_of(self._now.bank), "foreign": self._now.foreign}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Any:
        """The memory that the agent was given; the next run's memory is made around it."""
        if "given" in data:
            return BankMemory.from_dict(data["given"], **kwargs)
        kept = OwnedBuffer(**dict(restored(data)))
        kept.owner, kept.foreign = data["owner"], data["foreign"]
        return kept

    async def offer(self, offer: Offer) -> None:
        """Tells the session which memory tools the model of the next call has."""
        if offer != (self._now.offer or Offer()):
            self._now.offer = offer
            await self.aget()

    def conversation(self) -> Chat:
        return self._now


class Memories:
    """What an agent remembers with: a bank, and the sessions of its runs."""

    def __init__(self, bank: Bank | BankResolver, session_id: str | None) -> None:
        self.bank, self.session_id = checked(bank), session_id
        self._sessions = RunSessions(session_id=session_id)

    def check(self) -> None:
        """Raises for a run without its user."""
        bank_of(self.bank)

    async def of_run(self, memory: BaseMemory) -> RunMemory:
        """The memory of the present run. One that is a `BankMemory` keeps its bank and its session; another one's messages are
        told to the bank of the present user, but for those of another user who has had the conversation before.
        """
        given = memory.given if isinstance(memory, RunMemory) else memory
        if isinstance(given, BankMemory):
            found = given.conversation()
            return RunMemory(Chat(found.bank, found.session, found.primary, "apart"), given)
        bank = bank_of(self.bank)
        name = named_session() or getattr(given, "session_id", None)
        session = parent_of(bank) or self._sessions.of(bank, {"session_id": name})
        chat = Chat(bank, session, given, "apart")
        chat.foreign = await _foreign(memory, given, owner_of(bank))
        return RunMemory(chat, given)


def owner_of(bank: Bank) -> str:
    """Whose a conversation is."""
    return ",".join((bank.scope.bank, *bank.scope.stamp))


async def _foreign(memory: BaseMemory, given: BaseMemory, owner: str) -> int:
    """How many messages of a conversation belong to somebody else than its present owner."""
    if isinstance(memory, RunMemory):
        before, foreign = owner_of(memory.now.bank), memory.now.foreign
    elif isinstance(memory, OwnedBuffer):
        before, foreign = memory.owner, memory.foreign
    else:
        return 0
    return foreign if before == owner else len(await given.aget_all())


class Remembering:
    """What `with_memory` adds to an agent's or a workflow's class; the rest of it is the agent's own."""

    _lorebank: Memories | None = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the agent. A run without its user is refused before it begins."""
        if self._lorebank is not None:
            self._lorebank.check()
        host: Any = super()
        return host.run(*args, **kwargs)

    async def _init_context(self, ctx: Any, ev: Any) -> None:
        host: Any = super()
        await host._init_context(ctx, ev)  # noqa: SLF001 - the host's
        if self._lorebank is not None:
            memory = await ctx.store.get("memory")
            await ctx.store.set("memory", await self._lorebank.of_run(memory))

    async def _call_tool(self, ctx: Any, tool: Any, tool_input: dict[str, Any]) -> Any:
        """Lets an agent inside the tool know that it is a sub-agent."""
        host: Any = super()
        memory = await ctx.store.get("memory", default=None)
        with as_parent(memory.now.bank, memory.now.session) if isinstance(memory, RunMemory) else nullcontext():
            return await host._call_tool(ctx, tool, tool_input)  # noqa: SLF001 - the host's

    async def _get_llm_response(self, ctx: Any, llm_input: list[ChatMessage], *others: Any, **named: Any) -> Any:
        """The last answer of a run that is stopped: the host writes a second system message, and a strict model refuses that."""
        host: Any = super()
        with _remembered(await ctx.store.get("memory", default=None)):
            messages = with_system(llm_input, _prefix.get())
            return await host._get_llm_response(ctx, messages, *others, **named)  # noqa: SLF001 - the host's


class RememberingAgent(Remembering):
    """The same for a single agent, in a workflow or alone."""

    async def take_step(self, ctx: Any, llm_input: list[ChatMessage], tools: Sequence[Any], memory: BaseMemory) -> Any:
        """One call of the model, which sees the prefix; that names the memory tools of this agent."""
        host: Any = super()
        if isinstance(memory, RunMemory):
            await memory.offer(offer_of(tools))
        with _remembered(memory):
            if not hasattr(host, "_get_response"):  # an agent of the application's own gets what the model is to see
                llm_input = with_system(llm_input, _prefix.get())
            return await host.take_step(ctx, llm_input, tools, memory)

    async def _get_response(self, current_llm_input: list[ChatMessage], *others: Any) -> Any:
        host: Any = super()
        return await host._get_response(with_system(current_llm_input, _prefix.get()), *others)  # noqa: SLF001 - the host's

    async def _get_streaming_response(self, ctx: Any, current_llm_input: list[ChatMessage], *others: Any) -> Any:
        host: Any = super()
        messages = with_system(current_llm_input, _prefix.get())
        return await host._get_streaming_response(ctx, messages, *others)  # noqa: SLF001 - the host's


def remembering(agent: A, bank: Bank | BankResolver, *, session_id: str | None = None) -> A:
    """The agent with a memory; the given one stays as it is."""
    if isinstance(agent, Remembering):
        raise UsageError("this agent has a memory already")
    changed: A = _of_class(agent, Memories(bank, session_id))
    if isinstance(changed, AgentWorkflow):
        changed.agents = {name: _of_class(each, None) for name, each in changed.agents.items()}
    return changed


def offer_of(tools: Iterable[Any]) -> Offer:
    """The memory tools among an agent's tools."""
    names, prefixes = list[ToolName](), list[str]()
    for tool in tools:
        function = tool.real_fn if isinstance(tool, FunctionTool) else None
        spec, own = getattr(function, "__self__", None), getattr(function, "__name__", "").removeprefix("a")
        if isinstance(spec, BankToolSpec) and own in TOOLBOOK:
            offered = str(tool.metadata.name)
            OUR_TOOLS[offered] = own
            names.append(own)
            prefixes.append(offered.removesuffix(own))
    return Offer(tuple(names), prefixes[0] if prefixes else "")


def _of_class(agent: Any, memories: Memories | None) -> Any:
    """A copy of an agent, of a class that remembers. It shares all that the agent has."""
    copied = copy.copy(agent)
    if not isinstance(agent, Remembering):
        object.__setattr__(copied, "__class__", _class_of(agent.__class__))
    object.__setattr__(copied, "_lorebank", memories)
    if (runtime := getattr(copied, "runtime", None)) is not None:
        runtime.track_workflow(copied)
    return copied


@functools.cache
def _class_of(kind: Any) -> Any:
    """The class of agents of this kind that remember."""
    own = Remembering if issubclass(kind, AgentWorkflow) else RememberingAgent
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made: Any = new_class(kind.__name__, (own, kind), exec_body=lambda namespace: namespace.update(names))
    made._step_functions = vars(kind)["_step_functions"]  # noqa: SLF001 - steps that were added to the class
    return made


@contextmanager
def _remembered(memory: object) -> Generator[None]:
    """Calls of the model inside see the prefix of a run's memory."""
    token = _prefix.set(memory.now.prefix if isinstance(memory, RunMemory) else "")
    try:
        yield
    finally:
        _prefix.reset(token)
