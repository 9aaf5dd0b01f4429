"""`HindsightToolSpec` and `create_hindsight_tools`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from llama_index.core.tools import FunctionTool
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from llamaindex_lorebank.compat.configuring import chosen, missions, opened, refuse_others
from llamaindex_lorebank.messages import OUR_TOOLS
from llamaindex_lorebank.runs import parent_of, run_tags
from lorebank import Bank, LorebankError, Session
from lorebank.seams import (
    Alias,
    MemoryTools,
    Retrieval,
    RunSessions,
    Skipped,
    ToolFailure,
    ToolName,
    checked_client,
    given,
    numbered,
    refuse_meaningless,
)

logger = logging.getLogger("lorebank")
NOTHING = "No relevant memories found."
TOOLS: dict[str, ToolName] = {"retain_memory": "retain", "recall_memory": "recall", "reflect_on_memory": "reflect"}
_sessions = RunSessions()
"""The sessions whose modes the tools obey."""


class HindsightToolSpec(BaseToolSpec):
    """The tools `retain_memory(content)`, `recall_memory(query)` and `reflect_on_memory(query)`.

    `budget` ("mid") and `max_tokens` (4,096) bound a recall, `tags` and the `retain_...` go on writes, `recall_tags` and
    `reflect_tags` narrow reads. A tool that fails says so to the model, unless the bank was opened with `on_failure="raise"`.

    >>> from lorebank.testing import temporary_bank
    >>> with temporary_bank() as bank:
    ...     HindsightToolSpec(bank_id="ana", client=bank).recall_memory("Which seats?")
    'No relevant memories found.'
    """

    def __init__(
        self,
        *,
        bank_id: str,
        client: Bank | None = None,
        hindsight_api_url: str | None = None,
        api_key: str | None = None,
        budget: str | None = None,
        max_tokens: int | None = None,
        tags: list[str] | None = None,
        recall_tags: list[str] | None = None,
        recall_tags_match: str | None = None,
        retain_metadata: dict[str, str] | None = None,
        retain_document_id: str | None = None,
        retain_context: str | None = None,
        recall_types: list[str] | None = None,
        recall_include_entities: bool = False,
        reflect_context: str | None = None,
        reflect_max_tokens: int | None = None,
        reflect_response_schema: dict[str, Any] | None = None,
        reflect_tags: list[str] | None = None,
        reflect_tags_match: str | None = None,
        mission: str | None = None,
    ) -> None:
        refuse_meaningless(entities=recall_include_entities, reflect_max_tokens=reflect_max_tokens)
        self.spec_functions = [(name, f"a{name}") for name in TOOLS]
        self._bank = _bank(client, hindsight_api_url, api_key, chosen("mission", mission)).named(bank_id)
        level, bound = chosen("budget", budget), chosen("max_tokens", max_tokens)
        narrowed, match = chosen("recall_tags", recall_tags), chosen("recall_tags_match", recall_tags_match)
        read = _narrowed(narrowed, match, recall_types, bound)
        thought = _narrowed(narrowed if reflect_tags is None else reflect_tags, reflect_tags_match or match)
        document = {"tags": chosen("tags", tags), "metadata": retain_metadata, "document_id": retain_document_id}
        self._written = given(context=chosen("context", retain_context), **document)
        self._read = given(budget=level, max_tokens=bound, types=recall_types, **read)
        self._reflected = given(budget=level, context=reflect_context, response_schema=reflect_response_schema, **thought)
        OUR_TOOLS.update(TOOLS)

    def retain_memory(self, content: str) -> str:
        """Keeps a fact, a preference or a decision for later conversations. One self-contained statement a call."""
        try:
            return MemoryTools(self._bank, session=self._session).retain([{"content": content, **self._written}]).text
        except ToolFailure as failure:
            return str(failure)

    def recall_memory(self, query: str) -> str:
        """Looks up what is remembered. Gives a numbered list, best first."""
        return self._told("recall", lambda: numbered(self._bank.recall(query, **self._read)))

    def reflect_on_memory(self, query: str) -> str:
        """Answers a broad question from many memories at once."""
        return self._told("reflect", lambda: self._reflection(query))

    async def aretain_memory(self, content: str) -> str:
        """Awaitable form of `retain_memory`."""
        return await self._bank.threads.run(lambda: self.retain_memory(content), "local")

    async def arecall_memory(self, query: str) -> str:
        """Awaitable form of `recall_memory`."""
        return await self._bank.threads.run(lambda: self.recall_memory(query))

    async def areflect_on_memory(self, query: str) -> str:
        """Awaitable form of `reflect_on_memory`."""
        return await self._bank.threads.run(lambda: self.reflect_on_memory(query))

    def _session(self) -> Session | Alias | None:
        """The session of the agent whose tool this is, or the one that the run names."""
        return parent_of(self._bank) or _sessions.named(self._bank, run_tags())

    def _reflection(self, query: str) -> str:
        return self._bank.reflect(query, **self._reflected).text.strip()

    def _told(self, verb: ToolName, ask: Callable[[], str]) -> str:
        """What is known, or why that can't be said; the one is never told as the other."""
        session = self._session()
        if session is not None and (refused := session.refusal(verb)) is not None:
            return refused
        try:
            return ask() or NOTHING
        except LorebankError as error:
            connections = self._bank.connections
            connections.tell(Skipped(self._bank.scope.bank, verb, type(error).__name__))
            logger.warning("tool %s failed on bank %s: %s", verb, self._bank.name, type(error).__name__)
            if connections.on_failure == "raise":
                raise
            return f"{verb} could not be done. This does not mean that nothing is known."


def create_hindsight_tools(
    *,
    bank_id: str,
    client: Bank | None = None,
    hindsight_api_url: str | None = None,
    api_key: str | None = None,
    budget: str | None = None,
    max_tokens: int | None = None,
    tags: list[str] | None = None,
    recall_tags: list[str] | None = None,
    recall_tags_match: str | None = None,
    retain_metadata: dict[str, str] | None = None,
    retain_document_id: str | None = None,
    retain_context: str | None = None,
    recall_types: list[str] | None = None,
    recall_include_entities: bool = False,
    reflect_context: str | None = None,
    reflect_max_tokens: int | None = None,
    reflect_response_schema: dict[str, Any] | None = None,
    reflect_tags: list[str] | None = None,
    reflect_tags_match: str | None = None,
    mission: str | None = None,
    include_retain: bool = True,
    include_recall: bool = True,
    include_reflect: bool = True,
) -> list[FunctionTool]:
    """The tools of `HindsightToolSpec`, with its arguments; each can be left out.

    >>> from lorebank.testing import temporary_bank
    >>> with temporary_bank() as bank:
    ...     [tool.metadata.name for tool in create_hindsight_tools(bank_id="ana", client=bank, include_reflect=False)]
    ['retain_memory', 'recall_memory']
    """
    given = dict(locals())
    included = [given.pop(f"include_{verb}") for verb in TOOLS.values()]
    spec = HindsightToolSpec(**given)
    wanted = [each for each, included_ in zip(spec.spec_functions, included, strict=True) if included_]
    return spec.to_tool_list(wanted) if wanted else []


def _bank(client: object, url: str | None, key: str | None, mission: str | None) -> Bank:
    """The bank that was passed, or the one at the place that is named."""
    if client is None:
        return opened(url, key, retain=missions(mission))
    bank = checked_client(client)
    refuse_others(bank, mission=mission)
    return bank


def _narrowed(tags: Any, match: Any, types: Any = None, max_tokens: int | None = None) -> dict[str, Any]:
    """A filter by tags. What a recall would refuse is refused here."""
    Retrieval(1, max_tokens, types, tags, match)
    return {} if tags is None else {"tags": tags, "tags_match": match}
