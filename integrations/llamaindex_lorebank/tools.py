"""The memory tools as a LlamaIndex tool spec."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from llamaindex_lorebank.messages import OUR_TOOLS
from llamaindex_lorebank.runs import bank_of, parent_of, run_tags
from lorebank import Bank, Session
from lorebank.seams import TOOLBOOK, Alias, BankResolver, MemoryTools, RunSessions, ToolName, ToolReply, checked, offered

_sessions = RunSessions()
"""The sessions whose modes the tools obey."""


class BankToolSpec(BaseToolSpec):
    """The memory tools: retain, recall and reflect, or those named by `include`.

    `BankToolSpec(bank).to_tool_list()`. `prefix` goes before each name. `retain_global` is offered where the bank has a
    shared one, `memory_edit` only when `include` names it. A tool's text is what the model reads, its `raw_output`
    also holds the artifact. A failure raises; agents hand its sentence to the model as a tool error.
    """

    def __init__(self, bank: Bank | BankResolver, *, include: Sequence[str] | None = None, prefix: str = "") -> None:
        self._bank = checked(bank)
        self._names = offered(include, self._bank)
        self._prefix = prefix
        OUR_TOOLS.update({prefix + name: name for name in self._names if prefix})
        self.spec_functions = [(name, f"a{name}") for name in self._names]

    def to_tool_list(
        self,
        spec_functions: list[str | tuple[str, str]] | None = None,
        func_to_metadata_mapping: dict[str, ToolMetadata] | None = None,
    ) -> list[FunctionTool]:
        """The tools, with the names, descriptions and schemas that both frameworks share."""
        own: dict[str, ToolMetadata] = {name: self._metadata(name) for name in self._names}
        return super().to_tool_list(spec_functions, own | (func_to_metadata_mapping or {}))

    def retain(self, items: list[Any]) -> ToolReply:
        return self._tools().retain(items)

    async def aretain(self, items: list[Any]) -> ToolReply:
        return await self._tools().aretain(items)

    def retain_global(self, items: list[Any]) -> ToolReply:
        return self._tools().retain_global(items)

    async def aretain_global(self, items: list[Any]) -> ToolReply:
        return await self._tools().aretain_global(items)

    def recall(self, query: str) -> ToolReply:
        return self._tools().recall(query)

    async def arecall(self, query: str) -> ToolReply:
        return await self._tools().arecall(query)

    def reflect(self, query: str, context: str | None = None) -> ToolReply:
        return self._tools().reflect(query, context)

    async def areflect(self, query: str, context: str | None = None) -> ToolReply:
        return await self._tools().areflect(query, context)

    def memory_edit(self, operation: str, id: str, **changes: Any) -> ToolReply:
        return self._tools().edit(operation, id, **changes)

    async def amemory_edit(self, operation: str, id: str, **changes: Any) -> ToolReply:
        return await self._tools().aedit(operation, id, **changes)

    def _tools(self) -> MemoryTools:
        bank = bank_of(self._bank)
        return MemoryTools(bank, editable="memory_edit" in self._names, session=partial(_session_of, bank))

    def _metadata(self, name: ToolName) -> ToolMetadata:
        entry = TOOLBOOK[name]
        return ToolMetadata(name=self._prefix + entry.name, description=entry.description, fn_schema=entry.arguments)


def _session_of(bank: Bank) -> Session | Alias | None:
    """The session whose mode the tools obey: that of the agent they run in, else the one that the run's tags name."""
    return parent_of(bank) or _sessions.named(bank, run_tags())
