"""Mental models in exports and imports: their texts, their history, and what these were written from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, RowMapping, insert, select, update

from lorebank._domain.archive import FormerText, ModelEntry, Record, Rejection, following, sources_of
from lorebank._domain.mental_model import MODEL_ID
from lorebank._domain.scope import Scope
from lorebank._mnemopi.merging import Merge
from lorebank._mnemopi.models import to_model
from lorebank._mnemopi.rows import from_ticks, maybe_ticks, to_json, to_ticks
from lorebank._mnemopi.schema import models, revisions

_OTHER = "the bank has a mental model with this id that says something else: delete or rename it first"
_UNFIT = f"the id of a mental model must match {MODEL_ID.pattern}"


def dump_models(connection: Connection, scope: Scope, number: int) -> Iterator[ModelEntry]:
    """The bank's mental models by id, as far as the scope may read them."""
    for row in connection.execute(select(models).where(models.c.bank == number).order_by(models.c.id)).mappings().all():
        model = to_model(row)
        if scope.admits(model.tags):
            history = tuple(
                FormerText(former["content"], from_ticks(former["replaced_at"]), _record(former["based_on"]))
                for former in _history(connection, number, model.id)
            )
            yield ModelEntry(model, _record(row["based_on"]), history)


def _history(connection: Connection, number: int, model: str) -> Sequence[RowMapping]:
    columns = select(revisions.c.content, revisions.c.replaced_at, revisions.c.based_on)
    mine = columns.where(revisions.c.bank == number, revisions.c.model == model)
    return connection.execute(mine.order_by(revisions.c.number)).mappings().all()


def _record(stored: str | None) -> Record | None:
    return sources_of(json.loads(stored)) if stored else None


def load_models(connection: Connection, merge: Merge, entries: Sequence[ModelEntry]) -> tuple[int, list[Rejection]]:
    """Writes the models that the bank lacks, and the texts of those that say nothing yet; gives how many, and those that the
    bank has with another text. Those that it has with the same are left as they are.
    """
    added, refused = 0, list[Rejection]()
    for entry in entries:
        reason = None if MODEL_ID.fullmatch(entry.model.id) else _UNFIT
        held = None if reason else _held(connection, merge, entry)
        if held is not None and held["content"] == entry.model.content and held["source_query"] == entry.model.source_query:
            continue
        if held is not None and (held["content"] or held["source_query"] != entry.model.source_query):
            reason = _OTHER
        if reason is not None:
            refused.append(Rejection(entry.model.id, reason, entry.line))
            continue
        added += 1
        if merge.writing and merge.number is not None:
            _write(connection, merge.number, entry, merge, new=held is None)
    return added, refused


def _held(connection: Connection, merge: Merge, entry: ModelEntry) -> RowMapping | None:
    at = models.c.bank == (merge.number or 0), models.c.id == entry.model.id
    return connection.execute(select(models.c.content, models.c.source_query).where(*at)).mappings().first()


def _write(connection: Connection, number: int, entry: ModelEntry, merge: Merge, *, new: bool) -> None:
    model = entry.model
    said = {
        "content": model.content,
        "refreshed_at": maybe_ticks(model.refreshed_at),
        "based_on": to_json(following(entry.record, merge.ids)),
    }
    if new:
        asked = {"name": model.name, "source_query": model.source_query, "max_tokens": model.max_tokens}
        told = {"bank": number, "id": model.id, **asked, "tags": to_json(model.tags), "trigger": model.trigger}
        connection.execute(insert(models).values({**told, **said}))
    else:
        connection.execute(update(models).where(models.c.bank == number, models.c.id == model.id).values(said))
    former = [
        {
            "bank": number,
            "model": model.id,
            "content": each.content,
            "replaced_at": to_ticks(each.replaced_at),
            "based_on": to_json(following(each.record, merge.ids)),
        }
        for each in entry.history
    ]
    if former:
        connection.execute(insert(revisions), former)
