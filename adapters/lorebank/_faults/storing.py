"""From items to documents and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from lorebank._faults.observing import forget_facts, withdraw
from lorebank._faults.state import Banks
from lorebank._faults.text import ExtractionFailedError, Sentence, sentences, tokens, words
from lorebank._faults.values import Bank, Document, Fact, Item

__all__ = ["Stored", "store"]

BETWEEN_FACTS = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a retain did: new facts, tokens read, and the first failure."""

    facts: int = 0
    tokens: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk of the document to be: the item it came with, and its facts or what becomes facts."""

    index: int
    item: Item
    known: tuple[Fact, ...] | None
    found: tuple[Sentence, ...]


def store(banks: Banks, bank: Bank, items: Sequence[Item]) -> Stored:
    """Each document's items together; one that fails leaves its document as it was and does not stop the others."""
    facts, read, failure = 0, 0, None
    for document_id in dict.fromkeys(item.document_id for item in items):
        try:
            done = _store_document(banks, bank, [item for item in items if item.document_id == document_id])
        except ExtractionFailedError as error:
            failure = failure or str(error)
        else:
            facts, read = facts + done.facts, read + done.tokens
    return Stored(facts, read, failure)


def _store_document(banks: Banks, bank: Bank, items: Sequence[Item]) -> Stored:
    now = banks.now()
    last = items[-1]
    old = bank.documents.get(last.document_id)
    kept = old.chunks if old is not None and items[0].append else ()
    chunks = _chunks(bank, old, items, len(kept))
    tags = tuple(dict.fromkeys(tag for item in items for tag in item.tags))
    staying = [_marked(fact, tags, last) for fact in bank.facts_of(last.document_id) if fact.chunk < len(kept)]
    facts = staying + [fact for chunk in chunks for fact in _facts(banks, bank, chunk)]
    new = _settle(bank, last.document_id, facts)
    bank.documents[last.document_id] = Document(
        id=last.document_id,
        chunks=(*kept, *(item.content for item in items)),
        facts=tuple(fact.id for fact in facts),
        tags=tags,
        metadata=last.metadata,
        params=last.params,
        created_at=now if old is None else old.created_at,
        updated_at=now,
    )
    return Stored(new, sum(tokens(chunk.item.content) for chunk in chunks if chunk.known is None))


def _chunks(bank: Bank, old: Document | None, items: Sequence[Item], first: int) -> list[_Chunk]:
    """An unchanged chunk of a replaced document keeps its facts; every other one is extracted."""
    before = {} if old is None or first else {text: index for index, text in enumerate(old.chunks)}
    facts = [] if old is None else bank.facts_of(old.id)
    chunks: list[_Chunk] = []
    for index, item in enumerate(items, first):
        place = before.pop(item.content, None)
        if place is None:
            chunks.append(_Chunk(index, item, None, sentences(item.content)))
        else:
            chunks.append(_Chunk(index, item, tuple(fact for fact in facts if fact.chunk == place), ()))
    return chunks


def _facts(banks: Banks, bank: Bank, chunk: _Chunk) -> list[Fact]:
    item = chunk.item
    if chunk.known is not None:
        return [replace(fact, chunk=chunk.index, tags=item.tags, metadata=item.metadata) for fact in chunk.known]
    return [_fact(banks, bank, chunk, order) for order in range(len(chunk.found))]


def _marked(fact: Fact, tags: tuple[str, ...], item: Item) -> Fact:
    same = (fact.tags, fact.metadata) == (tags, item.metadata)
    return fact if same else replace(fact, tags=tags, metadata=item.metadata)


def _fact(banks: Banks, bank: Bank, chunk: _Chunk, order: int) -> Fact:
    item, sentence, later = chunk.item, chunk.found[order], BETWEEN_FACTS * order
    entities = tuple(dict.fromkeys((*item.entities, *sentence.entities)))
    for name in entities:
        if name not in bank.entities:
            bank.entities[name] = banks.new_id()
    return Fact(
        id=banks.new_id(),
        text=sentence.text,
        type=sentence.type,
        words=words(sentence.text),
        document_id=item.document_id,
        chunk=chunk.index,
        tags=item.tags,
        metadata=item.metadata,
        context=item.context,
        mentioned_at=None if item.timestamp is None else item.timestamp + later,
        start=None if sentence.start is None else sentence.start + later,
        end=None if sentence.end is None else sentence.end + later,
        entities=entities,
        updated_at=banks.now(),
    )


def _settle(bank: Bank, document_id: str, facts: Sequence[Fact]) -> int:
    """Facts that the document has no longer go, the others are kept as they are now. The count of new ones."""
    before = {fact.id: fact for fact in bank.facts_of(document_id)}
    forget_facts(bank, before.keys() - {fact.id for fact in facts})
    for fact in facts:
        was = before.get(fact.id)
        moved = was is not None and set(was.tags) != set(fact.tags)
        if moved:
            withdraw(bank, fact.id)
        bank.put(replace(fact, consolidated_at=None) if moved else fact)
    return sum(fact.id not in before for fact in facts)
