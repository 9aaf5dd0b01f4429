"""Exports of a server's bank, as far as the server tells of it."""

from __future__ import annotations

import heapq
import json
import re
import tempfile
from array import array
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from lorebank._domain.archive import Archived, Dump, Entry, FormerText, ModelEntry, entry_of, sources_of
from lorebank._domain.memory import storable
from lorebank._domain.records import LONGEST_LABEL, line_of, read_line
from lorebank._domain.requests import ListRequest
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import Papers, Standings
from lorebank._hindsight.memories import newest, streams
from lorebank._hindsight.models import ModelHandle
from lorebank._hindsight.server import PAGE, Server
from lorebank._hindsight.upkeep import stats

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class BankArchive:
    """The scope's own bank on a server: memories in every state, documents without their texts, mental models, directives.

    A server gives no snapshot: what is written while it is read may be in it or not.
    """

    def __init__(self, server: Server, models: ModelHandle) -> None:
        self._server, self._models = server, models

    @contextmanager
    def dump(self, scope: Scope) -> Generator[Dump]:
        counted = stats(self._server, scope)
        yield Dump(counted.memories + counted.invalidated, self._records(scope))

    def _records(self, scope: Scope) -> Iterator[Archived]:
        request = ListRequest(limit=PAGE, kept="all")
        found = heapq.merge(*streams(self._server, scope.bank, request, PAGE), key=newest, reverse=True)
        yield from oldest_first(
            cleaned(entry_of(each.memory())) for each in found if each.unit.known and scope.admits(each.unit.tags)
        )
        for paper in self._server.pages(Papers, scope.bank, "documents", query={}, size=100):
            if scope.admits(paper.tags):
                yield paper.document()
        for listed in self._models.list(scope):
            yield self._model(scope, listed.id)
        for each in self._server.pages(Standings, scope.bank, "directives", query={"active_only": "false"}, size=100):
            if scope.admits(each.tags):
                yield each.directive()

    def _model(self, scope: Scope, model_id: str) -> ModelEntry:
        model = self._models.get(scope, model_id)
        former = reversed(self._models.history(scope, model_id))
        history = tuple(FormerText(each.content, each.replaced_at) for each in former)
        return ModelEntry(model, sources_of(list(model.based_on)), history)


def cleaned(entry: Entry) -> Entry:
    """An entry of a server's words, without what no database can store."""
    item = entry.item
    metadata: object = json.loads(storable(json.dumps(item.metadata or {}, ensure_ascii=False)))
    plain = item.rewritten(
        content=storable(item.content),
        context=storable(item.context) if item.context and item.context.strip() else None,
        metadata=cast("dict[str, Any]", metadata) or None,
        tags=_labels(item.tags),
        entities=_labels(item.entities),
        session=next(iter(_labels([item.session or ""])), None),
        speaker=next(iter(_labels([item.speaker or ""])), None),
        document_id=next(iter(_labels([item.document_id or ""])), None),
    )
    return replace(entry, item=plain)


def _labels(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts as labels, without those that are blank."""
    plain = (_CONTROL.sub(" ", storable(text)).strip()[:LONGEST_LABEL] for text in texts)
    return tuple(dict.fromkeys(text for text in plain if text))


def oldest_first(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries the other way round. A server lists the newest first; they wait in a file that vanishes, not in memory."""
    with tempfile.TemporaryFile(prefix="lorebank-") as file:
        places = array("q")
        for entry in entries:
            places.append(file.tell())
            file.write(line_of(entry)[1])
        for place in reversed(places):
            file.seek(place)
            if isinstance(kept := read_line(file.readline(), 0), Entry):
                yield kept
