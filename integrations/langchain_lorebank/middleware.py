"""Memory for agents made with `create_agent`: recall before the model is called, retain after the agent."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from langchain_lorebank.injecting import placed
from langchain_lorebank.messages import to_messages
from langchain_lorebank.parents import as_parent, parent_of
from langchain_lorebank.runs import bank_of, config_of_run, observed_run, run_of
from langchain_lorebank.tools import memory_tools
from langchain_lorebank.tracing import traced
from lorebank import Bank, Injection, Session
from lorebank.seams import Alias, BankResolver, Offer, RunSessions, checked, offered, quiet


class MemoryMiddleware(AgentMiddleware[Any, Any]):
    """Gives an agent a memory that outlives the conversation.

    Setup:
        `pip install 'lorebank[langchain]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`context`, `configurable` or `metadata`)
        tools: `True` for the memory tools, or the names of some; by default memory works on its own only
        session_id: one conversation for all runs; by default the run's `thread_id`, else `metadata["session_id"]`
        prefix: goes before the tools' names
        name: tells two memories of one agent apart; by default made from the bank's name

    Instantiation:
        `create_agent(model, tools, middleware=[MemoryMiddleware(bank)])`

    Put it last in the list: others, such as `@dynamic_prompt`, replace the system message. Nothing of it gets into the agent's
    state, its streams or its checkpoints. A memory that is down never breaks the run, unless the bank was opened with
    `on_failure="raise"`.
    """

    def __init__(
        self,
        bank: Bank | BankResolver,
        *,
        tools: bool | Sequence[str] = False,
        session_id: str | None = None,
        prefix: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._bank = checked(bank)
        names = offered(None if tools is True else tools, self._bank) if tools else ()
        self.tools = memory_tools(self._bank, include=names, prefix=prefix) if names else []
        self._offer = Offer(tuple(names), prefix)
        self._sessions = RunSessions(session_id=session_id)
        self._name = name or _named(self._bank)

    @property
    def name(self) -> str:
        """The middleware's name in the graph."""
        return self._name

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Puts prefix and memories in front of this call."""
        session, config = self._session_of_run()
        with quiet(session, "before_turn"), traced(config):
            injection = session.before_turn(_said(request), run_id=observed_run(config), offer=self._offer)
            request = _injected(request, injection)
        return handler(request)

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]) -> Any:
        """Awaitable form of `wrap_model_call`."""
        session, config = self._session_of_run()
        with quiet(session, "before_turn"), traced(config):
            injection = await session.abefore_turn(_said(request), run_id=observed_run(config), offer=self._offer)
            request = _injected(request, injection)
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Lets an agent inside the tool know that it is a sub-agent."""
        with self._as_parent():
            return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Awaitable form of `wrap_tool_call`."""
        with self._as_parent():
            return await handler(request)

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Retains what is new."""
        del runtime
        session, config = self._session_of_run()
        with quiet(session, "after_turn"), traced(config):
            session.after_turn(to_messages(state["messages"]), run_id=observed_run(config))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Awaitable form of `after_agent`."""
        del runtime
        session, config = self._session_of_run()
        with quiet(session, "after_turn"), traced(config):
            await session.aafter_turn(to_messages(state["messages"]), run_id=observed_run(config))

    def _session_of_run(self) -> tuple[Session | Alias, RunnableConfig | None]:
        config = config_of_run()
        bank = bank_of(self._bank, config)
        return parent_of(bank) or self._sessions.of(bank, run_of(config)), config

    @contextmanager
    def _as_parent(self) -> Iterator[None]:
        session, config = self._session_of_run()
        if isinstance(session, Alias):
            yield
        else:
            with as_parent(bank_of(self._bank, config), session):
                yield


def _named(bank: Bank | BankResolver) -> str:
    """A name that two memories of one agent don't share, of what a graph's names may hold."""
    home = getattr(bank, "name", None) or getattr(bank, "key", "")
    return f"MemoryMiddleware-{re.sub(r'[^A-Za-z0-9_.-]+', '-', str(home))}"


def _said(request: ModelRequest[Any]) -> list[Any]:
    """The conversation as the agent's state has it: whatever was cut from this call was said all the same."""
    messages: Sequence[BaseMessage] = request.state.get("messages") or request.messages
    return list(to_messages(messages))


def _injected(request: ModelRequest[Any], injection: Injection) -> ModelRequest[Any]:
    if not injection:
        return request
    system, messages = placed(request.system_message, request.messages, injection)
    return request.override(system_message=system, messages=cast("list[AnyMessage]", messages))
