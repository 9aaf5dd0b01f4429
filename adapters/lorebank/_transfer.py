"""`bank.export` and `bank.import_`: a bank's memories in a file, and a file's memories in a bank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from lorebank._archive import files
from lorebank._archive.foreign import Choice, parse_choice, read_foreign
from lorebank._connections import Opened
from lorebank._domain.archive import (
    MOST_REASONS,
    Archived,
    ArchiveFormat,
    Entry,
    ExportReport,
    FormerText,
    ImportReport,
    Loaded,
    ModelEntry,
    Progress,
    Rejection,
)
from lorebank._domain.events import Redacted
from lorebank._domain.item import Item
from lorebank._domain.operations import Directive
from lorebank._domain.records import header, is_header
from lorebank._domain.redaction import Redactor
from lorebank._domain.scope import PROJECT
from lorebank._domain.settings import RetainSettings
from lorebank._writing import admit_items
from lorebank.errors import GarbledError, UsageError

SAID = 200
"""Records between two words of progress."""
LONGEST_FIRST_LINE = 1 << 16
LARGEST_FOREIGN = 1 << 30
"""Bytes of another library's file, which is read whole."""


def export(
    self: Opened, path: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress | None = None
) -> ExportReport:
    """Writes the bank that this handle writes to into a file of JSON Lines, with a checksum in its last line.

    It holds all that is stored of every memory, in whatever state, and the mental models with their history; of a server's
    bank what the server tells, documents' metadata and directives, too. Vectors are not in it: they are made anew after an
    import. Mnemopi gives the bank as it was at one moment. The file (0600) appears under its name once it is whole; one that
    exists is refused, unless with `overwrite`. `progress(done, total)` hears how many records are written.
    """
    connections, target = self.connections, files.parse_path(path)
    hear = _checked(progress)
    with files.writing(target, overwrite=overwrite) as file, connections.backend.archive.dump(self.scope) as dump:
        counted = dump.memories if self.scope.required is None else None  # how many others there are is nobody's business
        file.head(header(self.scope.bank, connections.backend.name, datetime.now(UTC), counted))
        done = 0
        for done, record in enumerate(dump.records, 1):
            file.add(record)
            if done % SAID == 0:
                hear(done, max(done, dump.memories))
        checksum = file.finish()
        hear(done, done)
        counts = file.counts
    held = counts["memory"], counts["mental_model"], counts["document"], counts["directive"]
    return ExportReport(str(target), file.bytes, *held, checksum)


def import_(
    self: Opened,
    path: str | os.PathLike[str],
    *,
    format: ArchiveFormat = "auto",
    only: str | None = None,
    roles: Sequence[str] = ("user", "assistant"),
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Writes what a file holds into the bank that this handle writes to, each memory once, however often it is imported.

    The file is checked whole before anything is written: an archive line by line and against its checksum, with the number
    of the line that is wrong (`GarbledError`). On Mnemopi all is written in one transaction, with ids, order and places in
    sessions as they were; on a server memories are queued, each as a document of its own. What the bank holds is not
    changed: a memory that it has is `known`; one whose id another memory has gets a new id. Secrets are taken out, and
    `before_enqueue` is asked, as for `retain`; the scope's tags are added.

    Other libraries' files (`format`, found out by default): messages of LangChain, chat stores and messages of LlamaIndex,
    exports of mem0. `only` names the user of a mem0 export, or the chat of a chat store, that is meant; `roles` whose
    messages are taken. `dry_run` writes nothing and reports what would become of it. `progress(done, total)` hears of
    the bytes of an archive, which is read twice, or of the memories of another file.
    """
    connections, place = self.connections, files.parse_path(path)
    choice, hear = parse_choice(format, only, roles), _checked(progress)
    with files.opened(place) as file:
        source, passage = _Source(file, place, choice, hear), _Passage(connections.settings.retain, self.scope.stamp)
        source.check()
        loaded = connections.backend.archive.load(self.scope, passage.admitted(source.records()), dry_run=dry_run)
    if passage.redactions and not dry_run:
        connections.tell(Redacted(self.scope.bank, passage.redactions))
    return _report(source, passage, loaded, dry_run=dry_run)


def _report(source: _Source, passage: _Passage, loaded: Loaded, *, dry_run: bool) -> ImportReport:
    reasons = (*passage.reasons, *loaded.rejected)
    return ImportReport(
        str(source.path),
        source.format,
        loaded.added,
        loaded.known,
        loaded.queued,
        passage.rejected + len(loaded.rejected),
        reasons[:MOST_REASONS],
        loaded.mental_models,
        loaded.directives,
        source.skipped,
        passage.redactions,
        dry_run,
    )


def _checked(progress: object) -> Callable[[int, int], object]:
    if progress is None:
        return lambda _done, _total: None
    if not callable(progress):
        raise UsageError(f"`progress` must be a function of (done, total); found {type(progress).__name__}")
    return progress


class _Source:
    """A file that is imported, of whatever format."""

    def __init__(self, file: BinaryIO, path: Path, choice: Choice, hear: Callable[[int, int], object]) -> None:
        self._file, self.path, self._hear = file, path, hear
        self.skipped = 0
        self._foreign: tuple[Entry, ...] = ()
        self._size = os.fstat(file.fileno()).st_size
        own = is_header(file.readline(LONGEST_FIRST_LINE))
        file.seek(0)
        if choice.format == "lorebank" or (choice.format == "auto" and own):
            if choice.wanted.only is not None:
                raise UsageError("`only` is for files of several users or chats; an archive of lorebank's is one bank's")
            self.format = "lorebank"
        else:
            self._read_foreign(choice)

    def _read_foreign(self, choice: Choice) -> None:
        if self._size > LARGEST_FOREIGN:
            raise UsageError(f"`{self.path}` has more than {LARGEST_FOREIGN:,} bytes: split it")
        try:
            self.format, read = read_foreign(self._file.read(), self.path.stem, choice)
        except UsageError as error:
            raise UsageError(f"`{self.path}`: {error}") from None
        self._foreign, self.skipped = tuple(read.entries), read.skipped

    def check(self) -> None:
        """Reads all of an archive; another file has been checked when it was read."""
        if self.format == "lorebank":
            for _ in self._archived(0):
                pass

    def records(self) -> Iterator[Archived]:
        """All that the file holds. An archive is checked again meanwhile: it may have changed."""
        return self._archived(self._size) if self.format == "lorebank" else self._counted()

    def _archived(self, before: int) -> Iterator[Archived]:
        try:
            yield from files.records(self._file, _Steps(self._hear, before, 2 * self._size))
        except GarbledError as error:
            raise GarbledError(f"`{self.path}`, {error}. Nothing was imported") from None

    def _counted(self) -> Iterator[Entry]:
        for done, entry in enumerate(self._foreign, 1):
            if done % SAID == 0 or done == len(self._foreign):
                self._hear(done, len(self._foreign))
            yield entry


@dataclass(slots=True)
class _Steps:
    """Tells of progress now and then."""

    hear: Callable[[int, int], object]
    before: int
    total: int
    calls: int = 0

    def __call__(self, done: int) -> None:
        self.calls += 1
        if self.calls % SAID == 0 or self.before + done in (self.total, self.total // 2):
            self.hear(self.before + done, self.total)


@dataclass(slots=True)
class _Passage:
    """What is imported passes here: as `retain` lets it pass."""

    settings: RetainSettings
    stamp: tuple[str, ...] = ()
    rejected: int = 0
    redactions: int = 0
    reasons: list[Rejection] = field(default_factory=list[Rejection])

    def admitted(self, records: Iterable[Archived]) -> Iterator[Archived]:
        """What may be written, without secrets."""
        for record in records:
            passed = self._entry(record) if isinstance(record, Entry) else self._beside(record)
            if passed is not None:
                yield passed

    def _entry(self, entry: Entry) -> Entry | None:
        admitted = admit_items((self._moved(entry.item),), self.settings)
        self.redactions += admitted.redactions
        if admitted.items:
            return entry.with_item(admitted.items[0])
        self.rejected += 1
        if len(self.reasons) < MOST_REASONS:
            self.reasons.append(Rejection(entry.id, admitted.rejected[0].reason or "refused", entry.line))
        return None

    def _moved(self, item: Item) -> Item:
        """An item as the scope's project has it: it leaves the project that it comes from."""
        others = tuple(tag for tag in item.tags if tag.startswith(PROJECT) and tag not in self.stamp)
        if not others or not any(tag.startswith(PROJECT) for tag in self.stamp):
            return item
        return item.rewritten(tags=tuple(tag for tag in item.tags if tag not in others))

    def _beside(self, record: Archived) -> Archived:
        """Mental models and directives without secrets; what else there is says nothing of its own."""
        redactor = self.settings.redactor
        if redactor is None:
            return record
        if isinstance(record, ModelEntry):
            return self._model(record, redactor)
        if isinstance(record, Directive):
            return replace(record, name=self._plain(record.name, redactor), content=self._plain(record.content, redactor))
        return record

    def _model(self, entry: ModelEntry, redactor: Redactor) -> ModelEntry:
        model = replace(
            entry.model,
            name=self._plain(entry.model.name, redactor),
            source_query=self._plain(entry.model.source_query, redactor),
            content=self._plain(entry.model.content, redactor),
        )
        former = tuple(FormerText(self._plain(each.content, redactor), each.replaced_at, each.record) for each in entry.history)
        return replace(entry, model=model, history=former)

    def _plain(self, text: str, redactor: Redactor) -> str:
        plain, found = redactor(text)
        self.redactions += found
        return plain
