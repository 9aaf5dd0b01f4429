"""Chains of every shape, run in every way, for the tests of memory in chains."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langsmith import Client, traceable
from langsmith.run_helpers import tracing_context

from langchain_lorebank import with_memory
from langchain_lorebank.testing import StrictChatModel

MODES = ("invoke", "ainvoke", "stream", "astream", "batch", "abatch", "astream_events")
KNOWN = "Ana prefers aisle seats."
ASKED = "Which seats does Ana prefer when flying?"
ANSWER = "Row twelve is booked then."
MARKS = ("<memories>", "<mental_models>", "long-term memory")
"""What only the model may see."""
Mode = str
Wrap = Callable[[Runnable[Any, Any]], Runnable[Any, Any]]


def model() -> StrictChatModel:
    """A model that gives one answer for ever."""
    return StrictChatModel(script=[ANSWER], repeat=True)


def prompt() -> ChatPromptTemplate:
    return ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{question}")])


async def run(chain: Runnable[Any, Any], value: Any, mode: Mode, config: Any = None, events: list[Any] | None = None) -> Any:
    """The chain's output, whichever way it is run; `events` takes those of `astream_events`."""
    told = [] if events is None else events
    match mode:
        case "invoke":
            given = chain.invoke(value, config)
        case "ainvoke":
            given = await chain.ainvoke(value, config)
        case "stream":
            given = _joined(list(chain.stream(value, config)))
        case "astream":
            given = _joined([chunk async for chunk in chain.astream(value, config)])
        case "batch":
            [given] = chain.batch([value], config)
        case "abatch":
            [given] = await chain.abatch([value], config)
        case _:
            told += [event async for event in chain.astream_events(value, config)]
            given = told[-1]["data"]["output"]
    return given


def _joined(chunks: list[Any]) -> Any:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk if isinstance(whole, str) else _merged(whole, chunk)
    return whole


def _merged(whole: Any, chunk: Any) -> Any:
    return whole + chunk if not isinstance(whole, dict) or hasattr(whole, "__add__") else {**whole, **chunk}


@dataclass
class Case:
    """A chain with memory, its model, what it is asked, what it gives, and a history that it stores."""

    chain: Runnable[Any, Any]
    model: StrictChatModel
    value: Any
    output: Any
    calls: int = 1
    history: InMemoryChatMessageHistory | None = None
    config: dict[str, Any] = field(default_factory=dict)


def plain(wrap: Wrap) -> Case:
    """prompt | model | parser."""
    fake = model()
    return Case(wrap(prompt() | fake | StrOutputParser()), fake, {"question": ASKED}, ANSWER)


def nested(wrap: Wrap) -> Case:
    """Sequences, bindings, retries and fallbacks in each other."""
    fake, spare = model(), model()
    inner = (fake.bind(stop=["!"]).with_retry().with_config(tags=["x"]).with_fallbacks([spare]) | StrOutputParser()).with_config(
        run_name="inner"
    )
    step = RunnablePassthrough.assign(other=lambda _: "x")
    return Case(wrap(step | (prompt() | inner).with_config(run_name="outer")), fake, {"question": ASKED}, ANSWER)


def parallel(wrap: Wrap) -> Case:
    """Two branches, each with the model."""
    fake = model()
    branches = RunnableParallel(answer=prompt() | fake | StrOutputParser(), second=prompt() | fake | StrOutputParser())
    return Case(wrap(branches), fake, {"question": ASKED}, {"answer": ANSWER, "second": ANSWER}, calls=2)


def with_history(wrap: Wrap, *, outside: bool) -> Case:
    """A chain whose history is stored, with the memory outside or inside."""
    fake = model()
    messages = [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
    chain: Any = ChatPromptTemplate.from_messages(messages) | fake | StrOutputParser()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        history = InMemoryChatMessageHistory()
        whole: Any = RunnableWithMessageHistory(
            chain if outside else wrap(chain),
            lambda session_id: history,
            input_messages_key="question",
            history_messages_key="history",
        )
    config = {"configurable": {"session_id": "s"}}
    return Case(wrap(whole) if outside else whole, fake, {"question": ASKED}, ANSWER, history=history, config=config)


def embedded(wrap: Wrap) -> Case:
    """A chain with memory as a step of a bigger one that has none."""
    fake = model()
    inner = wrap(prompt() | fake | StrOutputParser())
    whole = RunnableLambda(str.strip) | {"question": RunnablePassthrough()} | inner | RunnableLambda(str.upper)
    return Case(whole, fake, f" {ASKED} ", ANSWER.upper())


SHAPES: dict[str, Callable[[Wrap], Case]] = {
    "plain": plain,
    "nested": nested,
    "parallel": parallel,
    "history around": lambda wrap: with_history(wrap, outside=False),
    "history inside": lambda wrap: with_history(wrap, outside=True),
    "embedded": embedded,
    "traced": plain,
}


@dataclass
class Made:
    """Wraps a chain, and keeps the result, whose handler can be waited for."""

    bank: Any
    options: dict[str, Any] = field(default_factory=dict)
    made: list[Any] = field(default_factory=list)

    def __call__(self, chain: Runnable[Any, Any]) -> Runnable[Any, Any]:
        self.made.append(with_memory(chain, self.bank, **self.options))
        return self.made[-1]

    def flush(self) -> None:
        assert all(each.handler.flush(10) for each in self.made)


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """LangSmith's tracing is on, to a client that sends nothing; gives its `traceable`."""
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_API_KEY", "none")
    client = Client(api_url="http://127.0.0.1:9", api_key="none", session=MagicMock(), auto_batch_tracing=False)
    with tracing_context(enabled=True, client=client):
        yield traceable(client=client)


async def run_traced(monkeypatch: pytest.MonkeyPatch, *args: Any, **kwargs: Any) -> Any:
    """As `run`, inside a traced function."""
    with traced(monkeypatch) as decorator:
        return await decorator(lambda: run(*args, **kwargs))()


def told(messages: list[BaseMessage]) -> str:
    """All that a model saw, as text."""
    return "\n".join(str(each.text) for each in messages)


def no_marks(value: Any) -> bool:
    """Whether nothing of ours is in there."""
    return not any(mark in repr(value) for mark in MARKS)
