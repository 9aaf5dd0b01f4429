"""Memory for query engines: memories beside the documents or ahead of the query; question and answer are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE, AsyncStreamingResponse, StreamingResponse
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.query_engine import TransformQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from llamaindex_lorebank.postprocessor import memory_nodes, models_node, note_node
from llamaindex_lorebank.retriever import BankRetriever, is_memory
from llamaindex_lorebank.runs import as_parent, bank_of, parent_of, run_tags
from llamaindex_lorebank.tracing import guarded
from llamaindex_lorebank.turns import WATCHED, answer_of, observed_run, sources_of, told
from lorebank import Bank, Injection, Memory, Session, UsageError
from lorebank.seams import (
    Background,
    BankResolver,
    Message,
    Retrieval,
    RunSessions,
    ahead_of,
    checked,
    render_memories,
)

__all__ = ["MemoryQueryEngine", "is_memory", "remembering"]
NOTHING = "Nothing is remembered about this yet."
"""What an engine is given that asks memory alone, and finds nothing: without any node it would not answer at all."""
Method = TypeVar("Method", bound=Callable[..., Any])


def _unspanned(method: Method) -> Method:
    """Keeps LlamaIndex from opening a span for a method: the active one inside is the query's, whose id every observer knows."""
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a query memory may take, and whether it keeps anything."""

    similarity_top_k: int
    max_tokens: int
    mental_models: bool
    retain: bool

    def __post_init__(self) -> None:
        Retrieval(self.similarity_top_k, self.max_tokens)  # the same bounds as a retriever's

    def of(self, memories: Sequence[Memory], count: Callable[[str], int]) -> list[Memory]:
        """The memories that fit, best first."""
        kept, left = list[Memory](), self.max_tokens
        for memory in memories[: self.similarity_top_k]:
            if (cost := count(memory.text)) <= left:
                kept.append(memory)
                left -= cost
        return kept


@dataclass(slots=True)
class _Turn:
    """One query: what the user has said, and what memory gives for it. `sources` are the ids of what the answer is made from:
    all of them, once the nodes are `placed`.
    """

    session: Session
    run: str
    said: Message
    injection: Injection
    models: str = ""
    memories: Sequence[Memory] = ()
    note: str = ""
    placed: bool = False
    sources: tuple[str, ...] = ()

    def give(self, injection: Injection, share: Share, count: Callable[[str], int]) -> None:
        """Takes what memory gave, as far as the engine wants it."""
        found = () if injection.result is None else injection.result.memories
        self.injection, self.memories = injection, share.of(found, count)
        self.models = injection.mental_models if share.mental_models else ""
        self.note = "" if found else injection.memories

    def ahead(self, bundle: QueryBundle) -> QueryBundle:
        """The query with memory ahead of its text; documents are looked for with the text alone."""
        block = ahead_of(self.models, render_memories(self.memories) or self.note)
        if not block:
            return bundle
        self.sources = tuple(memory.id for memory in self.memories)
        return replace(
            bundle,
            query_str=ahead_of(block, bundle.query_str),
            custom_embedding_strs=bundle.custom_embedding_strs or [bundle.query_str],
        )

    def beside(self, documents: Sequence[NodeWithScore], *, alone: bool) -> list[NodeWithScore]:
        """All documents, with the mental models ahead of them and memories behind them, each once. `alone`: the engine has no
        documents but memories; what was just asked is none of them.
        """
        kept = [each for each in documents if not (is_memory(each) and each.text == self.said.text)]
        known = {each.node.node_id for each in kept}
        added = [each for each in memory_nodes(self.memories) if each.node.node_id not in known]
        self.placed, self.sources = True, tuple(each.node.node_id for each in [*kept, *added])
        models = [models_node(self.models)] if self.models else []
        nodes = [*models, *kept, *added, *([note_node(self.note)] if self.note else [])]
        return nodes or ([note_node(NOTHING)] if alone else [])


class MemoryQueryEngine(BaseQueryEngine):
    """A query engine that remembers: `with_memory(query_engine, bank)` makes it.

    Setup:
        `pip install 'lorebank[llamaindex]'`

    Key init args:
        query_engine: any query engine; it is not changed
        bank: a `Bank`, or `per_user(bank)` to give each run its user's (`with instrument_tags({"user_id": ...})`)
        session_id: one conversation for all queries; by default the `session_id` of the run's instrument tags
        similarity_top_k, max_tokens: how many memories at most, and how many tokens of them; the bank's own `recall` settings
            bound them, too
        mental_models: whether the bank's mental models are given
        retain: whether question and answer are kept

    Instantiation:
        `engine = with_memory(index.as_query_engine(), bank)`

    Memories are nodes beside the documents, and mental models one node ahead of them, in engines that answer with
    `synthesize(retrieve(query))`: `RetrieverQueryEngine` (what `as_query_engine()` gives, whatever the retriever: also fusion),
    `CitationQueryEngine`, `SimpleMultiModalQueryEngine`, a `TransformQueryEngine` around one of them, and engines of your own
    that have the four methods `retrieve`, `aretrieve`, `synthesize` and `asynthesize`. No document gives way to a memory, node
    postprocessors see documents only, and `is_memory(source)` tells the sources of an answer apart.

    Memories are ahead of the text of the query in all other engines: `RouterQueryEngine`, `SubQuestionQueryEngine`,
    `MultiStepQueryEngine`, `RetryQueryEngine`, `FLAREInstructQueryEngine`, `ComposableGraphQueryEngine`, SQL and graph engines,
    `CustomQueryEngine`, and subclasses that answer in a way of their own. Embeddings are still made of the text alone;
    a retriever that searches by words sees the memories, too.

    Question and answer are kept, the answer with the ids of its sources; "Empty Response" is no answer. A stream is handed on as
    it comes, and kept when it is over; of one that breaks off, or an engine that fails, the question is kept. A memory that is
    down never breaks a query, unless the bank was opened with `on_failure="raise"`. Inside an agent or an engine that has
    this bank's memory already, it only hands the query on.
    """

    def __init__(
        self,
        query_engine: BaseQueryEngine,
        bank: Bank | BankResolver,
        *,
        session_id: str | None = None,
        similarity_top_k: int = 8,
        max_tokens: int = 1024,
        mental_models: bool = True,
        retain: bool = True,
    ) -> None:
        if not isinstance(query_engine, BaseQueryEngine):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            raise UsageError(f"`query_engine` must be a query engine; found {type(query_engine).__name__}")
        self._engine, self._bank = query_engine, checked(bank)
        self._share = Share(similarity_top_k, max_tokens, mental_models, retain)
        self._sessions = RunSessions(session_id=session_id)
        self._work = Background()

    @property
    def callback_manager(self) -> CallbackManager:
        """The engine's."""
        return self._engine.callback_manager

    @callback_manager.setter
    def callback_manager(self, value: CallbackManager) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._engine.callback_manager = value

    @property
    def retriever(self) -> Any:
        """The engine's, if it has one."""
        return cast("Any", self._engine).retriever

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """The engine's documents, without memories."""
        return self._engine.retrieve(query_bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Awaitable form of `retrieve`."""
        return cast("list[NodeWithScore]", await cast("Any", self._engine).aretrieve(query_bundle))

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """The engine's answer, made of these nodes alone; nothing is kept."""
        return self._engine.synthesize(query_bundle, nodes, additional_source_nodes)

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """Awaitable form of `synthesize`."""
        return await self._engine.asynthesize(query_bundle, nodes, additional_source_nodes)

    def _get_prompts(self) -> PromptDictType:
        return self._engine._get_prompts()  # noqa: SLF001 - a prompt's name stays as it is

    def _get_prompt_modules(self) -> PromptMixinType:
        return self._engine._get_prompt_modules()  # noqa: SLF001 - the same

    def _update_prompts(self, prompts: PromptDictType) -> None:
        self._engine._update_prompts(prompts)  # noqa: SLF001 - the same

    @_unspanned
    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self.callback_manager.event(CBEventType.QUERY, {EventPayload.QUERY_STR: query_bundle.query_str}) as event:
            response = self._answered(query_bundle)
            event.on_end({EventPayload.RESPONSE: response})
        return response

    @_unspanned
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self.callback_manager.event(CBEventType.QUERY, {EventPayload.QUERY_STR: query_bundle.query_str}) as event:
            response = await self._aanswered(query_bundle)
            event.on_end({EventPayload.RESPONSE: response})
        return response

    def _answered(self, bundle: QueryBundle) -> RESPONSE_TYPE:
        bank = bank_of(self._bank)
        if parent_of(bank) is not None:
            return self._engine.query(bundle)
        turn = self._turn(bank, bundle)
        ask = turn.session.before_turn if self._share.retain else turn.session.prefetch
        with guarded(turn.session, "before_turn"):
            self._give(bank, turn, ask([turn.said], history="delta", run_id=turn.run))
        with self._watching(bank, turn):
            response = self._asked(bundle, turn)
        return self._kept(response, turn)

    async def _aanswered(self, bundle: QueryBundle) -> RESPONSE_TYPE:
        bank = bank_of(self._bank)
        if parent_of(bank) is not None:
            return await self._engine.aquery(bundle)
        turn = self._turn(bank, bundle)
        ask = turn.session.abefore_turn if self._share.retain else turn.session.aprefetch
        with guarded(turn.session, "before_turn"):
            self._give(bank, turn, await ask([turn.said], history="delta", run_id=turn.run))
        with self._watching(bank, turn):
            response = await self._aasked(bundle, turn)
        return await self._akept(response, turn)

    def _asked(self, bundle: QueryBundle, turn: _Turn) -> RESPONSE_TYPE:
        engine, bundle = _behind(self._engine, bundle)
        if not _has_nodes(engine):
            return engine.query(turn.ahead(bundle))
        return engine.synthesize(bundle, turn.beside(engine.retrieve(bundle), alone=_asks_memory(engine)))

    async def _aasked(self, bundle: QueryBundle, turn: _Turn) -> RESPONSE_TYPE:
        engine, bundle = _behind(self._engine, bundle)
        if not _has_nodes(engine):
            return await engine.aquery(turn.ahead(bundle))
        documents = await cast("Any", engine).aretrieve(bundle)
        return await engine.asynthesize(bundle, turn.beside(documents, alone=_asks_memory(engine)))

    def _turn(self, bank: Bank, bundle: QueryBundle) -> _Turn:
        return _Turn(self._sessions.of(bank, run_tags()), observed_run(), Message("user", bundle.query_str), Injection())

    def _give(self, bank: Bank, turn: _Turn, injection: Injection) -> None:
        turn.give(injection, self._share, bank.connections.settings.recall.count_tokens)

    @contextmanager
    def _watching(self, bank: Bank, turn: _Turn) -> Generator[None]:
        """What the engine does: whoever remembers inside it leaves that to this one, and a failure keeps the question."""
        try:
            with as_parent(bank, turn.session):
                yield
        except BaseException:
            self._broke(turn, None)
            raise

    def _kept(self, response: RESPONSE_TYPE, turn: _Turn) -> RESPONSE_TYPE:
        if not self._streamed(response, turn):
            self._over(turn, answer_of(response))
        return response

    async def _akept(self, response: RESPONSE_TYPE, turn: _Turn) -> RESPONSE_TYPE:
        if not self._streamed(response, turn):
            await self._aover(turn, answer_of(response))
        return response

    def _streamed(self, response: RESPONSE_TYPE, turn: _Turn) -> bool:
        """Whether the answer is yet to come; it is then kept by whoever reads it to the end."""
        if not turn.placed:
            turn.sources = tuple(dict.fromkeys([*turn.sources, *sources_of(response)]))
        if not isinstance(response, (StreamingResponse, AsyncStreamingResponse)) or response.response_txt is not None:
            return False
        if isinstance(response, AsyncStreamingResponse):
            response.response_gen = self._awatched(response.response_gen, turn)
        else:
            response.response_gen = self._watched(response.response_gen, turn)
        if self._share.retain:
            WATCHED.add(response.response_gen)
        return True

    def _watched(self, tokens: Iterator[str], turn: _Turn) -> Generator[str, None, None]:
        """The tokens as they come."""
        said = list[str]()
        try:
            for token in tokens:
                said.append(token)
                yield token
        except BaseException:
            self._broke(turn, "".join(said))
            raise
        self._over(turn, "".join(said))

    async def _awatched(self, tokens: AsyncIterator[str], turn: _Turn) -> AsyncGenerator[str, None]:
        said = list[str]()
        try:
            async for token in tokens:
                said.append(token)
                yield token
        except BaseException:
            self._broke(turn, "".join(said))
            await _close(tokens)
            raise
        await self._aover(turn, "".join(said))

    def _over(self, turn: _Turn, answer: str | None) -> None:
        if self._share.retain:
            with guarded(turn.session, "after_turn"):
                turn.session.after_turn(told(turn.said, answer, turn.sources), history="delta", run_id=turn.run)

    async def _aover(self, turn: _Turn, answer: str | None) -> None:
        if self._share.retain:
            with guarded(turn.session, "after_turn"):
                await turn.session.aafter_turn(told(turn.said, answer, turn.sources), history="delta", run_id=turn.run)

    def _broke(self, turn: _Turn, answer: str | None) -> None:
        """Half an answer is none. In the background: a stream breaks off wherever it is dropped, and a failure goes its way."""
        if self._share.retain:
            messages = told(turn.said, answer, turn.sources)
            body = partial(turn.session.after_turn, messages, history="delta", run_id=turn.run, cancelled=True)
            self._work.end(None, turn.session, body)


def remembering(query_engine: BaseQueryEngine, bank: Bank | BankResolver, **options: Any) -> MemoryQueryEngine:
    """The query engine with memory; `options` are those of `MemoryQueryEngine`."""
    return MemoryQueryEngine(query_engine, bank, **options)


def _behind(engine: BaseQueryEngine, bundle: QueryBundle) -> tuple[BaseQueryEngine, QueryBundle]:
    """The engine that answers, and what it is asked once the transforms ahead of it are done."""
    while isinstance(engine, TransformQueryEngine) and _owner(engine, "_query") is TransformQueryEngine:
        parts = vars(engine)
        bundle = parts["_query_transform"].run(bundle, metadata=parts["_transform_metadata"])
        engine = parts["_query_engine"]
    return engine, bundle


def _has_nodes(engine: BaseQueryEngine) -> bool:
    """Whether an engine answers with `synthesize(retrieve(query))`: it has both, and no class below them answers otherwise."""
    if isinstance(engine, MemoryQueryEngine) or {_owner(engine, "query"), _owner(engine, "aquery")} != {BaseQueryEngine}:
        return False
    for asks, finds, says in (("_query", "retrieve", "synthesize"), ("_aquery", "aretrieve", "asynthesize")):
        finder, sayer, asker = _owner(engine, finds), _owner(engine, says), _owner(engine, asks)
        if {finder, sayer} & {object, BaseQueryEngine}:
            return False
        if not any(issubclass(each, asker) for each in (finder, sayer)):
            return False
    return True


def _owner(engine: BaseQueryEngine, name: str) -> type:
    """The class that says what an engine's method does; `object` where none does."""
    return next((each for each in type(engine).__mro__ if name in vars(each)), object)


def _asks_memory(engine: BaseQueryEngine) -> bool:
    return isinstance(getattr(engine, "retriever", None), BankRetriever)


async def _close(tokens: AsyncIterator[str]) -> None:
    """Closes a stream that nobody reads any more."""
    if isinstance(tokens, AsyncGenerator):
        await tokens.aclose()
