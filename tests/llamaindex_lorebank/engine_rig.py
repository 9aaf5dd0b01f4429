"""Query engines of every shape over three documents, for the tests of memory in query engines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from llama_index.core import Document, MockEmbedding, SummaryIndex, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.indices.query.query_transform.base import HyDEQueryTransform, StepDecomposeQueryTransform
from llama_index.core.llms import CompletionResponse, CompletionResponseGen
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool

from llamaindex_lorebank.testing import ScriptedLLM

HOW = ("sync", "async")
DOCUMENTS = ("Flight TP 432 leaves at noon.", "Check-in closes an hour before.", "Lounge four is on the second floor.")
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "Row twelve is booked, then."
IDS = ("doc-0", "doc-1", "doc-2")


def answer(prompt: str) -> str:
    """What a model says to each kind of prompt that query engines make."""
    if "choices" in prompt.lower() and "Some choices are given" in prompt:
        return json.dumps([{"choice": 1, "reason": "the only one"}])
    if "sub-questions" in prompt or "sub questions" in prompt:
        return json.dumps({"items": [{"sub_question": "Which row is free?", "tool_name": "documents"}]})
    if "Previous reasoning" in prompt:
        return "None" if "Which row" in prompt else "Which row is free?"
    return ANSWER


class SpokenLLM(ScriptedLLM):
    """Streams word by word; raises `failing` where it is told to, in the midst of a stream or at once."""

    failing: Any = None

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.seen.append(prompt)
        if self.failing is not None:
            raise self.failing
        return CompletionResponse(text=self.answer(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        self.seen.append(prompt)

        def words() -> CompletionResponseGen:
            text = ""
            for word in self.answer(prompt).split(" "):
                delta = word if not text else f" {word}"
                text += delta
                yield CompletionResponse(text=text, delta=delta)
                if self.failing is not None:
                    raise self.failing

        return words()


def model(failing: Exception | None = None) -> SpokenLLM:
    return SpokenLLM(answer=answer, failing=failing)


def embedding() -> BaseEmbedding:
    return MockEmbedding(embed_dim=4)


def nodes() -> list[TextNode]:
    return [TextNode(id_=name, text=text) for name, text in zip(IDS, DOCUMENTS, strict=True)]


def documents(llm: Any, **options: Any) -> Any:
    """An engine over all three documents."""
    return SummaryIndex(nodes()).as_query_engine(llm=llm, **options)


def vectors(llm: Any, **options: Any) -> Any:
    """An engine over a vector index."""
    index = VectorStoreIndex(nodes(), embed_model=embedding())
    return index.as_query_engine(llm=llm, similarity_top_k=3, **options)


def fusion(llm: Any) -> Any:
    """Two retrievers in one."""
    index = SummaryIndex(nodes())
    both = [index.as_retriever(), VectorStoreIndex(nodes(), embed_model=embedding()).as_retriever(similarity_top_k=3)]
    retriever = QueryFusionRetriever(both, llm=llm, num_queries=1, similarity_top_k=3, use_async=False)
    return RetrieverQueryEngine.from_args(retriever, llm=llm)


def citation(llm: Any) -> Any:
    return CitationQueryEngine.from_args(SummaryIndex(nodes()), llm=llm)


def transform(llm: Any) -> Any:
    """The query is rewritten for the retriever."""
    return TransformQueryEngine(documents(llm), HyDEQueryTransform(llm=llm, include_original=True))


def tool(llm: Any) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(documents(llm), name="documents", description="about flights")


def router(llm: Any) -> Any:
    return RouterQueryEngine(LLMSingleSelector.from_defaults(llm=llm), [tool(llm)], llm=llm)


def sub_question(llm: Any) -> Any:
    return SubQuestionQueryEngine(
        LLMQuestionGenerator.from_defaults(llm=llm),
        get_response_synthesizer(llm=llm),
        [tool(llm)],
        verbose=False,
        use_async=False,
    )


def multi_step(llm: Any) -> Any:
    steps = StepDecomposeQueryTransform(llm=llm)
    return MultiStepQueryEngine(documents(llm), steps, get_response_synthesizer(llm=llm), num_steps=1)


class Custom(CustomQueryEngine):
    """An engine of a user's own, which gives plain text."""

    llm: Any

    def custom_query(self, query_str: str) -> str:
        return str(self.llm.complete(query_str))


def custom(llm: Any) -> Any:
    return Custom(llm=llm)


def streaming(llm: Any) -> Any:
    return documents(llm, streaming=True)


BESIDE: dict[str, Callable[[Any], Any]] = {
    "retriever": documents,
    "vectors": vectors,
    "fusion": fusion,
    "citation": citation,
    "transform": transform,
    "streaming": streaming,
}
"""Engines that are given memories as nodes."""
AHEAD: dict[str, Callable[[Any], Any]] = {
    "router": router,
    "sub-question": sub_question,
    "multi-step": multi_step,
    "custom": custom,
}
"""Engines that are given memories ahead of the query."""
SHAPES = BESIDE | AHEAD


async def ask(engine: Any, how: str, question: Any = ASKED) -> Any:
    """The response, whichever way the engine is asked."""
    return await engine.aquery(question) if how == "async" else engine.query(question)


async def read(response: Any) -> str:
    """The whole answer, a stream read as its user would."""
    if isinstance(response, AsyncStreamingResponse):
        tokens: AsyncIterator[str] = response.async_response_gen()
        return "".join([token async for token in tokens])
    if isinstance(response, StreamingResponse):
        return "".join(response.response_gen)
    return str(response)


def texts(sources: list[NodeWithScore]) -> list[str]:
    return [each.node.get_content() for each in sources]


def document(text: str) -> Document:
    return Document(text=text)
