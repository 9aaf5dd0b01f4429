"""The demo's second process: a new LangChain agent and a LlamaIndex query engine answer from memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lorebank import Bank, RecallResult
from lorebank.cli.conversation import Question
from lorebank.cli.demo import Home
from lorebank.cli.models import PROMPT, chat_model, engine_model

console = Console()
Answerer = Callable[[str], str]


def run_answers(home: Home, questions: Path) -> None:
    """Answers each question twice and shows what was recalled and why."""
    asked = [Question.model_validate(each) for each in json.loads(questions.read_text(encoding="utf-8"))]
    console.rule(f"Second process ({os.getpid()}): a new agent and a query engine answer from memory")
    with home.open() as bank:
        agent, engine = _agent(bank), _engine(bank)
        found = [_show(question, bank, agent, engine) for question in asked]
    if judged := [hit for hit in found if hit is not None]:
        console.print(
            f"[bold]An evidence message is among the first 8 memories for {sum(judged)} of {len(judged)} questions.[/bold]",
            highlight=False,
        )


def _agent(bank: Bank) -> Answerer:
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage

    from langchain_lorebank import memory_tools

    agent = create_agent(chat_model(), tools=memory_tools(bank), system_prompt=PROMPT)
    return lambda question: str(agent.invoke({"messages": [HumanMessage(question)]})["messages"][-1].text)


def _engine(bank: Bank) -> Answerer:
    from llama_index.core.query_engine import RetrieverQueryEngine

    from llamaindex_lorebank import BankRetriever

    engine = RetrieverQueryEngine.from_args(BankRetriever(bank), llm=engine_model())
    return lambda question: str(engine.query(question))


def _show(question: Question, bank: Bank, agent: Answerer, engine: Answerer) -> bool | None:
    """Prints one question; says whether its evidence was recalled, where that is known."""
    text = question.question
    console.print(f"\n[bold cyan]{escape(text)}[/bold cyan]", highlight=False)
    console.print(f"  LangChain agent:          {escape(agent(text))}", highlight=False)
    console.print(f"  LlamaIndex query engine:  {escape(engine(text))}", highlight=False)
    result = bank.explain(text)
    _why(result, question)
    if not question.evidence:
        return None
    return any(memory.metadata.get("turn") in question.evidence for memory in result)


def _why(result: RecallResult, question: Question) -> None:
    trace = result.trace
    if trace is None or not result:
        share = ""
        if trace is not None and trace.floor > 0:
            share = f" ({trace.evidence:.0%} of the question is answered, {trace.floor:.0%} are needed)"
        console.print(f"  [dim]nothing recalled{share}[/dim]", highlight=False)
        return
    table = Table("score", "recalled", "why", box=None, padding=(0, 1), pad_edge=True)
    for memory in result:
        signals = ", ".join(f"{name} {value:+.2f}" for name, value in (memory.signals or {}).items() if abs(value) >= 0.01)
        mark = " [green]evidence[/green]" if memory.metadata.get("turn") in question.evidence else ""
        table.add_row(f"{memory.score:.2f}", escape(memory.text) + mark, f"[dim]{signals}[/dim]")
    console.print(table)
