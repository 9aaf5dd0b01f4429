"""What the integrations add to what sessions take.

    python benchmarks/integrations.py [--turns 200] [--json OUT]

Wall time in one process, sides in turns. A turn of a host with memory stands beside the same turn without, plus the session's own
`before_turn` and `after_turn` of the same messages; what is left is the integration's. A handler's event is timed by itself. An
import is a process of its own, CPU time, beside one that imports the framework's names that the module needs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corpus import progress, save, table, versions
from hindsight import at, timed
from lorebank import Bank, Message, open_bank

TEXT = "We decided to move release {} to Thursday, since the review of the migration plan takes longer than Ana had hoped."
ANSWER = "Noted and told to everybody on the team, nobody has objected so far."
ADDED, EVENT, IMPORT = 3.0, 0.5, 1.1
"""Milliseconds beyond the session at p95, milliseconds of an event at p95, and how much longer an import may take."""
IMPORTS = {
    "langchain_lorebank.tools": (
        "from langchain_core.runnables import RunnableConfig\n"
        "from langchain_core.tools import BaseTool, BaseToolkit, ToolException\n"
        "from langchain_core.messages import BaseMessage, convert_to_messages\n"
        "from pydantic import BaseModel, ConfigDict, Field"
    ),
    "llamaindex_lorebank.memory": (
        "from llama_index.core.memory import BaseMemory, ChatMemoryBuffer\n"
        "from llama_index.core.base.llms.types import ChatMessage"
    ),
    "llamaindex_lorebank.query_engine": "from llama_index.core.base.base_query_engine import BaseQueryEngine",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure: seconds of each call, beside a baseline's where there is one, and what is wanted of it."""

    name: str
    figure: float
    unit: str
    wanted: float
    ours: list[float]
    theirs: list[float] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        cells = [f"{statistics.median(each) * 1000:.2f}" if each else "-" for each in (self.ours, self.theirs)]
        met = "yes" if self.figure <= self.wanted else "NO"
        return (self.name, *cells, f"{self.figure:.2f} {self.unit}", f"<= {self.wanted:g}", met)


def langchain_agent(bank: Bank, turns: int) -> Iterator[Measured]:
    """`MemoryMiddleware`, blocking and awaited."""
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage

    from langchain_lorebank import MemoryMiddleware
    from langchain_lorebank.testing import ScriptedChatModel

    def agent(**options: Any) -> Any:
        return create_agent(ScriptedChatModel(script=[lambda _: ANSWER], repeat=True), **options)

    with_memory, without = agent(middleware=[MemoryMiddleware(bank)]), agent()
    for how in ("invoke", "ainvoke"):
        thread = {"configurable": {"thread_id": how}}

        def run(target: Any, text: str, how: str = how, thread: dict[str, Any] = thread) -> None:
            given = {"messages": [HumanMessage(text)]}
            asyncio.run(target.ainvoke(given, thread)) if how == "ainvoke" else target.invoke(given, thread)

        yield beyond(
            f"`MemoryMiddleware`, {how}", turns, bank, how, lambda text: run(with_memory, text), lambda text: run(without, text)
        )


def llamaindex_engine(bank: Bank, turns: int) -> Iterator[Measured]:
    """`BankMemory` in a chat engine, blocking and awaited."""
    from llama_index.core.chat_engine import SimpleChatEngine
    from llama_index.core.memory import ChatMemoryBuffer

    from llamaindex_lorebank import BankMemory
    from llamaindex_lorebank.testing import ScriptedLLM

    llm = ScriptedLLM(answer=lambda _: ANSWER)
    for how in ("chat", "achat"):

        def run(text: str, memory: Any, how: str = how) -> None:
            engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)
            asyncio.run(engine.achat(text)) if how == "achat" else engine.chat(text)

        def ours(text: str, how: str = how) -> None:
            run(text, BankMemory(bank, f"llama-{how}"))

        yield beyond(f"`BankMemory`, {how}", turns, bank, how, ours, lambda text: run(text, ChatMemoryBuffer.from_defaults()))


def beyond(name: str, turns: int, bank: Bank, session: str, ours: Callable[[str], None], bare: Callable[[str], None]) -> Measured:
    """How long a turn takes beyond the bare turn and the session's own part."""
    added: list[float] = []
    alone: list[float] = []
    for number in range(turns + 20):
        progress(f"{name}: {number} of {turns}")
        text = TEXT.format(number)
        whole, without = timed(lambda text=text: ours(text)), timed(lambda text=text: bare(text))  # type: ignore[misc]
        part = timed(lambda text=text: by_hand(bank, f"hand-{session}", text))  # type: ignore[misc]
        if number >= 20:
            added.append(whole - without - part)
            alone.append(part)
    return Measured(name, at(added, 0.95) * 1000, "ms beyond, p95", ADDED, added, alone)


def by_hand(bank: Bank, session: str, text: str) -> None:
    """The session's part of a turn."""
    with bank.session(session) as live:
        said = [Message("user", text)]
        live.before_turn(said)
        live.after_turn([*said, Message("assistant", ANSWER)])


def handler(bank: Bank, turns: int) -> Measured:
    """Every event of `MemoryCallbackHandler` in a chain of three steps, in the thread of the run."""
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    from langchain_lorebank import MemoryCallbackHandler
    from langchain_lorebank.testing import ScriptedChatModel

    times: list[float] = []

    class Timed(MemoryCallbackHandler):
        """Notes how long each event takes."""

    def noted(name: str) -> Callable[..., Any]:
        event = getattr(MemoryCallbackHandler, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result: list[Any] = []
            times.append(timed(lambda: result.append(event(self, *args, **kwargs))))
            return result[0]

        return call

    for name in vars(MemoryCallbackHandler):
        if name.startswith("on_"):
            setattr(Timed, name, noted(name))
    heard = Timed(bank, session_id="events")
    model = ScriptedChatModel(script=[lambda _: ANSWER], repeat=True)
    chain = ChatPromptTemplate.from_messages([("human", "{question}")]) | model | StrOutputParser()
    for number in range(turns + 20):
        progress(f"handler: {number} of {turns}")
        if number == 20:
            times.clear()
        chain.invoke({"question": TEXT.format(number)}, {"callbacks": [heard]})
        heard.flush(10)
    return Measured("`MemoryCallbackHandler`, an event", at(times, 0.95) * 1000, "ms, p95", EVENT, times)


def imports(rounds: int = 10) -> Iterator[Measured]:
    """Importing a module beside importing what it needs of its framework."""
    for module, needed in IMPORTS.items():
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            progress(f"import of {module}: {number} of {rounds}")
            for code, taken in zip((f"import {module}", needed), times, strict=True):
                taken.append(cpu_of(code))
        ratio = statistics.median(times[0]) / statistics.median(times[1])
        yield Measured(f"`import {module}`", ratio, "x", IMPORT, *times)


def cpu_of(code: str) -> float:
    """CPU seconds of a process that runs some code."""
    told = "import resource\nused = resource.getrusage(resource.RUSAGE_SELF)\nprint(used.ru_utime + used.ru_stime)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{told}"], check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of the integrations; see benchmarks/README.md.")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--json", type=Path, metavar="OUT", help="save the raw rows")
    arguments = parser.parse_args()
    measured: list[Measured] = list(imports())
    parts: Sequence[Callable[[Bank, int], Iterator[Measured]]] = (
        langchain_agent,
        llamaindex_engine,
        lambda *given: iter([handler(*given)]),
    )
    with tempfile.TemporaryDirectory(prefix="lorebank-bench-", dir=Path.cwd()) as name:
        for number, part in enumerate(parts):
            with open_bank(f"sqlite:///{Path(name) / f'{number}.db'}", bank="bench") as bank:
                bank.retain([TEXT.format(number) for number in range(200)])
                gc.collect()
                measured += part(bank, arguments.turns)
    progress("")
    heads = ("measure", "p50, ms", "baseline p50", "figure", "target", "met")
    print(table(heads, [each.row() for each in measured]))
    if arguments.json:
        save(arguments.json, {"versions": versions(), "rows": [asdict(each) for each in measured]})


if __name__ == "__main__":
    main()
