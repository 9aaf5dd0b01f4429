"""Memory for hand-written `StateGraph`s: a node that recalls and one that retains.

`recall_node` writes what belongs in front of the model under the key `lorebank`. The key is untracked: it lives for the run
and never gets into a checkpoint. After an interrupt it is gone, so let the run pass `recall_node` again on its way to the
model; that asks for nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from langchain_lorebank.messages import OURS, to_messages
from langchain_lorebank.parents import parent_of
from langchain_lorebank.runs import bank_of, observed_run, run_of
from langchain_lorebank.tracing import traced
from lorebank import Bank, Injection, Message, Session, UsageError
from lorebank.seams import Alias, BankResolver, RunSessions, checked, quiet

_READ = "__pregel_read"
"""Where LangGraph puts the function that reads a run's state."""


class LorebankState(TypedDict):
    """The state that `recall_node` needs: `class State(MessagesState, LorebankState): ...`.

    `StateGraph(State, output_schema=MessagesState)` keeps the key out of the graph's result, too.
    """

    lorebank: NotRequired[Annotated[Injection, UntrackedValue]]


def recall_node(
    bank: Bank | BankResolver, *, session_id: str | None = None, messages_key: str = "messages"
) -> Runnable[Any, dict[str, Injection]]:
    """A node that recalls for the newest user message, to go before the model. Blocking and async.

    Setup:
        `pip install 'lorebank[langchain]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`context`, `configurable` or `metadata`)
        session_id: one conversation for all runs; by default the run's `thread_id`, else `metadata["session_id"]`
        messages_key: where the state has its messages

    Instantiation:
        `graph.add_node("recall", recall_node(bank))`

    It returns `{"lorebank": Injection}`; `with_memory(model)` puts that in front of the model. The user's words are kept from
    here on, whatever happens next. Without the key in its schema a graph raises `UsageError`: see `LorebankState`.
    """
    sessions, given = RunSessions(session_id=session_id), checked(bank)

    def recall(state: Any, config: RunnableConfig) -> dict[str, Injection]:
        _check_schema(config)
        said, session, injection = _said(state, messages_key), _session(sessions, given, config), Injection()
        with quiet(session, "before_turn"), traced(config):
            injection = session.before_turn(said, run_id=observed_run(config))
        return {OURS: injection}

    async def arecall(state: Any, config: RunnableConfig) -> dict[str, Injection]:
        _check_schema(config)
        said, session, injection = _said(state, messages_key), _session(sessions, given, config), Injection()
        with quiet(session, "before_turn"), traced(config):
            injection = await session.abefore_turn(said, run_id=observed_run(config))
        return {OURS: injection}

    return RunnableLambda(recall, arecall, name="recall")


def retain_node(
    bank: Bank | BankResolver, *, session_id: str | None = None, messages_key: str = "messages"
) -> Runnable[Any, None]:
    """A node that retains what is new in the conversation, to go after the model. Blocking and async.

    Setup:
        `pip install 'lorebank[langchain]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`context`, `configurable` or `metadata`)
        session_id: one conversation for all runs; by default the run's `thread_id`, else `metadata["session_id"]`
        messages_key: where the state has its messages

    Instantiation:
        `graph.add_node("retain", retain_node(bank))`

    It writes nothing to the state and never waits for the network. A message that comes again, because a checkpoint was replayed
    or a run resumed, is retained once.
    """
    sessions, given = RunSessions(session_id=session_id), checked(bank)

    def retain(state: Any, config: RunnableConfig) -> None:
        said, session = _said(state, messages_key), _session(sessions, given, config)
        with quiet(session, "after_turn"), traced(config):
            session.after_turn(said, run_id=observed_run(config))

    async def aretain(state: Any, config: RunnableConfig) -> None:
        said, session = _said(state, messages_key), _session(sessions, given, config)
        with quiet(session, "after_turn"), traced(config):
            await session.aafter_turn(said, run_id=observed_run(config))

    return RunnableLambda(retain, aretain, name="retain")


def _session(sessions: RunSessions, given: Bank | BankResolver, config: RunnableConfig) -> Session | Alias:
    """The session of a run; in an agent's tool the agent's own, as a sub-agent has it."""
    bank = bank_of(given, config)
    return parent_of(bank) or sessions.of(bank, run_of(config))


def _said(state: Any, key: str) -> list[Message]:
    """The conversation in a graph's state, whatever the state is made of."""
    found = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    if found is None:
        raise UsageError(f"the graph's state has no {key!r}: name its messages, such as messages_key='chat'")
    return to_messages(convert_to_messages(found))


def _check_schema(config: RunnableConfig) -> None:
    """Whether the graph has the key; LangGraph drops writes to unknown ones without a word."""
    read = config.get("configurable", {}).get(_READ)
    if read is None:  # called outside a graph
        return
    try:
        read([OURS])
    except KeyError:
        raise UsageError(
            f"the graph's state has no key {OURS!r}, so what recall_node writes would be lost: "
            "make it class State(MessagesState, LorebankState), with LorebankState from langchain_lorebank"
        ) from None
