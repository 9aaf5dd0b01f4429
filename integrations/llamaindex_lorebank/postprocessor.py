"""What memory gives as nodes, and a node postprocessor that puts it among the documents of any query engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llamaindex_lorebank.retriever import OURS, SHOWN, nodes_of
from llamaindex_lorebank.runs import bank_of, parent_of, run_tags
from llamaindex_lorebank.tracing import guarded
from llamaindex_lorebank.turns import observed_run
from lorebank import Bank, Injection, Memory, Session
from lorebank.seams import BankResolver, Message, RunSessions, checked, fence

MODELS_ID = "lorebank-mental-models"


def models_node(models: str) -> NodeWithScore:
    """The mental models as one node."""
    return NodeWithScore(node=_text(models, "mental model", MODELS_ID))


def note_node(note: str) -> NodeWithScore:
    """A word of memory's about itself, such as that it is unavailable, as a node."""
    return NodeWithScore(node=_text(note, "note", "lorebank-note"))


def memory_nodes(memories: Iterable[Memory]) -> list[NodeWithScore]:
    """Memories as nodes that come on their own: harmless to templates and to our blocks, and known to the model as memories."""
    return nodes_of([replace(memory, text=fence(memory.text)) for memory in memories], (OURS, *SHOWN))


def _text(text: str, kind: str, name: str) -> TextNode:
    return TextNode(id_=name, text=text, metadata={OURS: kind}, excluded_embed_metadata_keys=[OURS])


class MentalModelPostprocessor(BaseNodePostprocessor):
    """Puts what a bank knows first among the nodes of a query engine.

    Setup:
        `pip install 'lorebank[llamaindex]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`with instrument_tags({"user_id": ...})`)
        memories: whether memories for the query are put behind the documents, too
        session_id: whose mode holds; by default that of the `session_id` of the run's instrument tags

    Instantiation:
        `index.as_query_engine(node_postprocessors=[MentalModelPostprocessor(bank)])`

    The mental models are one node, from a cache: nothing is asked of memory but for `memories=True`. No document is dropped, and
    nothing is retained. Put it last: a reranker drops what it does not know. In an engine or agent that has this bank's
    memory already it adds nothing. A memory that is down changes nothing, unless the bank was opened with
    `on_failure="raise"`.
    """

    memories: bool = False
    _bank: Bank | BankResolver = PrivateAttr()
    _sessions: RunSessions = PrivateAttr()

    def __init__(
        self, bank: Bank | BankResolver, *, memories: bool = False, session_id: str | None = None, **fields: Any
    ) -> None:
        fields["memories"] = memories
        super().__init__(**fields)
        self._bank = checked(bank)
        self._sessions = RunSessions(session_id=session_id)

    @classmethod
    def class_name(cls) -> str:
        return "MentalModelPostprocessor"

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> list[NodeWithScore]:
        if (session := self._session()) is None:
            return nodes
        injection, said = Injection(), self._said(query_bundle)
        with guarded(session, "prefetch"):
            injection = session.prefetch(said, history="delta" if said else "full", run_id=observed_run())
        return _among(nodes, injection)

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if (session := self._session()) is None:
            return nodes
        injection, said = Injection(), self._said(query_bundle)
        with guarded(session, "prefetch"):
            injection = await session.aprefetch(said, history="delta" if said else "full", run_id=observed_run())
        return _among(nodes, injection)

    def _session(self) -> Session | None:
        """The run's session; `None` where something around this has it already."""
        bank = bank_of(self._bank)
        return None if parent_of(bank) is not None else self._sessions.of(bank, run_tags())

    def _said(self, bundle: QueryBundle | None) -> list[Message]:
        """What memories are recalled for; nothing where mental models are enough."""
        return [Message("user", bundle.query_str)] if self.memories and bundle is not None else []


def _among(nodes: list[NodeWithScore], injection: Injection) -> list[NodeWithScore]:
    """All nodes, mental models ahead of them and memories behind them, each once."""
    known = {each.node.node_id for each in nodes}
    models, found = injection.mental_models, () if injection.result is None else injection.result.memories
    first = [models_node(models)] if models and MODELS_ID not in known else []
    return [*first, *nodes, *[each for each in memory_nodes(found) if each.node.node_id not in known]]
