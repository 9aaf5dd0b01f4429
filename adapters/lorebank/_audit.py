"""`bank.audit`: what of a bank should be looked at by a person. The body of `Bank`'s verb of this name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lorebank._connections import Opened
from lorebank._domain.archive import Archived, Entry, Progress
from lorebank._domain.audit import Audit, Book, Finding
from lorebank._domain.scope import PROJECT
from lorebank.errors import UsageError

if TYPE_CHECKING:
    from lorebank._mnemopi.facts.truth import Slot, Statement

SAID = 200
"""Memories between two words of progress."""


def audit(self: Opened, *, progress: Progress | None = None) -> Audit:
    """Looks for what should not be in the bank that this handle writes to, or not as it is: junk, duplicates and near
    duplicates, what memory itself told and was told again, secrets, what is over, and what contradicts a later memory.

    Nothing is changed. Memories that are no longer true are passed over, and so are those that a later one has taken the place
    of, where contradictions are meant. The bank is read page by page, about as an export reads it; of each memory some hundred
    bytes are kept until the end (its id, digests, the numbers of its words), never its text. `progress(done, total)` hears how
    many memories have been looked at.
    """
    if progress is not None and not callable(progress):
        raise UsageError(f"`progress` must be a function of (done, total); found {type(progress).__name__}")
    from lorebank._mnemopi.search.terms import terms  # the stemmer loads when it is needed

    book, claims, done = Book(terms, datetime.now(UTC)), _Claims(), 0
    with self.connections.backend.archive.dump(self.scope) as dump:
        for done, entry in enumerate(_memories(dump.records), 1):
            book.enter(entry)
            claims.enter(entry)
            if progress is not None and done % SAID == 0:
                progress(done, max(done, dump.memories))
    if progress is not None:
        progress(done, done)
    return Audit(self.scope.bank, book.memories, book.findings(claims.findings()))


def _memories(records: Iterable[Archived]) -> Iterator[Entry]:
    """The memories, which come first; what comes after them is not asked for."""
    for record in records:
        if not isinstance(record, Entry):
            return
        yield record


class _Claims:
    """What memories state that can be one thing at a time."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._stated: dict[Slot, list[Statement]] = defaultdict(list)

    def enter(self, entry: Entry) -> None:
        """Notes what a memory states, where it counts as what holds now."""
        from lorebank._mnemopi.facts.rules import facts_of
        from lorebank._mnemopi.facts.truth import Statement
        from lorebank._mnemopi.search.terms import words

        if entry.invalidated_at is not None or entry.superseded_by is not None or entry.type == "observation":
            return
        item = entry.item
        at = 0 if entry.said is None else int(entry.said.timestamp())
        realm = "\n".join(sorted(tag for tag in item.tags if tag.startswith(PROJECT)))
        for fact in facts_of(item.content, words(item.content), item.speaker):
            slot = (0, realm, fact.subject, fact.relation)
            self._stated[slot].append(Statement(len(self._ids), slot, frozenset(fact.value), fact.holds, at))
        self._ids.append(entry.id)

    def findings(self) -> Iterator[Finding]:
        """Pairs of memories of which the second says something else than the first."""
        from lorebank._mnemopi.facts.truth import superseded

        for slot, statements in self._stated.items():
            for former, later in superseded(statements).items():
                if former.key != later.key:
                    when = datetime.fromtimestamp(later.at, UTC)
                    what = " ".join(slot[2:]).strip()
                    reason = f"they differ on {what!r}: the later one is of {when:%Y-%m-%d}"
                    yield Finding("contradicting", (self._ids[former.key], self._ids[later.key]), reason)
