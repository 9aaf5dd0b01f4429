"""A bank as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from pydantic import ConfigDict, Field

from langchain_lorebank.runs import bank_of
from lorebank.seams import BankResolver, Retrieval, checked, described

if TYPE_CHECKING:
    from lorebank import Bank, RecallResult

_bank_of_run: ContextVar[Bank | None] = ContextVar("lorebank_bank_of_run", default=None)


class BankRetriever(BaseRetriever):
    """Retrieves memories as documents.

    Setup:
        `pip install 'lorebank[langchain]'`

    Key init args:
        bank: a `Bank`, or `per_user(bank)` to give each run its user's
        k: how many documents at most (default 8); also at call: `invoke(query, k=3)`
        max_tokens: bound of all documents together (default: none)
        types, tags, tags_match: what may be read (tracing tags go into the config)
        on_failure: "raise" (default), or "skip" to return nothing and tell it in an event

    Instantiation:
        `BankRetriever(open_bank(bank="alice"), k=5)`

    Usage:
        `retriever.invoke("seat preference?")`

    Use within a chain:
        `{"memories": retriever, "question": RunnablePassthrough()} | prompt | model`
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    bank: Any = Field(exclude=True, repr=False)
    k: int = 8
    max_tokens: int | None = None
    types: tuple[str, ...] | None = None
    tags_filter: tuple[str, ...] | None = None
    tags_match: Literal["any", "all", "any_strict", "all_strict", "exact"] = "any_strict"
    on_failure: Literal["raise", "skip"] = "raise"

    def __init__(self, bank: Bank | BankResolver, *, tags: Sequence[str] | None = None, **fields: Any) -> None:
        filtered = {} if tags is None else {"tags_filter": (tags,) if isinstance(tags, str) else tuple(tags)}
        super().__init__(**{"bank": checked(bank), **filtered, **fields})
        self._retrieval(self.k)  # bad values are errors here, not at the first question

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        config = ensure_config(config)
        with _for_run(self.bank, config):
            return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        config = ensure_config(config)
        with _for_run(self.bank, config):
            return await super().ainvoke(input, config, **kwargs)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        retrieval = self._retrieval(self.k if k is None else k)
        return _documents(retrieval.recall(self._bank(run_manager.metadata), query))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        retrieval = self._retrieval(self.k if k is None else k)
        return _documents(await retrieval.arecall(self._bank(run_manager.metadata), query))

    def _bank(self, metadata: dict[str, Any]) -> Bank:
        return _bank_of_run.get() or bank_of(self.bank, RunnableConfig(metadata=metadata))

    def _retrieval(self, k: int) -> Retrieval:
        return Retrieval(k, self.max_tokens, self.types, self.tags_filter, self.tags_match, self.on_failure)


@contextmanager
def _for_run(bank: Bank | BankResolver, config: RunnableConfig) -> Iterator[None]:
    token = _bank_of_run.set(bank_of(bank, config))
    try:
        yield
    finally:
        _bank_of_run.reset(token)


def _documents(result: RecallResult) -> list[Document]:
    return [Document(id=memory.id, page_content=memory.text, metadata=described(memory)) for memory in result]
