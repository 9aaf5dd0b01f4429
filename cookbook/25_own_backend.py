"""Write your own backend. You learn: `lorebank.seams.PartialBackend`, which verbs tools and retrievers need, what a `Scope` says,
and `lorebank.testing.check_backend`, which tells what your backend keeps of what any backend promises.

Runs offline: memories in a dictionary, found by their words. Agents that recall and retain on their own need one line more:
`self.sessions = SessionFile("sqlite:///sessions.db", self.retain)`, from `lorebank.seams`, too.
"""

import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from langchain_lorebank import BankRetriever
from lorebank import Item, Memory, MissingError, Outcome, RecallResult, Receipt, Removal, open_bank
from lorebank.seams import ListRequest, PartialBackend, RecallRequest, Scope, Writer
from lorebank.testing import check_backend


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if len(word) > 3}


class Shelf(PartialBackend):
    """Banks in this process: `bank` of a scope is written, `searched` are read, and `admits` says which tags may be seen."""

    def __init__(self) -> None:
        self.banks: dict[str, list[Memory]] = {}
        self.lock = threading.Lock()  # verbs come from several threads at once

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        with self.lock:
            shelf, now = self.banks.setdefault(scope.bank, []), datetime.now(UTC)
            stored, known = [], []
            for item in items:
                same = next((memory for memory in shelf if memory.text == item.content), None)
                if same is None:
                    same = Memory(uuid.uuid4().hex, item.content, item.type or writer.type, mentioned_at=item.timestamp or now)
                    same = replace(same, tags=(*item.tags, *scope.stamp), metadata=item.metadata or {}, bank=scope.bank)
                    shelf.append(same)
                    stored.append(Outcome(same.id))
                else:
                    known.append(Outcome(same.id, "known already"))
        return Receipt(stored=tuple(stored), duplicates=tuple(known))

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        asked, rule = words(request.query), scope.narrowed(request.rule)
        read = [memory for memory in self.read(scope) if memory.type in request.types and (not rule or rule.admits(memory.tags))]
        scored = [replace(memory, score=len(asked & words(memory.text))) for memory in read]
        found, left = [], request.max_tokens
        for memory in sorted((each for each in scored if each.score), key=lambda each: -each.score)[: request.limit]:
            left -= request.count_tokens(memory.text)
            found += [memory] if left >= 0 else []
        return RecallResult("found" if found else "nothing", request.query, tuple(found))

    def get(self, scope: Scope, memory_id: str) -> Memory:
        if found := [memory for memory in self.read(scope) if memory.id == memory_id and scope.admits(memory.tags)]:
            return found[0]
        raise MissingError(f"no memory {memory_id!r} on this shelf")

    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        shown = [memory for memory in self.read(scope) if request.types is None or memory.type in request.types]
        return tuple(shown[::-1][request.offset : request.offset + request.limit])

    def clear(self, scope: Scope) -> Removal:
        return Removal(tuple(memory.id for memory in self.banks.pop(scope.bank, [])))

    def read(self, scope: Scope) -> Iterator[Memory]:
        return iter([memory for bank in scope.searched for memory in self.banks.get(bank, [])])


with open_bank(backend=Shelf(), bank="ana") as bank:
    bank.retain(["Ana prefers aisle seats.", "Ana plays the cello."])
    print("retriever:", [document.page_content for document in BankRetriever(bank).invoke("Which seats does Ana prefer?")])
for promise in check_backend(Shelf):
    print(promise)
