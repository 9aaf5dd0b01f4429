"""Tools and retriever over a Hindsight server: what they say of queued writes, what they do when it is down."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from hindsight_server import Hindsight
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_lorebank import BankRetriever, MemoryEditTool, RecallTool, ReflectTool, RetainGlobalTool, RetainTool, memory_tools
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import Bank, UnavailableError, open_bank
from lorebank.seams import Event, Skipped
from lorebank.testing import FaultServer

QUICK = {"batch_seconds": 0.02}
SLOW = {"batch_seconds": 60, "batch_rows": 100}
TEXT = "Ana prefers aisle seats."


@pytest.fixture(scope="module")
def served(hindsight: Hindsight, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """`open_bank`'s arguments for banks of this module alone, on the real server."""
    name = f"langchain-{uuid.uuid4().hex}"
    ledger = f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'outbox.db'}"
    yield {"url": hindsight.url, "bank": name, "shared": f"{name}-team", "ledger": ledger, "outbox": QUICK}
    for bank in (name, f"{name}-team"):
        httpx.delete(f"{hindsight.url}/v1/default/banks/{bank}", timeout=60).raise_for_status()


@pytest.fixture(scope="module")
def filled(served: dict[str, Any]) -> Iterator[Bank]:
    """A bank on the real server that knows five things."""
    with open_bank(**served) as bank:
        bank.retain([TEXT, "Ana's cat is Miso.", "Ana moved to Porto.", "Ben drinks tea.", "Ana sings alto."])
        assert bank.flush(timeout=60, until="completed").done
        yield bank


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Bank]:
    """A bank on the small server in this process; writes wait for a flush."""
    with (
        FaultServer() as server,
        open_bank(server.url, bank="alice", ledger=f"sqlite:///{tmp_path / 'outbox.db'}", outbox=SLOW) as bank,
    ):
        yield bank


def dead(tmp_path: Path, **options: Any) -> Bank:
    """A bank whose server is gone."""
    with FaultServer() as server:
        url = server.url
    return open_bank(url, bank="alice", ledger=f"sqlite:///{tmp_path / 'outbox.db'}", connection={"close_timeout": 0}, **options)


async def told(tools: list[BaseTool], mode: str, name: str, **arguments: Any) -> ToolMessage:
    """The tool message of an agent's run whose model makes one call."""
    agent: Any = create_agent(ScriptedChatModel(script=[call(name, **arguments), "done"]), tools=tools)
    question = {"messages": [HumanMessage("hello")]}
    answer = await agent.ainvoke(question) if mode == "async" else agent.invoke(question)
    return next(message for message in answer["messages"] if isinstance(message, ToolMessage))


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_an_agent_s_write_is_queued_and_said_to_be(small: Bank, mode: str) -> None:
    """The text counts what was queued and what was known; the artifact has the rows, and no content."""
    items = [{"content": TEXT}, {"content": "Ana sings alto."}, {"content": TEXT}]
    assert (await told(memory_tools(small), mode, "retain", items=items[:1])).content == "1 memory queued."
    message = await told(memory_tools(small), mode, "retain", items=items)
    assert message.content == "1 memory queued. 2 already known, 0 rejected."
    assert message.artifact["count"] == 1
    [queued] = message.artifact["receipt"]["queued"]
    assert small.outbox.get(queued["id"]).document_id == queued["document_id"]
    assert TEXT not in json.dumps(message.artifact)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_recall_says_how_many_writes_can_not_be_found_yet(small: Bank, mode: str) -> None:
    """A last line, as long as something waits, also where nothing was found."""
    small.retain([TEXT, "Ana sings alto."])
    message = await told(memory_tools(small), mode, "recall", query="seats")
    assert message.content == "No relevant memories found.\n\n2 writes are queued and can't be found yet."
    assert (message.artifact["count"], message.artifact["queued"]) == (0, 2)
    assert small.flush(timeout=30, until="completed").done
    small.retain("Ana sleeps.")
    message = await told(memory_tools(small), mode, "recall", query="Which seats does Ana like?")
    assert message.content.endswith("\n\n1 write is queued and can't be found yet.")
    assert small.flush(timeout=30, until="completed").done
    assert "queued" not in (await told(memory_tools(small), mode, "recall", query="seats")).content


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_recalled_memories_stand_in_the_server_s_style(filled: Bank, mode: str) -> None:
    """Text, type and date; ids only where editing is offered."""
    day = r"\(\d{4}-\d\d-\d\d\)"
    shown = (await told(memory_tools(filled), mode, "recall", query="aisle seats")).content
    assert re.search(rf"^Found \d+ relevant memor.*\n\n- {re.escape(TEXT)} \[world\] {day}(\n|$)", str(shown))
    tools = memory_tools(filled, include=["recall", "memory_edit"])
    message = await told(tools, mode, "recall", query="aisle seats")
    first = message.artifact["memories"][0]
    assert re.search(rf"- {re.escape(TEXT)} \(id: {first['id']}\) \[world\] {day}", str(message.content))
    assert (first["text"], first["type"], first["backend"]) == (TEXT, "world", "hindsight")


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_reflect_gives_the_server_s_answer(filled: Bank, mode: str) -> None:
    """The answer, and what it is based on beside it."""
    message = await told(memory_tools(filled), mode, "reflect", query="Which seats?", context="Ana prefers")
    assert TEXT in str(message.content)
    assert TEXT in [memory["text"] for memory in message.artifact["memories"]]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_server_that_is_down_takes_writes_and_answers_no_question(tmp_path: Path, mode: str) -> None:
    """Retain queues; recall and reflect say that memory is unavailable, never that nothing is known."""
    with dead(tmp_path) as bank:
        assert (await told(memory_tools(bank), mode, "retain", items=[{"content": TEXT}])).content == "1 memory queued."
        for name in ("recall", "reflect"):
            message = await told(memory_tools(bank), mode, name, query="seats")
            assert message.status == "error"
            assert "unavailable" in str(message.content)
            assert "No relevant" not in str(message.content)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_the_retriever_raises_or_skips_when_the_server_is_down(tmp_path: Path, mode: str) -> None:
    """By default the error reaches the caller; `on_failure="skip"` returns nothing and tells an event."""
    heard: list[Event] = []

    async def retrieve(retriever: BankRetriever) -> list[Any]:
        return await retriever.ainvoke("seat?") if mode == "async" else retriever.invoke("seat?")

    with dead(tmp_path, on_event=heard.append) as bank:
        with pytest.raises(UnavailableError):
            await retrieve(BankRetriever(bank))
        assert await retrieve(BankRetriever(bank, on_failure="skip")) == []
    assert Skipped("alice", "retrieve", "UnavailableError") in heard


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_documents_carry_what_the_server_knows(filled: Bank, mode: str) -> None:
    """Id, type, time and score."""
    retriever = BankRetriever(filled, k=1)
    [document] = await retriever.ainvoke("aisle seats") if mode == "async" else retriever.invoke("aisle seats")
    assert (document.page_content, document.metadata["type"]) == (TEXT, "world")
    assert filled.get(str(document.id)).text == TEXT
    assert document.metadata["score"] > 0
    assert document.metadata["mentioned_at"].startswith("20")


class _OnServer:
    """The bank of LangChain's own suites."""

    bank: ClassVar[Bank]

    @pytest.fixture(autouse=True)
    def server_bank(self, filled: Bank) -> None:
        _OnServer.bank = filled


class _Tools(_OnServer):
    """What the suites ask of one tool."""

    kind: ClassVar[type[BaseTool]]
    example: ClassVar[dict[str, Any]]

    @property
    def tool_constructor(self) -> type[BaseTool]:
        return self.kind

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"bank": self.bank}

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return self.example


class _Retain(_Tools):
    kind = RetainTool
    example: ClassVar[dict[str, Any]] = {"items": [{"content": "Ana likes olives."}]}


class _RetainGlobal(_Tools):
    kind = RetainGlobalTool
    example: ClassVar[dict[str, Any]] = {"items": [{"content": "The office is in Lisbon.", "context": "work"}]}


class _Recall(_Tools):
    kind = RecallTool
    example: ClassVar[dict[str, Any]] = {"query": "seat preference?"}


class _Reflect(_Tools):
    kind = ReflectTool
    example: ClassVar[dict[str, Any]] = {"query": "Where does Ana live?", "context": "a trip"}


class _Edit(_Tools):
    kind = MemoryEditTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        tea = next(memory for memory in self.bank.list(types=("world",)) if memory.text.startswith("Ben drinks"))
        return {"operation": "update", "id": tea.id, "content": "Ben drinks coffee."}


class TestRetainUnit(_Retain, ToolsUnitTests): ...


class TestRetainIntegration(_Retain, ToolsIntegrationTests): ...


class TestRetainGlobalUnit(_RetainGlobal, ToolsUnitTests): ...


class TestRetainGlobalIntegration(_RetainGlobal, ToolsIntegrationTests): ...


class TestRecallUnit(_Recall, ToolsUnitTests): ...


class TestRecallIntegration(_Recall, ToolsIntegrationTests): ...


class TestReflectUnit(_Reflect, ToolsUnitTests): ...


class TestReflectIntegration(_Reflect, ToolsIntegrationTests): ...


class TestEditUnit(_Edit, ToolsUnitTests): ...


class TestEditIntegration(_Edit, ToolsIntegrationTests): ...


class TestRetriever(_OnServer, RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return BankRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"bank": self.bank}

    @property
    def retriever_query_example(self) -> str:
        return "What do you know of Ana?"
