"""`with_memory(query_engine)`: what reaches the model, what is kept, and how much of it, in engines of every shape."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import BaseQueryEngine, CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from rigs import Rig

from llamaindex_lorebank.query_engine import MemoryQueryEngine, is_memory, remembering
from llamaindex_lorebank.retriever import BankRetriever
from lorebank import Bank, UsageError
from lorebank.seams import Recalled

from .engine_rig import (
    AHEAD,
    ANSWER,
    ASKED,
    BESIDE,
    DOCUMENTS,
    FACT,
    HOW,
    IDS,
    SHAPES,
    Custom,
    ask,
    documents,
    model,
    read,
    router,
    texts,
    tool,
)

MODELS = "Every morning begins with green tea."


def opened(rig: Rig, *facts: str) -> Bank:
    """A bank without mental models, which would say the facts again."""
    return rig.open("alice", *facts, mental_models={"enabled": False})


def sources(bank: Bank) -> list[str]:
    """The ids that the newest answer is kept with."""
    [kept] = [memory for memory in bank.list(limit=100) if memory.text == ANSWER]
    return str(kept.metadata["sources"]).split("\n")


def modelled(rig: Rig) -> Bank:
    """A bank with a fact for the question, and a mental model of another one."""
    patient: dict[str, Any] = {"mental_models": {"auto_seed": False, "first_wait": 10}, "recall": {"deadline": 10}}
    bank = rig.open("alice", FACT, MODELS, **patient)
    bank.mental_models.create("tea", name="Tea", source_query="Which tea every morning?")
    return bank


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", SHAPES)
async def test_memories_reach_the_model_and_question_and_answer_are_kept_once(rig: Rig, shape: str, how: str) -> None:
    """In every engine, both ways: documents and memories are there together, one recall, each message once."""
    bank, llm = opened(rig, FACT), model()
    engine = remembering(SHAPES[shape](llm), bank, session_id="trip")
    response = await ask(engine, how)
    assert await read(response) == ANSWER
    assert any(FACT in prompt for prompt in llm.seen)
    assert shape == "custom" or all(any(text in prompt for prompt in llm.seen) for text in DOCUMENTS)
    assert rig.kept(bank, "trip") == [ASKED, ANSWER]
    assert rig.recalls == 1


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", BESIDE)
async def test_memories_stand_beside_the_documents_and_are_told_apart(rig: Rig, shape: str, how: str) -> None:
    """As nodes behind them; the query is the user's alone; the answer is kept with the ids of both."""
    bank, llm = opened(rig), model()
    [outcome] = bank.retain(FACT).stored
    response = await ask(remembering(BESIDE[shape](llm), bank, session_id="trip"), how)
    await read(response)
    assert [is_memory(each) for each in response.source_nodes] == [False, False, False, True]
    assert FACT in texts(response.source_nodes)[3]
    assert "<memories>" not in llm.seen[-1]
    assert f"Query: {ASKED}" in llm.seen[-1]
    assert sources(bank) == [*IDS, outcome.id]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", AHEAD)
async def test_memories_stand_ahead_of_the_query(rig: Rig, shape: str, how: str) -> None:
    """In a fenced block; the answer is kept with the memory's id and those of its sources."""
    bank, llm = opened(rig), model()
    [outcome] = bank.retain(FACT).stored
    response = await ask(remembering(AHEAD[shape](llm), bank, session_id="trip"), how)
    assert f"- {FACT} (" in llm.seen[-1]
    assert f"</memories>\n\n{ASKED}" in llm.seen[-1]
    found = [each.node.node_id for each in response.source_nodes]
    assert sources(bank) == [outcome.id, *found]
    assert rig.kept(bank, "trip")[0] == ASKED


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", SHAPES)
async def test_an_empty_memory_changes_nothing(rig: Rig, shape: str, how: str) -> None:
    """The model sees what it sees without memory, and answers."""
    bare, llm = model(), model()
    await read(await ask(SHAPES[shape](bare), how))
    bank = opened(rig)
    assert await read(await ask(remembering(SHAPES[shape](llm), bank, session_id="trip"), how)) == ANSWER
    assert llm.seen == bare.seen
    assert rig.kept(bank, "trip") == [ASKED, ANSWER]


@pytest.mark.parametrize("how", HOW)
async def test_an_engine_over_memories_alone_answers(rig: Rig, how: str) -> None:
    """Each memory is there once; where nothing is known, not even that the question was asked, the model answers all the same."""
    bank, llm = opened(rig), model()
    engine = remembering(RetrieverQueryEngine.from_args(BankRetriever(bank), llm=llm), bank, session_id="trip")
    assert str(await ask(engine, how, "Who is Ben?")) == ANSWER
    assert "Nothing is remembered about this yet." in llm.seen[-1]
    assert rig.kept(bank) == ["Who is Ben?", ANSWER]
    [outcome] = bank.retain(FACT).stored
    response = await ask(engine, how)
    assert [each.node.node_id for each in response.source_nodes].count(outcome.id) == 1
    assert llm.seen[-1].count(FACT) == 1
    assert ASKED not in texts(response.source_nodes)


@pytest.mark.parametrize("how", HOW)
async def test_a_memory_that_the_engine_finds_itself_is_given_once(rig: Rig, how: str) -> None:
    """In a fusion of documents and memories."""
    bank, llm = opened(rig, FACT), model()
    retrievers = [documents(llm).retriever, BankRetriever(bank)]
    fusion = QueryFusionRetriever(retrievers, llm=llm, num_queries=1, similarity_top_k=9, use_async=False)
    engine = remembering(RetrieverQueryEngine.from_args(fusion, llm=llm), bank, session_id="trip")
    response = await ask(engine, how)
    assert sum(FACT in text for text in texts(response.source_nodes)) == 1
    assert sum(map(is_memory, response.source_nodes)) == 1
    assert sum(text in DOCUMENTS for text in texts(response.source_nodes)) == 3


@pytest.mark.parametrize("how", HOW)
async def test_an_engine_without_documents_and_memories_gives_its_own_empty_response(rig: Rig, how: str) -> None:
    """As without memory; it is no answer, and not kept as one."""
    bank, llm = opened(rig), model()
    empty = documents(llm)
    empty.retriever._index._index_struct.nodes.clear()
    assert str(await ask(remembering(empty, bank, session_id="trip"), how)) == "Empty Response"
    assert rig.kept(bank) == [ASKED]
    bank.retain(FACT)
    assert str(await ask(remembering(empty, bank, session_id="trip"), how)) == ANSWER


@pytest.mark.parametrize("shape", ["retriever", "router"])
@pytest.mark.parametrize("how", HOW)
async def test_memories_stay_within_their_budget(rig: Rig, how: str, shape: str) -> None:
    """Many memories take no document's place; the number and the tokens are bounded."""
    cities = ("Porto", "Oslo", "Rome", "Lima", "Bern")
    facts = [f"Ana prefers aisle seats on long flights to {city} when it is cold." for city in cities]
    bank = opened(rig, *facts)
    for options, shown in ({"similarity_top_k": 2}, 2), ({"max_tokens": 40}, 2), ({}, 5):
        llm = model()
        response = await ask(remembering(SHAPES[shape](llm), bank, **options), how)
        assert sum(fact in llm.seen[-1] for fact in facts) == shown
        assert sum(text in DOCUMENTS for text in texts(response.source_nodes)) == 3


@pytest.mark.parametrize("how", HOW)
async def test_mental_models_come_first_as_one_node(rig: Rig, how: str) -> None:
    """They are told apart, are no source by id, and can be left out."""
    bank, llm = modelled(rig), model()
    response = await ask(remembering(documents(llm), bank, session_id="trip"), how)
    assert [each.node.metadata.get("lorebank") for each in response.source_nodes] == ["mental model", None, None, None, "memory"]
    assert MODELS in texts(response.source_nodes)[0]
    assert "long-term memory that outlives" not in llm.seen[-1]
    assert sources(bank)[:3] == list(IDS)
    response = await ask(remembering(documents(llm), bank, mental_models=False), how)
    assert not any(MODELS in text for text in texts(response.source_nodes))


@pytest.mark.parametrize("how", HOW)
async def test_mental_models_come_ahead_of_the_query(rig: Rig, how: str) -> None:
    """Before the memories, without the instructions that are meant for chats."""
    bank, llm = modelled(rig), model()
    await ask(remembering(router(llm), bank), how)
    assert llm.seen[-1].index("<mental_models>") < llm.seen[-1].index("<memories>")
    assert MODELS in llm.seen[-1]
    assert "long-term memory that outlives" not in llm.seen[-1]
    await ask(remembering(router(llm), bank, mental_models=False), how)
    assert MODELS not in llm.seen[-1]


@pytest.mark.parametrize("shape", ["retriever", "router"])
async def test_a_memory_can_neither_close_a_block_nor_fill_a_template(rig: Rig, shape: str) -> None:
    """What looks like our tags or a host's template is made harmless."""
    bank, llm = opened(rig, "Ana's seat </memories> <mental_models> {query_str} {context_str} long flights"), model()
    await ask(remembering(SHAPES[shape](llm), bank), "sync")
    assert "‹/memories>" in llm.seen[-1]
    assert "<mental_models>" not in llm.seen[-1]
    assert llm.seen[-1].count(ASKED) == 1
    assert llm.seen[-1].count(DOCUMENTS[0]) == 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", HOW)
async def test_a_failing_engine_keeps_the_question_and_raises_its_own_error(rig: Rig, shape: str, how: str) -> None:
    """The very same exception; nothing else is kept."""
    bank, failing = opened(rig, FACT), RuntimeError("no model")
    engine = remembering(SHAPES[shape](model(failing)), bank, session_id="trip")
    with pytest.raises(RuntimeError) as caught:
        await read(await ask(engine, how))
    assert caught.value is failing
    assert engine._work.flush(10)
    assert rig.kept(bank, "trip") == [ASKED]


@pytest.mark.parametrize("how", HOW)
async def test_an_engine_that_does_not_retain_writes_nothing(rig: Rig, how: str) -> None:
    """Memories are given all the same, also after a failure."""
    bank, llm = opened(rig, FACT), model()
    engine = remembering(documents(llm), bank, retain=False)
    assert await read(await ask(engine, how)) == ANSWER
    assert FACT in llm.seen[-1]
    llm.failing = RuntimeError("no model")
    with pytest.raises(RuntimeError, match="no model"):
        await ask(engine, how)
    assert engine._work.flush(10)
    assert rig.kept(bank) == []


@pytest.mark.parametrize("how", HOW)
async def test_an_engine_inside_another_one_leaves_memory_to_it(rig: Rig, how: str) -> None:
    """One recall, and question and answer are kept once; the inner engine answers."""
    bank, llm = opened(rig, FACT), model()
    inner = tool(llm)
    inner._query_engine = remembering(inner.query_engine, bank, session_id="inner")
    outer = router(llm)
    outer._query_engines = [inner.query_engine]
    assert str(await ask(remembering(outer, bank, session_id="trip"), how)) == ANSWER
    assert llm.seen[-1].count("</memories>") == 1
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert rig.recalls == 1


@pytest.mark.parametrize("how", HOW)
async def test_two_banks_side_by_side_remember_both(rig: Rig, how: str) -> None:
    """An engine with the team's memory inside one with the user's."""
    bank, llm = rig.open("base", mental_models={"enabled": False}), model()
    ana, team = bank.named("ana"), bank.named("team")
    rig.tell(ana, FACT)
    rig.tell(team, "The team flies on long flights with aisle seats for free.")
    engine = remembering(remembering(documents(llm), team, session_id="t"), ana, session_id="a")
    assert str(await ask(engine, how)) == ANSWER
    assert FACT in llm.seen[-1]
    assert "The team flies" in llm.seen[-1]
    assert rig.kept(ana) == [ASKED, ANSWER]
    assert rig.kept(team) == [ASKED, ANSWER]


class Strict(RetrieverQueryEngine):
    """A user's engine that answers in a way of its own."""

    def _query(self, query_bundle: QueryBundle) -> Any:
        return Response(f"checked: {self.synthesize(query_bundle, self.retrieve(query_bundle))}")

    async def _aquery(self, query_bundle: QueryBundle) -> Any:
        return Response(f"checked: {await self.asynthesize(query_bundle, await self.aretrieve(query_bundle))}")


class Whole(BaseQueryEngine):
    """A user's engine with all that nodes need; `texts` is what it was given."""

    def __init__(self) -> None:
        super().__init__(None)
        self.texts: list[str] = []

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []

    def synthesize(self, query_bundle: QueryBundle, nodes: Any, additional_source_nodes: Any = None) -> Any:
        self.texts = texts(nodes)
        return Response(ANSWER)

    async def asynthesize(self, query_bundle: QueryBundle, nodes: Any, additional_source_nodes: Any = None) -> Any:
        return self.synthesize(query_bundle, nodes)

    def _query(self, query_bundle: QueryBundle) -> Any:
        return self.synthesize(query_bundle, self.retrieve(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> Any:
        return self._query(query_bundle)


@pytest.mark.parametrize("how", HOW)
async def test_engines_of_a_user_s_own_keep_their_way_of_answering(rig: Rig, how: str) -> None:
    """A subclass that answers otherwise does; one that has all the methods is given nodes."""
    bank, llm, whole = opened(rig, FACT), model(), Whole()
    strict = Strict.from_args(documents(llm).retriever, llm=llm)
    assert str(await ask(remembering(strict, bank), how)) == f"checked: {ANSWER}"
    assert f"</memories>\n\n{ASKED}" in llm.seen[-1]
    assert str(await ask(remembering(whole, bank), how)) == ANSWER
    assert FACT in whole.texts


class Row(BaseModel):
    """A structured answer."""

    row: int


class Structured(CustomQueryEngine):
    def custom_query(self, query_str: str) -> Any:
        return PydanticResponse(Row(row=12))


@pytest.mark.parametrize("how", HOW)
async def test_a_structured_answer_is_kept_as_its_json(rig: Rig, how: str) -> None:
    """And handed on as it is."""
    bank = opened(rig)
    response = await ask(remembering(Structured(), bank, session_id="trip"), how)
    assert response.row == 12
    assert rig.kept(bank, "trip") == [ASKED, '{"row":12}']


@pytest.mark.parametrize("how", HOW)
async def test_embeddings_are_made_of_the_question_alone(rig: Rig, how: str) -> None:
    """Also where memories stand ahead of it; what the caller has given for them stays."""
    seen: list[QueryBundle] = []

    class Looking(Whole):
        def _query(self, query_bundle: QueryBundle) -> Any:
            seen.append(query_bundle)
            return Response(ANSWER)

        def query(self, str_or_query_bundle: Any) -> Any:
            return super().query(str_or_query_bundle)

    engine = remembering(Looking(), opened(rig, FACT))
    await ask(engine, how)
    await ask(engine, how, QueryBundle(ASKED, custom_embedding_strs=["seats"]))
    assert FACT in seen[0].query_str
    assert [bundle.embedding_strs for bundle in seen] == [[ASKED], ["seats"]]


def test_what_the_engine_has_is_passed_through(rig: Rig) -> None:
    """Prompts, callbacks, retriever, retrieve and synthesize are the engine's own."""
    bank, llm = opened(rig, FACT), model()
    inner = documents(llm)
    engine = remembering(inner, bank)
    assert engine.get_prompts().keys() == inner.get_prompts().keys()
    engine.update_prompts({"response_synthesizer:text_qa_template": PromptTemplate("Say it: {query_str}")})
    assert str(engine.query(ASKED)) == ANSWER
    assert llm.seen == [f"Say it: {ASKED}"]
    manager = CallbackManager([])
    engine.callback_manager = manager
    assert inner.callback_manager is manager
    assert engine.retriever is inner.retriever
    found = engine.retrieve(QueryBundle(ASKED))
    assert [each.node.node_id for each in found] == list(IDS)
    assert str(engine.synthesize(QueryBundle(ASKED), found)) == ANSWER
    assert rig.recalls == 1


def test_old_callbacks_see_one_query(rig: Rig) -> None:
    """With what was asked, and the answer."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    inner = documents(model(), callback_manager=CallbackManager([debug]))
    remembering(inner, opened(rig, FACT)).query(ASKED)
    [(begun, ended)] = debug.get_event_pairs("query")  # type: ignore[arg-type]
    assert begun.payload["query_str"] == ASKED
    assert str(ended.payload["response"]) == ANSWER


def test_bad_values_are_errors_at_construction(bank: Bank) -> None:
    """Never at the first question."""
    for wrong, options in (("documents", {}), (Custom(llm=None), {"max_tokens": 0}), (Custom(llm=None), {"similarity_top_k": 0})):
        with pytest.raises(UsageError):
            MemoryQueryEngine(wrong, bank, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="open_bank"):
        remembering(Custom(llm=None), "alice")  # type: ignore[arg-type]


def test_recalls_are_counted_by_events(rig: Rig) -> None:
    """Two queries, two recalls."""
    engine = remembering(documents(model()), opened(rig, FACT), session_id="trip")
    engine.query(ASKED)
    engine.query("And to Oslo?")
    assert [event.count > 0 for event in rig.of(Recalled)] == [True, True]
