"""Tool spec and retriever over a Hindsight server: what they say of queued writes, what they do when it is down."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hindsight_server import Hindsight
from llama_index.core.query_engine import RetrieverQueryEngine

from llamaindex_lorebank import BankRetriever, BankToolSpec
from llamaindex_lorebank.testing import ScriptedLLM
from lorebank import Bank, UnavailableError, open_bank
from lorebank.seams import Event, Skipped, ToolFailure
from lorebank.testing import FaultServer

TEXT = "Ana prefers aisle seats."
SLOW = {"batch_seconds": 60, "batch_rows": 100}


@pytest.fixture(scope="module")
def filled(hindsight: Hindsight, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A bank on the real server that knows one thing."""
    ledger = f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'outbox.db'}"
    name = f"llamaindex-{uuid.uuid4().hex}"
    with open_bank(hindsight.url, bank=name, ledger=ledger, outbox={"batch_seconds": 0.02}) as bank:
        bank.retain(TEXT)
        assert bank.flush(timeout=60, until="completed").done
        yield bank
    httpx.delete(f"{hindsight.url}/v1/default/banks/{name}", timeout=60).raise_for_status()


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


async def used(bank: Bank, mode: str, name: str, **arguments: Any) -> Any:
    """The output of one tool of the bank."""
    tools = {tool.metadata.name: tool for tool in BankToolSpec(bank).to_tool_list()}
    return await tools[name].acall(**arguments) if mode == "async" else tools[name].call(**arguments)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_write_is_queued_and_said_to_be(small: Bank, mode: str) -> None:
    """The text counts what was queued and what was known; the artifact has the rows, and no content."""
    output = await used(small, mode, "retain", items=[{"content": TEXT}])
    assert output.content == "1 memory queued."
    artifact = output.raw_output.artifact
    assert (artifact["count"], len(artifact["receipt"]["queued"])) == (1, 1)
    assert TEXT not in json.dumps(artifact)
    output = await used(small, mode, "retain", items=[{"content": TEXT}, {"content": "Ana sings."}, {"content": "Ana runs."}])
    assert output.content == "2 memories queued. 1 already known, 0 rejected."


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_recall_says_how_many_writes_can_not_be_found_yet(small: Bank, mode: str) -> None:
    """A last line, as long as something waits, also where nothing was found."""
    small.retain(TEXT)
    output = await used(small, mode, "recall", query="seats")
    assert output.content == "No relevant memories found.\n\n1 write is queued and can't be found yet."
    assert output.raw_output.artifact["queued"] == 1
    assert small.flush(timeout=30, until="completed").done
    assert "queued" not in (await used(small, mode, "recall", query="aisle seats")).content


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_answers_come_in_the_server_s_style(filled: Bank, mode: str) -> None:
    """Recall: text, type and date; reflect: the server's answer, and what it is based on beside it."""
    output = await used(filled, mode, "recall", query="aisle seats")
    assert re.search(rf"\n\n- {re.escape(TEXT)} \[world\] \(\d{{4}}-\d\d-\d\d\)$", output.content)
    assert output.raw_output.artifact["memories"][0]["backend"] == "hindsight"
    output = await used(filled, mode, "reflect", query="Which seats?", context="Ana prefers")
    assert TEXT in output.content
    assert TEXT in [memory["text"] for memory in output.raw_output.artifact["memories"]]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_server_that_is_down_takes_writes_and_answers_no_question(tmp_path: Path, mode: str) -> None:
    """Retain queues; recall and reflect say that memory is unavailable, never that nothing is known."""
    with dead(tmp_path) as bank:
        assert (await used(bank, mode, "retain", items=[{"content": TEXT}])).content == "1 memory queued."
        for name in ("recall", "reflect"):
            with pytest.raises(ToolFailure, match="unavailable"):
                await used(bank, mode, name, query="seats")


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_the_retriever_raises_or_skips_when_the_server_is_down(tmp_path: Path, mode: str) -> None:
    """By default the error reaches the caller; `on_failure="skip"` returns nothing and tells an event."""
    heard: list[Event] = []

    async def retrieve(retriever: BankRetriever) -> list[Any]:
        return list(await retriever.aretrieve("seat?") if mode == "async" else retriever.retrieve("seat?"))

    with dead(tmp_path, on_event=heard.append) as bank:
        with pytest.raises(UnavailableError):
            await retrieve(BankRetriever(bank))
        assert await retrieve(BankRetriever(bank, on_failure="skip")) == []
    assert Skipped("alice", "retrieve", "UnavailableError") in heard


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_query_engine_answers_from_the_server_s_memory(filled: Bank, mode: str) -> None:
    """The LLM sees the memory; the response names it as its source."""
    llm = ScriptedLLM(answer=lambda prompt: "aisle" if "aisle" in prompt else "?")
    engine = RetrieverQueryEngine.from_args(BankRetriever(filled), llm=llm)
    question = "Which seats does Ana prefer?"
    response = await engine.aquery(question) if mode == "async" else engine.query(question)
    assert str(response) == "aisle"
    assert filled.get(response.source_nodes[0].node.node_id).text == TEXT
