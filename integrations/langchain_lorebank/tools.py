"""The memory tools as LangChain tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Type  # noqa: UP035 - langchain checks for `Type[BaseModel]` as written

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, BaseToolkit, ToolException
from pydantic import BaseModel, ConfigDict, Field

from langchain_lorebank.names import OUR_TOOLS
from langchain_lorebank.runs import bank_of, run_of
from lorebank import seams
from lorebank.seams import (
    TOOLBOOK,
    BankResolver,
    EditArguments,
    RecallArguments,
    ReflectArguments,
    RetainArguments,
    RunSessions,
    ToolName,
    checked,
)

if TYPE_CHECKING:
    from lorebank import Bank

Reply = tuple[str, dict[str, Any]]
_sessions = RunSessions()
"""The sessions whose modes the tools obey."""


class _MemoryTool(BaseTool):
    """What the memory tools share: a bank, and how a reply and a failure reach the host.

    The bank of a run comes from the bank given here or, with `per_user(bank)`, from the run's context, config or
    metadata; never from what the model writes.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    entry: ClassVar[ToolName]

    name: str = ""
    description: str = ""
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True
    bank: Any = Field(exclude=True, repr=False)
    editable: bool = False

    def __init__(self, bank: Bank | BankResolver, *, prefix: str = "", **fields: Any) -> None:
        entry = TOOLBOOK[self.entry]
        given = {"name": prefix + entry.name, "description": entry.description} | fields
        super().__init__(bank=checked(bank), **given)
        if self.name != entry.name:
            OUR_TOOLS[self.name] = entry.name

    def _tools(self, config: RunnableConfig | None) -> seams.MemoryTools:
        bank = bank_of(self.bank, config)
        return seams.MemoryTools(bank, editable=self.editable, session=partial(_sessions.named, bank, run_of(config)))


def _told(reply: seams.ToolReply) -> Reply:
    return reply.text, reply.artifact


def _answered(call: Callable[[], seams.ToolReply]) -> Reply:
    try:
        return _told(call())
    except seams.ToolFailure as failure:
        raise ToolException(str(failure)) from failure


async def _awaited(call: Awaitable[seams.ToolReply]) -> Reply:
    try:
        return _told(await call)
    except seams.ToolFailure as failure:
        raise ToolException(str(failure)) from failure


class RetainTool(_MemoryTool):
    """Saves facts into the bank.

    Setup:
        `pip install 'lorebank[langchain]'`

    Instantiation:
        `RetainTool(open_bank(bank="alice"))`

    Invocation with args:
        `tool.invoke({"items": [{"content": "Ana prefers aisle seats."}]})` gives `1 memory stored.`

    Invocation with ToolCall:
        gives a `ToolMessage` whose artifact holds the receipt.
    """

    entry: ClassVar[ToolName] = "retain"
    args_schema: Type[BaseModel] = RetainArguments  # noqa: UP006

    def _run(self, items: list[Any], config: RunnableConfig) -> Reply:
        return _answered(lambda: self._tools(config).retain(items))

    async def _arun(self, items: list[Any], config: RunnableConfig) -> Reply:
        return await _awaited(self._tools(config).aretain(items))


class RetainGlobalTool(_MemoryTool):
    """Saves facts into the shared bank (`open_bank(..., shared="team")`).

    Instantiation:
        `RetainGlobalTool(bank)`

    Invocation with args:
        `tool.invoke({"items": [{"content": "The office is in Lisbon."}]})`
    """

    entry: ClassVar[ToolName] = "retain_global"
    args_schema: Type[BaseModel] = RetainArguments  # noqa: UP006

    def _run(self, items: list[Any], config: RunnableConfig) -> Reply:
        return _answered(lambda: self._tools(config).retain_global(items))

    async def _arun(self, items: list[Any], config: RunnableConfig) -> Reply:
        return await _awaited(self._tools(config).aretain_global(items))


class RecallTool(_MemoryTool):
    """Searches the bank.

    Instantiation:
        `RecallTool(open_bank(bank="alice"))`

    Invocation with args:
        `tool.invoke({"query": "seat preference?"})` gives a head line and one bullet a memory.

    Invocation with ToolCall:
        gives a `ToolMessage` whose artifact holds the memories as plain dicts.
    """

    entry: ClassVar[ToolName] = "recall"
    args_schema: Type[BaseModel] = RecallArguments  # noqa: UP006

    def _run(self, query: str, config: RunnableConfig) -> Reply:
        return _answered(lambda: self._tools(config).recall(query))

    async def _arun(self, query: str, config: RunnableConfig) -> Reply:
        return await _awaited(self._tools(config).arecall(query))


class ReflectTool(_MemoryTool):
    """Answers a broad question from many memories.

    Instantiation:
        `ReflectTool(open_bank(bank="alice"))`

    Invocation with args:
        `tool.invoke({"query": "How does Ana like to travel?", "context": "next week's trip"})`
    """

    entry: ClassVar[ToolName] = "reflect"
    args_schema: Type[BaseModel] = ReflectArguments  # noqa: UP006

    def _run(self, query: str, config: RunnableConfig, context: str | None = None) -> Reply:
        return _answered(lambda: self._tools(config).reflect(query, context))

    async def _arun(self, query: str, config: RunnableConfig, context: str | None = None) -> Reply:
        return await _awaited(self._tools(config).areflect(query, context))


class MemoryEditTool(_MemoryTool):
    """Updates, forgets or invalidates one memory. Offered only when asked for.

    Instantiation:
        `MemoryEditTool(open_bank(bank="alice"))`

    Invocation with args:
        `tool.invoke({"operation": "forget", "id": "9922e65e63b52aa8"})`
    """

    entry: ClassVar[ToolName] = "memory_edit"
    args_schema: Type[BaseModel] = EditArguments  # noqa: UP006

    def _run(self, operation: str, id: str, config: RunnableConfig, **changes: Any) -> Reply:
        return _answered(lambda: self._tools(config).edit(operation, id, **changes))

    async def _arun(self, operation: str, id: str, config: RunnableConfig, **changes: Any) -> Reply:
        return await _awaited(self._tools(config).aedit(operation, id, **changes))


_KINDS: dict[ToolName, type[_MemoryTool]] = {
    kind.entry: kind for kind in (RetainTool, RecallTool, ReflectTool, MemoryEditTool, RetainGlobalTool)
}


def memory_tools(bank: Bank | BankResolver, *, include: Sequence[str] | None = None, prefix: str = "") -> list[BaseTool]:
    """The memory tools for an agent: retain, recall and reflect, or those named by `include`.

    `prefix` goes before each name, where an agent has tools of the same name. `retain_global` is offered where the
    bank has a shared one, `memory_edit` only when `include` names it.
    """
    names = seams.offered(include, checked(bank))
    return [_KINDS[name](bank, prefix=prefix, editable="memory_edit" in names) for name in names]


class MemoryToolkit(BaseToolkit):
    """The memory tools as a toolkit: `MemoryToolkit(bank).get_tools()`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    bank: Any = Field(exclude=True, repr=False)
    include: tuple[str, ...] | None = None
    prefix: str = ""

    def __init__(self, bank: Bank | BankResolver, *, include: Sequence[str] | None = None, prefix: str = "") -> None:
        fields: dict[str, Any] = {"bank": checked(bank), "include": None if include is None else tuple(include), "prefix": prefix}
        super().__init__(**fields)

    def get_tools(self) -> list[BaseTool]:
        return memory_tools(self.bank, include=self.include, prefix=self.prefix)
