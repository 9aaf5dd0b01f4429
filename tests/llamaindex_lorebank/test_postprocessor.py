"""`MentalModelPostprocessor`: what a bank knows among the nodes of engines that are not changed otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.schema import NodeWithScore, TextNode
from rigs import Rig

from llamaindex_lorebank.postprocessor import MentalModelPostprocessor
from llamaindex_lorebank.query_engine import is_memory, remembering
from lorebank import Bank, UnavailableError, UsageError, open_bank, per_user
from lorebank.testing import FaultServer

from .engine_rig import ANSWER, ASKED, DOCUMENTS, FACT, HOW, IDS, ask, documents, model, read, texts

TEA = "Every morning begins with green tea."
PATIENT: dict[str, Any] = {"mental_models": {"auto_seed": False, "first_wait": 10}, "recall": {"deadline": 10}}


def modelled(rig: Rig, bank: str = "alice") -> Bank:
    """A bank with a fact for the question, and a mental model of another one."""
    opened = rig.open(bank, FACT, TEA, **PATIENT)
    opened.mental_models.create("tea", name="Tea", source_query="Which tea every morning?")
    return opened


async def processed(postprocessor: Any, how: str, nodes: list[NodeWithScore], query: str | None = ASKED) -> list[NodeWithScore]:
    given: Any = {} if query is None else {"query_str": query}
    if how == "async":
        return list(await postprocessor.apostprocess_nodes(nodes, **given))
    return list(postprocessor.postprocess_nodes(nodes, **given))


def found() -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(text=text), score=0.5) for text in DOCUMENTS]


@pytest.mark.parametrize("how", HOW)
async def test_mental_models_come_first_and_nothing_is_recalled(rig: Rig, how: str) -> None:
    """One node ahead of all documents; memory itself is not asked, with a query or without."""
    bank = modelled(rig)
    for query in (ASKED, None):
        nodes = await processed(MentalModelPostprocessor(bank, session_id="s"), how, found(), query)
        assert TEA in nodes[0].text
        assert [each.text for each in nodes[1:]] == list(DOCUMENTS)
        assert nodes[0].node.metadata["lorebank"] == "mental model"
    assert rig.recalls == 0
    assert rig.kept(bank) == []


@pytest.mark.parametrize("how", HOW)
async def test_memories_come_last_where_they_are_wanted(rig: Rig, how: str) -> None:
    """One recall, and nothing is kept; without a query there is nothing to recall."""
    bank = modelled(rig)
    postprocessor = MentalModelPostprocessor(bank, memories=True, session_id="s")
    nodes = await processed(postprocessor, how, found())
    assert [is_memory(each) for each in nodes] == [True, False, False, False, True]
    assert nodes[-1].text == FACT
    assert rig.recalls == 1
    assert len(await processed(postprocessor, how, found(), None)) == 4
    assert rig.kept(bank) == []


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("streaming", [False, True])
async def test_it_works_in_a_query_engine(rig: Rig, how: str, streaming: bool) -> None:
    """The model sees both; the nodes that are given are not changed."""
    bank, llm = modelled(rig), model()
    last = [LongContextReorder(), MentalModelPostprocessor(bank, memories=True, session_id="s")]
    response = await ask(documents(llm, node_postprocessors=last, streaming=streaming), how)
    assert await read(response) == ANSWER
    assert all(text in llm.seen[-1] for text in (TEA, FACT, DOCUMENTS[0]))
    assert {each.node.node_id for each in response.source_nodes[1:4]} == set(IDS)
    assert [is_memory(each) for each in response.source_nodes] == [True, False, False, False, True]


@pytest.mark.parametrize("how", HOW)
async def test_it_works_in_a_chat_engine(rig: Rig, how: str) -> None:
    """One that retrieves."""
    bank, llm = modelled(rig), model()
    engine = ContextChatEngine.from_defaults(
        documents(llm).retriever,
        llm=llm,
        memory=ChatMemoryBuffer.from_defaults(llm=llm),
        node_postprocessors=[MentalModelPostprocessor(bank, session_id="s")],
    )
    response = await engine.achat(ASKED) if how == "async" else engine.chat(ASKED)
    assert str(response) == ANSWER
    assert TEA in llm.seen[-1]


@pytest.mark.parametrize("how", HOW)
async def test_an_engine_with_memory_gives_the_same_once(rig: Rig, how: str) -> None:
    """Inside `with_memory` it adds nothing: one recall, each node once."""
    bank, llm = modelled(rig), model()
    inner = documents(llm, node_postprocessors=[MentalModelPostprocessor(bank, memories=True)])
    response = await ask(remembering(inner, bank, session_id="trip"), how)
    assert sum(TEA in text for text in texts(response.source_nodes)) == 1
    assert sum(FACT in text for text in texts(response.source_nodes)) == 1
    assert rig.recalls == 1


@pytest.mark.parametrize("how", HOW)
async def test_each_run_gets_its_user_s_models(rig: Rig, how: str) -> None:
    """A missing user is an error that names the key."""
    bank = modelled(rig, "base")
    ana = bank.named("ana")
    rig.tell(ana, "Ana sings in a choir every morning.")
    ana.mental_models.create("choir", name="Choir", source_query="Who sings in a choir every morning?")
    postprocessor = MentalModelPostprocessor(per_user(bank))
    with instrument_tags({"user_id": "ana", "session_id": "s"}):
        [node, *_] = await processed(postprocessor, how, found())
    assert "choir" in node.text
    assert TEA not in node.text
    with pytest.raises(UsageError, match="'user_id'"):
        await processed(postprocessor, how, found())


@pytest.mark.parametrize("how", HOW)
async def test_a_session_that_is_ignored_adds_nothing(rig: Rig, how: str) -> None:
    """The user's choice holds here, too."""
    bank = modelled(rig)
    bank.session("s").mode = "ignored"
    assert len(await processed(MentalModelPostprocessor(bank, memories=True, session_id="s"), how, found())) == 3


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("memories", [False, True])
async def test_a_server_that_is_down_changes_nothing(tmp_path: Any, how: str, memories: bool) -> None:
    """The documents are as they were, unless the bank is to raise."""
    with FaultServer() as server:
        url = server.url
    options: dict[str, Any] = {"ledger": f"sqlite:///{tmp_path / 'outbox.db'}", "connection": {"close_timeout": 0}}
    with open_bank(url, bank="alice", recall={"deadline": 0.3}, **options) as bank:
        postprocessor = MentalModelPostprocessor(bank, memories=memories, session_id="s")
        assert [each.text for each in await processed(postprocessor, how, found())] == list(DOCUMENTS)
    with open_bank(url, bank="alice", recall={"deadline": 0.3}, on_failure="raise", **options) as bank:
        raising = MentalModelPostprocessor(bank, memories=True, session_id="s")
        with pytest.raises(UnavailableError):
            await processed(raising, how, found())


def test_what_is_written_down_of_it_holds_no_bank(bank: Bank) -> None:
    """And a wrong bank is an error at construction."""
    assert MentalModelPostprocessor(bank, memories=True).to_dict() == {"memories": True, "class_name": "MentalModelPostprocessor"}
    with pytest.raises(UsageError, match="open_bank"):
        MentalModelPostprocessor("alice")  # type: ignore[arg-type]
