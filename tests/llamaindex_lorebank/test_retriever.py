"""The retriever in LlamaIndex query engines."""

from typing import Any

import pytest
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import RetrieverQueryEngine, RouterQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import MetadataMode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool, RetrieverTool

from llamaindex_lorebank import BankRetriever, CompleterLLM, LLMCompleter
from llamaindex_lorebank.testing import ScriptedLLM
from lorebank import Bank, UsageError, open_bank, per_user
from lorebank.seams import Completer


async def retrieve(retriever: Any, mode: str, query: str) -> list[Any]:
    return list(await retriever.aretrieve(query) if mode == "async" else retriever.retrieve(query))


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_nodes_carry_metadata_and_show_the_model_text_and_date(bank: Bank, mode: str) -> None:
    """A memory's text is the node's; the model sees the date beside it and nothing else."""
    [outcome] = bank.retain("Ana prefers aisle seats.", tags=["trip"]).stored
    [found] = await retrieve(BankRetriever(bank), mode, "seat?")
    assert found.node.node_id == outcome.id
    assert found.text == "Ana prefers aisle seats."
    assert found.score > 0
    assert found.node.metadata["tags"] == ["trip"]
    shown = found.node.get_content(MetadataMode.LLM)
    assert "mentioned_at" in shown
    assert outcome.id not in shown


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_top_k_bounds_the_nodes(bank: Bank, mode: str) -> None:
    """`similarity_top_k` is how many nodes at most."""
    bank.retain([f"Ana sang song number {n}." for n in range(12)])
    assert len(await retrieve(BankRetriever(bank, 3), mode, "Ana song")) == 3
    assert BankRetriever(bank).similarity_top_k == 8


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_each_run_gets_its_user_s_bank(bank: Bank, mode: str) -> None:
    """The instrument tags decide; without them the error names the key."""
    bank.named("ana").retain("The door code is 4711.")
    bank.named("ben").retain("The door code is 8822.")
    retriever = BankRetriever(per_user(bank))
    for user, code in (("ana", "4711"), ("ben", "8822")):
        with instrument_tags({"user_id": user}):
            [found] = await retrieve(retriever, mode, "door code")
        assert code in found.text
    with pytest.raises(UsageError, match="'user_id'"):
        await retrieve(retriever, mode, "door code")


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_query_engine_answers_from_memory(bank: Bank, mode: str) -> None:
    """The LLM sees the memory; the response names it as its source."""
    [outcome] = bank.retain("Ana prefers aisle seats.").stored
    llm = ScriptedLLM(answer=lambda prompt: "aisle" if "aisle" in prompt else "?")
    engine = RetrieverQueryEngine.from_args(BankRetriever(bank), llm=llm)
    question = "Which seat does Ana like?"
    response = await engine.aquery(question) if mode == "async" else engine.query(question)
    assert str(response) == "aisle"
    assert response.source_nodes[0].node.node_id == outcome.id


def test_it_works_in_fusion_in_a_tool_and_in_a_router(bank: Bank) -> None:
    """Wherever a retriever goes."""
    bank.retain("Ana prefers aisle seats.")
    llm = ScriptedLLM(answer=lambda prompt: "aisle" if "aisle" in prompt else '[{"choice": 1, "reason": "only one"}]')
    fusion = QueryFusionRetriever([BankRetriever(bank)], llm=llm, num_queries=1, use_async=False)
    assert [node.text for node in fusion.retrieve("Ana seat")] == ["Ana prefers aisle seats."]
    tool = RetrieverTool.from_defaults(BankRetriever(bank), name="memory", description="memory")
    assert "aisle" in str(tool.call("Ana seat").content)
    engine = RetrieverQueryEngine.from_args(BankRetriever(bank), llm=llm)
    choice = QueryEngineTool.from_defaults(engine, description="what is remembered")
    router = RouterQueryEngine(LLMSingleSelector.from_defaults(llm=llm), [choice], llm=llm)
    assert str(router.query("Which seat does Ana like?")) == "aisle"


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_memory_that_is_off_retrieves_nothing(mode: str, bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is switched off retrieves nothing; an unknown wish is an error at construction."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    assert await retrieve(BankRetriever(open_bank()), mode, "seat?") == []
    with pytest.raises(UsageError, match="on_failure"):
        BankRetriever(bank, on_failure="ignore")  # type: ignore[arg-type]


def test_models_are_adapted_both_ways() -> None:
    """An LLM is a completer, and a completer an LLM."""
    completer = LLMCompleter(ScriptedLLM(answer=str.upper))
    assert isinstance(completer, Completer)
    assert completer.complete("hello", max_tokens=5) == "HELLO"
    llm = CompleterLLM(completer)
    assert llm.complete("hi").text == "HI"
    assert [part.delta for part in llm.stream_complete("hi")] == ["HI"]
