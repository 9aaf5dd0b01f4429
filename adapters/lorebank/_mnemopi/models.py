"""Mental models on Mnemopi: standing questions answered from ranked memories, with their history.

A refresh recalls the model's question and writes down the best memories within its token bound; unchanged content
keeps its bytes and adds no revision. Forgetting a memory rewrites what was written from it and drops the revisions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select, update

from lorebank._database.engine import Database
from lorebank._domain.blocks import fold
from lorebank._domain.memory import RecallResult
from lorebank._domain.mental_model import MentalModel, Revision
from lorebank._domain.scope import Leaf, Scope, TagRule
from lorebank._mnemopi.edits import based_on
from lorebank._mnemopi.rows import from_ticks, maybe_moment, tags_of, to_json
from lorebank._mnemopi.schema import models, revisions
from lorebank._mnemopi.store import bank_number, ensure_bank
from lorebank._mnemopi.upkeep import owe_purge
from lorebank.errors import MissingError, RefusedError

Recaller = Callable[[Connection, Scope, str, int, TagRule | None], RecallResult]
"""Recalls a question within a token bound and under a tag rule, inside a transaction."""


_EMPTY: dict[str, Any] = {"content": "", "based_on": None, "refreshed_at": None}


@dataclass(frozen=True, slots=True)
class ModelStore:
    """The mental models of a database."""

    database: Database
    recaller: Recaller
    now: Callable[[], int]

    def list(self, scope: Scope) -> tuple[MentalModel, ...]:
        with self.database.read() as connection:
            number = bank_number(connection, scope.bank)
            query = select(models).where(models.c.bank == number).order_by(models.c.id)
            found = [_to_model(row) for row in connection.execute(query).mappings()] if number is not None else []
            return tuple(model for model in found if scope.admits(model.tags))

    def get(self, scope: Scope, model_id: str) -> MentalModel:
        with self.database.read() as connection:
            return self._found(connection, scope, model_id)[1]

    def create(self, scope: Scope, model: MentalModel) -> MentalModel:
        """Creates the model and writes its first content."""
        with self.database.write() as connection:
            number = ensure_bank(connection, scope.bank)
            if connection.execute(select(models.c.id).where(*_at(number, model.id))).first():
                raise RefusedError(
                    f"the mental model {model.id!r} exists already in {scope.bank!r}; update it, or choose another id"
                )
            values = {"bank": number, "id": model.id, "content": "", **_columns(model)}
            connection.execute(insert(models).values(values))
            return self._refreshed(connection, scope, number, model)

    def update(self, scope: Scope, model_id: str, fields: Mapping[str, Any]) -> MentalModel:
        """Changes the given fields; content given by hand is a revision like any other."""
        with self.database.write() as connection:
            number, model = self._found(connection, scope, model_id)
            values = {**fields, "tags": to_json(fields["tags"])} if "tags" in fields else dict(fields)
            if "content" in values and values["content"] != model.content:
                self._archive(connection, number, model)
                values["based_on"] = None
            if values:
                connection.execute(update(models).where(*_at(number, model_id)).values(values))
            return self._found(connection, scope, model_id)[1]

    def refresh(self, scope: Scope, model_id: str) -> MentalModel:
        """Answers the model's question anew."""
        with self.database.write() as connection:
            number, model = self._found(connection, scope, model_id)
            return self._refreshed(connection, scope, number, model)

    def history(self, scope: Scope, model_id: str) -> tuple[Revision, ...]:
        """What the model said before, newest first."""
        with self.database.read() as connection:
            number, _ = self._found(connection, scope, model_id)
            query = (
                select(revisions)
                .where(revisions.c.bank == number, revisions.c.model == model_id)
                .order_by(revisions.c.number.desc())
            )
            return tuple(Revision(row.content, from_ticks(row.replaced_at)) for row in connection.execute(query))

    def delete(self, scope: Scope, model_id: str) -> None:
        """Deletes the model and its history."""
        with self.database.write() as connection:
            number, _ = self._found(connection, scope, model_id)
            _delete(connection, number, [model_id])
            owe_purge(connection)

    def touched(self, connection: Connection, scope: Scope, ids: Sequence[str]) -> None:
        """Answers the models anew that were written from these memories, since what they say has changed.

        Those of the scope's own bank at once; those of other banks say nothing until their next refresh.
        """
        own = bank_number(connection, scope.bank)
        for number, model in _written_from(connection, ids):
            if number == own:
                self._refreshed(connection, scope, number, model, keep=False)
            else:
                self._archive(connection, number, model)
                connection.execute(update(models).where(*_at(number, model.id)).values(_EMPTY))

    def forgotten(self, connection: Connection, scope: Scope, ids: Sequence[str]) -> None:
        """Leaves nothing of forgotten memories in any model of the file, nor in its history."""
        gone = set(ids)
        for row in connection.execute(select(revisions.c.number, revisions.c.based_on)).all():
            if not gone.isdisjoint(based_on(row.based_on)):
                connection.execute(delete(revisions).where(revisions.c.number == row.number))
        own = bank_number(connection, scope.bank)
        for number, model in _written_from(connection, ids):
            connection.execute(update(models).where(*_at(number, model.id)).values(_EMPTY))
            if number == own:
                self._refreshed(connection, scope, number, replace(model, content=""), keep=False)

    def _found(self, connection: Connection, scope: Scope, model_id: str) -> tuple[int, MentalModel]:
        number = bank_number(connection, scope.bank)
        row = connection.execute(select(models).where(*_at(number or 0, model_id))).mappings().first()
        if row is None or not scope.admits(_to_model(row).tags):
            raise MissingError(f"no mental model {model_id!r} in {scope.bank!r}")
        return row["bank"], _to_model(row)

    def _refreshed(
        self, connection: Connection, scope: Scope, number: int, model: MentalModel, *, keep: bool = True
    ) -> MentalModel:
        """Writes the answer of now. With `keep`, a good answer is not replaced by none."""
        rule = _rule(model)
        result = self.recaller(connection, scope, model.source_query, model.max_tokens, rule)
        content = "\n".join(f"- {fold(memory.text)}" for memory in result)
        values: dict[str, Any] = {"refreshed_at": self.now()}
        if content or not keep:
            values |= {"content": content, "based_on": json.dumps([memory.id for memory in result])}
        if values.get("content", model.content) != model.content:
            self._archive(connection, number, model)
        connection.execute(update(models).where(*_at(number, model.id)).values(values))
        return _to_model(connection.execute(select(models).where(*_at(number, model.id))).mappings().one())

    def _archive(self, connection: Connection, number: int, model: MentalModel) -> None:
        if model.content:
            values = {"bank": number, "model": model.id, "content": model.content, "replaced_at": self.now()}
            connection.execute(insert(revisions).values({**values, "based_on": json.dumps(model.based_on)}))


def _written_from(connection: Connection, ids: Sequence[str]) -> list[tuple[int, MentalModel]]:
    """The models of the file, each with its bank's number, that were written from one of these memories."""
    found = connection.execute(select(models)).mappings().all()
    return [(row["bank"], _to_model(row)) for row in found if not set(ids).isdisjoint(based_on(row["based_on"]))]


def _rule(model: MentalModel) -> TagRule | None:
    """What a model may be written from: untagged memories and those with one of its tags. A project is a bank here, so its
    tag says nothing about memories.
    """
    tags = tuple(tag for tag in model.tags if not tag.startswith("project:"))
    return Leaf(tags, "any") if tags else None


def _at(number: int, model_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return models.c.bank == number, models.c.id == model_id


def _delete(connection: Connection, number: int, ids: Sequence[str]) -> None:
    connection.execute(delete(revisions).where(revisions.c.bank == number, revisions.c.model.in_(ids)))
    connection.execute(delete(models).where(models.c.bank == number, models.c.id.in_(ids)))


def _columns(model: MentalModel) -> dict[str, Any]:
    return {"name": model.name, "source_query": model.source_query, "tags": to_json(model.tags), "max_tokens": model.max_tokens}


def _to_model(row: RowMapping) -> MentalModel:
    return MentalModel(
        id=row["id"],
        name=row["name"],
        source_query=row["source_query"],
        content=row["content"],
        tags=tags_of(row["tags"]),
        max_tokens=row["max_tokens"],
        refreshed_at=maybe_moment(row["refreshed_at"]),
        based_on=based_on(row["based_on"]),
    )
