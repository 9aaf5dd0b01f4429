"""`with_memory(agent, bank)` and `with_memory(query_engine, bank)`."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.workflow import Workflow

from lorebank import Bank, UsageError
from lorebank.seams import BankResolver

T = TypeVar("T")


def with_memory(runnable: T, bank: Bank | BankResolver, *, session_id: str | None = None, **options: Any) -> T:
    """The same agent or query engine with a memory that outlives the conversation; the given one stays as it is.

    Setup:
        `pip install 'lorebank[llamaindex]'`

    Key init args:
        runnable: a `FunctionAgent`, `ReActAgent`, `CodeActAgent` or `AgentWorkflow`, or a query engine
        bank: a `Bank`, or `per_user(bank)` to give each run the bank of the user in its instrument tags
        session_id: one conversation for all runs; by default the one that the run's tags name (`thread_id`, `session_id`), else
            the own one of the memory that the agent was given
        options: of query engines; see `MemoryQueryEngine`

    Usage:
        `agent = with_memory(FunctionAgent(llm=llm, tools=tools), bank)`, then `await agent.run("...")` as before

    Agents: instructions and mental models begin the agent's own system prompt, memories stand ahead of the newest user message,
    in the model's copy only. One recall a run, however often the model is called in it, and each message is retained once. The
    messages themselves stay in the memory that the agent is given. A `Context` that is used again, or restored, keeps those of
    a `ChatMemoryBuffer`, which is the default; pass any other memory again, `memory=`. An agent that runs inside a tool of
    another one with the same bank is its sub-agent: it has tools, and nothing happens on its own. Memory that is down never
    breaks a run, unless the bank was opened with `on_failure="raise"`. Chat engines take `memory=BankMemory(bank)`.
    """
    if isinstance(runnable, BaseQueryEngine):
        from llamaindex_lorebank.query_engine import remembering as engine_with_memory

        return cast("T", engine_with_memory(runnable, bank, session_id=session_id, **options))
    if isinstance(runnable, BaseChatEngine):
        raise UsageError(
            f"`with_memory` can't reach into a {type(runnable).__name__}: make it with `memory=BankMemory(bank)`, and give its "
            "query engine, where it has one, `with_memory(query_engine, bank, retain=False)`"
        )
    if isinstance(runnable, Workflow):
        return cast("T", _agent(runnable, bank, session_id, options))
    raise UsageError(f"`with_memory` takes an agent or a query engine; found {type(runnable).__name__}")


def _agent(agent: Any, bank: Bank | BankResolver, session_id: str | None, options: dict[str, Any]) -> Any:
    from llama_index.core.agent.workflow import AgentWorkflow
    from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent

    from llamaindex_lorebank.agents import remembering as agent_with_memory

    if not isinstance(agent, (AgentWorkflow, BaseWorkflowAgent)):
        raise UsageError(f"`with_memory` takes an agent or an AgentWorkflow; a {type(agent).__name__} can use `BankMemory(bank)`")
    if options:
        raise UsageError(f"an agent's memory has no option {next(iter(options))!r}")
    given: Any = agent
    return agent_with_memory(given, bank, session_id=session_id)
