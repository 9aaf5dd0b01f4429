"""For those who come from `hindsight-langgraph`: its four factories with its arguments, on lorebank's engine.

    from langchain_lorebank.compat import create_hindsight_tools

What differs: everything works blocking, too; writes go through the outbox and are never lost; a memory that is down does not
break a graph, unless the bank was opened with `on_failure="raise"`; what was recalled is fenced. `client` is a bank
(`open_bank()`). `hindsight_api_url` may also be a `sqlite:///` file; without one, `LOREBANK_URL` and `HINDSIGHT_API_URL` are
tried, and no hosted service is called that was not named. What has no meaning here is a `UsageError` that says what to use.

New code has better with `memory_tools`, `MemoryMiddleware`, `recall_node` and `retain_node`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from langchain_lorebank.messages import OURS, is_user, to_message
from langchain_lorebank.runs import bank_of, run_of
from lorebank import Bank, LorebankError, Memory, UsageError, per_user
from lorebank.seams import (
    MATRIX,
    BankResolver,
    Keep,
    MemoryTools,
    Places,
    RunSessions,
    Skipped,
    ToolFailure,
    ToolName,
    checked_client,
    given,
    numbered,
    project,
    refuse_meaningless,
    render_memories,
)

__all__ = ["create_hindsight_tools", "create_recall_node", "create_retain_node", "memory_instructions"]

logger = logging.getLogger("lorebank")
CONTEXT_ID = "hindsight_memory_context"
"""The id of the message with memories: the official package's, since applications look for it."""
NOTHING = "No relevant memories found."
_ABOUT: dict[ToolName, str] = {
    "retain": "Keeps a fact, a preference or a decision for later conversations. One self-contained statement a call.",
    "recall": "Looks up what is remembered. Gives a numbered list, best first.",
    "reflect": "Answers a broad question from many memories at once.",
}
_sessions = RunSessions()
_places = Places()


def create_hindsight_tools(
    *,
    bank_id: str | None = None,
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
    recall_types: list[str] | None = None,
    recall_include_entities: bool = False,
    bank_id_from_config: str = "user_id",
    reflect_context: str | None = None,
    reflect_max_tokens: int | None = None,
    reflect_response_schema: dict[str, Any] | None = None,
    reflect_tags: list[str] | None = None,
    reflect_tags_match: str | None = None,
    include_retain: bool = True,
    include_recall: bool = True,
    include_reflect: bool = True,
) -> list[BaseTool]:
    """`hindsight_retain(content)`, `hindsight_recall(query)` and `hindsight_reflect(query)` as tools.

    `bank_id` fixes the bank; without it each run's `bank_id_from_config` names it (`context`, `configurable` or `metadata`).
    `budget` ("mid") and `max_tokens` (4,096) bound a recall, `tags` go on writes, `recall_tags` and `reflect_tags` narrow reads.

    >>> from lorebank.testing import temporary_bank
    >>> with temporary_bank() as bank:
    ...     [tool.name for tool in create_hindsight_tools(bank_id="ana", client=bank, include_reflect=False)]
    ['hindsight_retain', 'hindsight_recall']
    """
    refuse_meaningless(entities=recall_include_entities, reflect_max_tokens=reflect_max_tokens)
    bank = _bank(client, hindsight_api_url, api_key, bank_id, bank_id_from_config)
    match = recall_tags_match or "any"
    asked = _Asked(budget or "mid", max_tokens or 4096, None, recall_types or None, _tags(recall_tags), match)
    narrowed = asked.tags if reflect_tags is None else _tags(reflect_tags)
    reflected = given(context=reflect_context, budget=asked.budget, response_schema=reflect_response_schema, tags=narrowed)
    reflected |= {"tags_match": reflect_tags_match or match} if narrowed else {}
    written = given(tags=tags, metadata=retain_metadata, document_id=retain_document_id)
    tools = [
        (include_retain, _retain_tool(bank, written)),
        (include_recall, _reading_tool(bank, "recall", lambda own, query: numbered(asked.memories(own, query)))),
        (include_reflect, _reading_tool(bank, "reflect", lambda own, query: own.reflect(query, **reflected).text.strip())),
    ]
    return [tool for included, tool in tools if included]


def create_recall_node(
    *,
    bank_id: str | None = None,
    client: Bank | None = None,
    hindsight_api_url: str | None = None,
    api_key: str | None = None,
    budget: str = "mid",
    max_tokens: int = 4096,
    max_results: int = 10,
    tags: list[str] | None = None,
    tags_match: str = "any",
    recall_types: list[str] | None = None,
    recall_include_entities: bool = False,
    bank_id_from_config: str = "user_id",
    output_key: str | None = None,
) -> RunnableLambda[Any, dict[str, Any]]:
    """A node that recalls for the newest user message.

    With `output_key` the node writes text (or `None`) under that key. Without it a system message goes behind the other
    messages, and into the checkpoints: prefer `output_key`, or `recall_node`. A run that names no bank gets no memories, and a
    warning.
    """
    refuse_meaningless(entities=recall_include_entities)
    bank = _bank(client, hindsight_api_url, api_key, bank_id, bank_id_from_config)
    asked = _Asked(budget, max_tokens, max_results, recall_types or None, _tags(tags), tags_match)

    def recall(state: Any, config: RunnableConfig) -> dict[str, Any]:
        messages, own = _messages_of(state), _own(bank, config, "recall")
        query = next((str(message.text) for message in reversed(messages) if is_user(message)), "")
        found: Sequence[Memory] = ()
        if own is not None and query.strip() and _lets(own, config, "recall"):
            with _guarded(own, "recall"):
                found = asked.memories(own, query)
        return _written(messages, render_memories(found), output_key)

    return _Node(recall, _awaited(recall, bank), name="recall")


def create_retain_node(
    *,
    bank_id: str | None = None,
    client: Bank | None = None,
    hindsight_api_url: str | None = None,
    api_key: str | None = None,
    tags: list[str] | None = None,
    metadata: dict[str, str] | None = None,
    document_id: str | None = None,
    bank_id_from_config: str = "user_id",
    retain_human: bool = True,
    retain_ai: bool = False,
) -> RunnableLambda[Any, dict[str, Any]]:
    """A node that saves the newest user message (`retain_human`), the newest answer (`retain_ai`), or both.

    A message that comes again replaces itself. `retain_node` saves whole conversations. A run that names no bank saves
    nothing, and leaves a warning.
    """
    bank = _bank(client, hindsight_api_url, api_key, bank_id, bank_id_from_config)
    written = given(tags=tags, metadata=metadata, document_id=document_id)

    def retain(state: Any, config: RunnableConfig) -> dict[str, Any]:
        items = _items(_messages_of(state), written, human=retain_human, ai=retain_ai)
        own = _own(bank, config, "retain") if items else None
        if own is not None and _lets(own, config, "retain"):
            with _guarded(own, "retain"):
                own.retain(items)
        return {"messages": []}

    return _Node(retain, _awaited(retain, bank), name="retain")


def memory_instructions(
    *,
    bank_id: str,
    base_instructions: str = "",
    client: Bank | None = None,
    hindsight_api_url: str | None = None,
    api_key: str | None = None,
    query: str = "relevant context about the user",
    budget: str | None = None,
    max_results: int = 5,
    max_tokens: int | None = None,
    prefix: str = "\n\nRelevant memories:\n",
    tags: list[str] | None = None,
    tags_match: str | None = None,
) -> Callable[..., Awaitable[str]]:
    """An awaitable function that gives `base_instructions`, then `prefix` and a numbered list of what `query` recalls.

    Where nothing is known, or memory is down, it gives the instructions alone. For instructions that keep a provider's prompt
    cache, see `memory_prefix`.
    """
    bank = _bank(client, hindsight_api_url, api_key, bank_id, "user_id")
    asked = _Asked(budget or "mid", max_tokens or 4096, max_results, None, _tags(tags), tags_match or "any")

    async def written(*_args: Any, **_kwargs: Any) -> str:
        own, lines = bank_of(bank, None), ""
        with _guarded(own, "recall", quiet=True):
            lines = numbered(await own.threads.run(lambda: asked.memories(own, query)))
        return base_instructions + prefix + lines if lines else base_instructions

    return written


@dataclass(frozen=True, slots=True)
class _Asked:
    """How a recall is bounded and narrowed."""

    budget: str
    max_tokens: int
    limit: int | None = None
    types: Sequence[str] | None = None
    tags: tuple[str, ...] | None = None
    tags_match: str = "any"

    def memories(self, bank: Bank, query: str) -> tuple[Memory, ...]:
        narrowed = given(tags=self.tags, tags_match=self.tags_match if self.tags else None)
        bounds = given(limit=self.limit, types=self.types, max_tokens=self.max_tokens, budget=self.budget)
        return tuple(bank.recall(query, **bounds, **narrowed))


class _Node(RunnableLambda[Any, Any]):
    """A node that can also be awaited as a function of a state, as those of the official package are."""

    async def __call__(self, state: Any, config: RunnableConfig | None = None) -> Any:
        return await self.ainvoke(state, config)


def _retain_tool(bank: Bank | BankResolver, written: Mapping[str, Any]) -> BaseTool:
    def retain(content: str, config: RunnableConfig) -> str:
        own = bank_of(bank, config)
        tools = MemoryTools(own, session=lambda: _sessions.named(own, run_of(config)))
        try:
            return tools.retain([{"content": content, **written}]).text
        except ToolFailure as failure:
            raise ToolException(str(failure)) from failure

    return _tool("hindsight_retain", _ABOUT["retain"], retain, bank)


def _reading_tool(bank: Bank | BankResolver, verb: ToolName, read: Callable[[Bank, str], str]) -> BaseTool:
    def ask(query: str, config: RunnableConfig) -> str:
        own = bank_of(bank, config)
        with _told(own, config, verb):
            return read(own, query) or NOTHING

    return _tool(f"hindsight_{verb}", _ABOUT[verb], ask, bank)


def _tool(name: str, about: str, body: Callable[..., str], bank: Bank | BankResolver) -> BaseTool:
    async def awaited(config: RunnableConfig, **arguments: Any) -> str:
        own = bank_of(bank, config)
        return await own.threads.run(lambda: body(**arguments, config=config))

    tool = StructuredTool.from_function(body, name=name, description=about, handle_tool_error=True)
    tool.coroutine = awaited
    return tool


def _awaited(body: Callable[[Any, RunnableConfig], dict[str, Any]], bank: Bank | BankResolver) -> Callable[..., Awaitable[Any]]:
    """A node's body on the bank's own threads."""

    async def run(state: Any, config: RunnableConfig) -> dict[str, Any]:
        own = _own(bank, config, None)
        return body(state, config) if own is None else await own.threads.run(lambda: body(state, config))

    return run


def _bank(client: object, url: str | None, key: str | None, bank_id: str | None, from_config: str) -> Bank | BankResolver:
    """The bank of the given id, or each run's."""
    base = _places.opened(url, key) if client is None else checked_client(client)
    return per_user(base, from_config) if bank_id is None else base.named(bank_id)


def _own(bank: Bank | BankResolver, config: RunnableConfig, verb: str | None) -> Bank | None:
    """The bank of a run; `None`, with a warning, where the run names none."""
    key = getattr(bank, "key", None)
    if key is not None and not run_of(config).get(key):
        if verb is not None:
            logger.warning("%s was left out: the run has no %r in config['configurable']", verb, key)
        return None
    return bank_of(bank, config)


def _lets(bank: Bank, config: RunnableConfig, verb: str) -> bool:
    """Whether the mode of the run's session lets it happen on its own."""
    session = _sessions.named(bank, run_of(config))
    permits = MATRIX["normal" if session is None else session.mode]
    return permits.recall if verb == "recall" else permits.retain and (session is None or session.retain_enabled)


@contextmanager
def _guarded(bank: Bank, verb: str, *, quiet: bool = False) -> Iterator[None]:
    """A failure of memory is told as an event; it is raised where the application wants that, unless `quiet`."""
    try:
        yield
    except LorebankError as error:
        connections = bank.connections
        connections.tell(Skipped(bank.scope.bank, verb, type(error).__name__))
        logger.warning("%s on bank %s failed: %s", verb, bank.name, type(error).__name__)
        if connections.on_failure == "raise" and not quiet:
            raise


@contextmanager
def _told(bank: Bank, config: RunnableConfig, verb: ToolName) -> Iterator[None]:
    """What a tool may not or could not do is told to the model."""
    session = _sessions.named(bank, run_of(config))
    if session is not None and (refused := session.refusal(verb)) is not None:
        raise ToolException(refused)
    with _guarded(bank, verb):
        yield
        return
    raise ToolException(f"{verb} could not be done. This does not mean that nothing is known.")


def _written(messages: Sequence[BaseMessage], text: str, output_key: str | None) -> dict[str, Any]:
    """A node's update. The message of an earlier turn gives way."""
    if output_key:
        return {output_key: text or None}
    if text:
        return {"messages": [SystemMessage(text, id=CONTEXT_ID, additional_kwargs={OURS: True})]}
    return {"messages": [RemoveMessage(CONTEXT_ID)] if any(m.id == CONTEXT_ID for m in messages) else []}


def _items(messages: Sequence[BaseMessage], written: Mapping[str, Any], *, human: bool, ai: bool) -> list[dict[str, Any]]:
    """The newest of each kind as items; a document of its own for each lets it replace itself."""
    newest = [
        next((message for message in reversed(messages) if human and is_user(message)), None),
        next((message for message in reversed(messages) if ai and isinstance(message, AIMessage)), None),
    ]
    items: list[dict[str, Any]] = []
    for message in filter(None, newest):
        neutral = to_message(message)
        text = None if neutral is None else project(neutral, Keep(tool_calls=False))
        own = {"document_id": f"message:{message.id}", "update_mode": "replace"} if message.id else {}
        if neutral is not None and text is not None:
            items.append({"content": text, "speaker": neutral.role, **({} if "document_id" in written else own), **written})
    return items


def _messages_of(state: Any) -> list[BaseMessage]:
    found = state.get("messages", ()) if isinstance(state, Mapping) else getattr(state, "messages", ())
    return convert_to_messages(found)


def _tags(tags: object) -> tuple[str, ...] | None:
    """Tags that narrow what is read. An empty list is a mistake: it would read everything."""
    if tags is None:
        return None
    if isinstance(tags, str) or not isinstance(tags, Sequence) or not tags:
        raise UsageError(f"tags to read by must be a list with at least one tag, or left out; found {tags!r}")
    return tuple(tags)
