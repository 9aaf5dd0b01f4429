"""The fences of the README and of the pages on sessions, exports and both frameworks run as they stand."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

from langchain_lorebank.testing import ScriptedChatModel, call
from llamaindex_lorebank.testing import StrictLLM
from lorebank.testing import FaultServer

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            *("index", "concepts", "backends", "scoping", "operations", "security"),
            *("sessions", "langchain", "llamaindex", "mnemopi", "export", "audit"),
        )
    ),
]
PYTHON = [example for example in find_examples(*PAGES) if example.prefix == "python"]


@pytest.fixture
def model() -> ScriptedChatModel:
    """What the LangChain fence calls `model`."""
    return ScriptedChatModel(script=[call("retain", items=[{"content": "Ana likes tea."}]), "Noted."])


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """What stands at `HINDSIGHT_API_URL`."""
    with FaultServer() as running:
        yield running


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """The thread's event loop, closed with the test: LlamaIndex's blocking calls would open one and leave it so."""
    own = asyncio.new_event_loop()
    asyncio.set_event_loop(own)
    yield
    own.close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize("example", PYTHON, ids=lambda example: f"line-{example.start_line}")
def test_a_fence_runs(
    example: CodeExample,
    eval_example: EvalExample,
    model: Any,
    server: FaultServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each Python fence runs with a model or an LLM of the reader's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if "HINDSIGHT_API_URL" in example.source:
        monkeypatch.setenv("HINDSIGHT_API_URL", server.url)
    names = eval_example.run(example, module_globals={"model": model, "llm": StrictLLM(script=["Noted."])})
    if "agent" in names:
        assert said_by(names["agent"]) == "Noted."
    if "engine" in names:
        assert str(names["engine"].query("What does Ana like?"))
    if "receipt" in names:
        assert len(names["receipt"].queued) == 1
        names["bank"].close()
    elif "memory" in names:
        assert names["memory"].text
    assert example.source


def said_by(agent: Any) -> str:
    """What an agent of either framework answers."""
    if hasattr(agent, "invoke"):
        return str(agent.invoke({"messages": [("user", "I like tea")]})["messages"][-1].text)

    async def run() -> str:
        return str(await agent.run("I like tea"))

    return asyncio.run(run())


def test_there_are_twenty_two_fences() -> None:
    """Both frameworks and a session by hand, here and in pages of their own; tags, no framework, a memory server, two exports,
    an audit, what changes, two of what is made of memories, two of scoping, and one each of the start, concepts, backends,
    operations and security.
    """
    assert len(PYTHON) == 22


def test_each_command_is_one_line_and_ends_in_what_it_runs() -> None:
    """The first command runs the demo, the second everything; CI runs the second one."""
    [fence] = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    demo, checks = fence.strip().splitlines()
    assert demo.endswith(".venv/bin/lorebank demo")
    assert checks.endswith(".venv/bin/nox")
    assert "README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_demo_command_runs(tmp_path: Path) -> None:
    """`lorebank demo` tells facts in one process and answers from memory in another."""
    done = subprocess.run(
        [sys.executable, "-m", "lorebank.cli", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1 memory stored." in done.stdout
    assert done.stdout.count("I remember: On flights I always want an aisle seat") == 2
    assert "nothing recalled" in done.stdout
    assert list(tmp_path.iterdir()) == []
