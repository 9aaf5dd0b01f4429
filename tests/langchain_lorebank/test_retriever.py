"""The retriever in LangChain chains."""

from typing import Any

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from langchain_lorebank import BankRetriever
from langchain_lorebank.testing import ScriptedChatModel
from lorebank import Bank, UnavailableError, UsageError, open_bank, per_user
from lorebank.seams import Event, Skipped


async def retrieve(retriever: BankRetriever, mode: str, query: str, *rest: Any, **options: Any) -> list[Any]:
    if mode == "async":
        return await retriever.ainvoke(query, *rest, **options)
    return retriever.invoke(query, *rest, **options)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_documents_carry_id_type_tags_times_and_score(bank: Bank, mode: str) -> None:
    """A memory's text is the content, the rest metadata."""
    [outcome] = bank.retain("Ana prefers aisle seats.", tags=["trip"], metadata={"turn": "D1"}).stored
    [document] = await retrieve(BankRetriever(bank), mode, "seat?")
    assert document.page_content == "Ana prefers aisle seats."
    assert document.id == outcome.id
    assert document.metadata["tags"] == ["trip"]
    assert document.metadata["type"] == "world"
    assert document.metadata["metadata"] == {"turn": "D1"}
    assert document.metadata["score"] > 0
    assert document.metadata["mentioned_at"].startswith("20")


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_k_holds_at_construction_and_at_call(bank: Bank, mode: str) -> None:
    """`k` bounds the documents; the call wins."""
    bank.retain([f"Ana sang song number {n}." for n in range(12)])
    assert len(await retrieve(BankRetriever(bank), mode, "Ana song")) == 8
    assert len(await retrieve(BankRetriever(bank, k=10), mode, "Ana song")) == 10
    assert len(await retrieve(BankRetriever(bank, k=10), mode, "Ana song", k=2)) == 2


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_each_run_gets_its_user_s_bank(bank: Bank, mode: str) -> None:
    """The config's user decides, in single calls and in batches."""
    bank.named("ana").retain("The door code is 4711.")
    bank.named("ben").retain("The door code is 8822.")
    retriever = BankRetriever(per_user(bank))
    [ana] = await retrieve(retriever, mode, "door code", {"configurable": {"user_id": "ana"}})
    [ben] = await retrieve(retriever, mode, "door code", {"metadata": {"user_id": "ben"}})
    assert (ana.page_content, ben.page_content) == ("The door code is 4711.", "The door code is 8822.")
    configs: Any = [{"configurable": {"user_id": user}} for user in ("ana", "ben") * 4]
    found = retriever.batch(["door code"] * 8, configs)
    assert [documents[0].page_content[-5:-1] for documents in found] == ["4711", "8822"] * 4
    with pytest.raises(UsageError, match="'user_id'"):
        await retrieve(retriever, mode, "door code")


def test_it_works_in_a_chain(bank: Bank) -> None:
    """Memories stand in the prompt that the model sees; the user's config reaches a retriever inside."""
    bank.named("ana").retain("Ana prefers aisle seats.")
    model = ScriptedChatModel(script=["aisle"])
    prompt = ChatPromptTemplate.from_template("{memories}\n\n{question}")
    chain: Any = {"memories": BankRetriever(per_user(bank)), "question": RunnablePassthrough()} | prompt | model
    assert chain.invoke("Which seat?", {"configurable": {"user_id": "ana"}}).text == "aisle"
    assert "Ana prefers aisle seats." in str(model.seen[0][0].content)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_dead_memory_raises_or_is_skipped_as_wanted(mode: str, tmp_path: Any) -> None:
    """By default the error reaches the caller; `on_failure="skip"` returns nothing and tells an event."""
    heard: list[Event] = []
    bank = open_bank(backend=Dead(), bank="ana", on_event=heard.append)
    with pytest.raises(UnavailableError, match="gone"):
        await retrieve(BankRetriever(bank), mode, "seat?")
    assert await retrieve(BankRetriever(bank, on_failure="skip"), mode, "seat?") == []
    assert heard == [Skipped("ana", "retrieve", "UnavailableError")]


class Dead:
    """A backend whose service is gone."""

    name = "mnemopi"
    models: Any = None

    def announce(self, tell: Any) -> None:
        """Nothing is told."""

    def __getattr__(self, verb: str) -> Any:
        def refuse(*_args: Any, **_options: Any) -> Any:
            raise UnavailableError("gone")

        return refuse

    def scope(self, base: str, scoping: Any, label: str | None) -> Any:
        from lorebank.seams import scope_by_bank

        return scope_by_bank(base, scoping, label)


def test_memory_that_is_off_retrieves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kill switch silences retrievers instead of breaking chains."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    assert BankRetriever(open_bank()).invoke("seat?") == []


def test_bad_values_are_errors_at_construction(bank: Bank) -> None:
    """A `k` of zero or an unknown type never waits for the first question."""
    with pytest.raises(UsageError, match="limit"):
        BankRetriever(bank, k=0)
    with pytest.raises(UsageError, match="type"):
        BankRetriever(bank, types=("facts",))
