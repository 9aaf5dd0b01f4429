"""Mental models on Mnemopi: standing questions answered from memories, with their history.

A refresh recalls the model's question and writes down the best memories within its token bound, or what a completer makes
of them; unchanged content keeps its bytes and adds no revision. Forgetting a memory rewrites what was written from it and
drops the revisions. With a completer only the lines that owe something to the memory go: the next refresh asks it again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, RowMapping, delete, insert, literal, select, update

from lorebank._database.engine import Database
from lorebank._domain.blocks import fold
from lorebank._domain.memory import RecallResult
from lorebank._domain.mental_model import MentalModel, Revision
from lorebank._domain.ports import Completer
from lorebank._domain.scope import Leaf, Scope, TagRule
from lorebank._mnemopi.edits import based_on
from lorebank._mnemopi.rows import from_ticks, maybe_moment, tags_of, to_json
from lorebank._mnemopi.schema import memories, models, revisions
from lorebank._mnemopi.store import bank_number, ensure_bank
from lorebank._mnemopi.synthesis import Task, Written, answered, cited, gathered, standing, versions, written
from lorebank._mnemopi.upkeep import owe_purge
from lorebank.errors import GarbledError, MissingError, RefusedError, UnavailableError

logger = logging.getLogger("lorebank")
Recaller = Callable[[Connection, Scope, str, int, TagRule | None], RecallResult]
"""Recalls a question within a token bound and under a tag rule, inside a transaction."""


_EMPTY: dict[str, Any] = {"content": "", "based_on": None, "refreshed_at": None}


@dataclass(frozen=True, slots=True)
class ModelStore:
    """The mental models of a database; `completer` writes the answers, where there is one."""

    database: Database
    recaller: Recaller
    now: Callable[[], int]
    completer: Completer | None = None

    def list(self, scope: Scope) -> tuple[MentalModel, ...]:
        with self.database.read() as connection:
            number = bank_number(connection, scope.bank)
            query = select(models).where(models.c.bank == number).order_by(models.c.id)
            found = [to_model(row) for row in connection.execute(query).mappings()] if number is not None else []
            return tuple(model for model in found if scope.admits(model.tags))

    def get(self, scope: Scope, model_id: str) -> MentalModel:
        with self.database.read() as connection:
            return self._found(connection, scope, model_id)[1]

    def create(self, scope: Scope, model: MentalModel) -> MentalModel:
        """Creates the model and writes its first content; where the completer fails, the model stays without one."""
        with self.database.write() as connection:
            number = ensure_bank(connection, scope.bank)
            if connection.execute(select(models.c.id).where(*_at(number, model.id))).first():
                raise RefusedError(
                    f"the mental model {model.id!r} exists already in {scope.bank!r}; update it, or choose another id"
                )
            values = {"bank": number, "id": model.id, "content": "", **_columns(model)}
            connection.execute(insert(models).values(values))
            if self.completer is None:
                return self._refreshed(connection, scope, number, model)
        try:
            return self._synthesised(scope, number, model.id, self.completer)
        except (UnavailableError, GarbledError) as error:
            logger.warning(
                "the mental model %r of %r is without an answer until it is refreshed: %s", model.id, scope.bank, error
            )
            return replace(model, content="")

    def update(self, scope: Scope, model_id: str, fields: Mapping[str, Any]) -> MentalModel:
        """Changes the given fields; content given by hand is a revision like any other."""
        with self.database.write() as connection:
            number, model = self._found(connection, scope, model_id)
            values = {**fields, "tags": to_json(fields["tags"])} if "tags" in fields else dict(fields)
            if "content" in values and values["content"] != model.content:
                self._archive(connection, number, model_id)
                values["based_on"] = None
            if values:
                connection.execute(update(models).where(*_at(number, model_id)).values(values))
            return self._found(connection, scope, model_id)[1]

    def refresh(self, scope: Scope, model_id: str) -> MentalModel:
        """Answers the model's question anew."""
        if self.completer is not None:
            with self.database.read() as connection:
                number, _ = self._found(connection, scope, model_id)
            return self._synthesised(scope, number, model_id, self.completer)
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

        Those of the scope's own bank at once; those of other banks say nothing until their next refresh. With a completer
        they lose the lines that owe something to memories which are no longer what they were.
        """
        own = bank_number(connection, scope.bank)
        homes = [bank_number(connection, name) for name in scope.reads]
        for row, _ in _written_from(connection, ids, homes):
            if self.completer is not None:
                answer = written(row["content"], row["based_on"])
                now = versions(standing(connection, scope, answer.sources.intersection(ids), self.now()))
                self._shed(connection, row, answer.changed(now).intersection(ids), keep=True)
            elif row["bank"] == own:
                self._refreshed(connection, scope, row["bank"], to_model(row), keep=False)
            else:
                self._archive(connection, row["bank"], row["id"])
                connection.execute(update(models).where(*_at(row["bank"], row["id"])).values(_EMPTY))

    def forgotten(self, connection: Connection, scope: Scope, ids: Sequence[str]) -> None:
        """Leaves nothing of forgotten memories in any model of the file, nor in its history."""
        for revision in connection.execute(select(revisions.c.number, revisions.c.bank, revisions.c.based_on)).all():
            if _meant(connection, revision.bank, set(ids).intersection(based_on(revision.based_on))):
                connection.execute(delete(revisions).where(revisions.c.number == revision.number))
        own = bank_number(connection, scope.bank)
        for row, gone in _written_from(connection, ids):
            if self.completer is not None:
                self._shed(connection, row, gone, keep=False)
                continue
            connection.execute(update(models).where(*_at(row["bank"], row["id"])).values(_EMPTY))
            if row["bank"] == own:
                self._refreshed(connection, scope, row["bank"], replace(to_model(row), content=""), keep=False)

    def _shed(self, connection: Connection, row: RowMapping, gone: AbstractSet[str], *, keep: bool) -> None:
        """Takes the lines out of a model that owe something to memories that are gone; with `keep`, history keeps them."""
        before = written(row["content"], row["based_on"])
        after = before.without(gone)
        if after.lines != before.lines:
            if keep:
                self._archive(connection, row["bank"], row["id"])
            values = {"content": after.content, "based_on": after.record()}
            connection.execute(update(models).where(*_at(row["bank"], row["id"])).values(values))

    def _synthesised(self, scope: Scope, number: int, model_id: str, completer: Completer) -> MentalModel:
        """Has the completer answer the model's question, with no lock held, and writes down what still holds then."""
        with self.database.read() as connection:
            row = _row(connection, number, model_id)
            before, rule = to_model(row), _rule(to_model(row))
            recalled = self.recaller(connection, scope, before.source_query, before.max_tokens, rule).memories
            former = written(row["content"], row["based_on"]) if before.trigger == "delta" else Written()
            task = Task(scope, before.source_query, rule, before.max_tokens, self.now())
            material = gathered(connection, task, recalled, former)
        answer = answered(completer, material) if recalled else Written()
        with self.database.write() as connection:
            if not _overtaken(before, to_model(_row(connection, number, model_id))):
                now = versions(standing(connection, scope, answer.sources, self.now()))
                self._write(connection, number, model_id, answer.without(answer.changed(now)))
            return to_model(_row(connection, number, model_id))

    def _write(self, connection: Connection, number: int, model_id: str, answer: Written) -> None:
        """Writes an answer; a good one is not replaced by none."""
        values: dict[str, Any] = {"refreshed_at": self.now()}
        if answer.lines:
            values |= {"content": answer.content, "based_on": answer.record()}
            if answer.content != _row(connection, number, model_id)["content"]:
                self._archive(connection, number, model_id)
        connection.execute(update(models).where(*_at(number, model_id)).values(values))

    def _found(self, connection: Connection, scope: Scope, model_id: str) -> tuple[int, MentalModel]:
        number = bank_number(connection, scope.bank)
        row = connection.execute(select(models).where(*_at(number or 0, model_id))).mappings().first()
        if row is None or not scope.admits(to_model(row).tags):
            raise MissingError(f"no mental model {model_id!r} in {scope.bank!r}")
        return row["bank"], to_model(row)

    def _refreshed(
        self, connection: Connection, scope: Scope, number: int, model: MentalModel, *, keep: bool = True
    ) -> MentalModel:
        """Writes the answer of now. With `keep`, a good answer is not replaced by none."""
        rule = _rule(model)
        result = self.recaller(connection, scope, model.source_query, model.max_tokens, rule)
        there = {memory.id for memory in result}
        told = [memory for memory in result if memory.superseded_by not in there]
        content = "\n".join(f"- {fold(memory.text)}" for memory in told)
        values: dict[str, Any] = {"refreshed_at": self.now()}
        if content or not keep:
            values |= {"content": content, "based_on": json.dumps([memory.id for memory in told])}
        if values.get("content", model.content) != model.content:
            self._archive(connection, number, model.id)
        connection.execute(update(models).where(*_at(number, model.id)).values(values))
        return to_model(_row(connection, number, model.id))

    def _archive(self, connection: Connection, number: int, model_id: str) -> None:
        """Keeps what a model says now as a revision, with the record of what it was written from."""
        told = (models.c.bank, models.c.id, models.c.content, literal(self.now(), BigInteger), models.c.based_on)
        said = select(*told).where(*_at(number, model_id), models.c.content != "")
        connection.execute(insert(revisions).from_select(["bank", "model", "content", "replaced_at", "based_on"], said))


def _row(connection: Connection, number: int, model_id: str) -> RowMapping:
    row = connection.execute(select(models).where(*_at(number, model_id))).mappings().first()
    if row is None:
        raise MissingError(f"the mental model {model_id!r} is no longer there")
    return row


def _written_from(
    connection: Connection, ids: Sequence[str], homes: Sequence[int | None] = ()
) -> list[tuple[RowMapping, frozenset[str]]]:
    """The models of the file, of whatever bank, that were written from some of these memories, and from which. `homes` are the
    banks in which they are.
    """
    found: list[tuple[RowMapping, frozenset[str]]] = []
    for row in connection.execute(select(models)).mappings().all():
        named = frozenset(ids).intersection(based_on(row["based_on"]))
        if meant := named if row["bank"] in homes else _meant(connection, row["bank"], named):
            found.append((row, meant))
    return found


def _meant(connection: Connection, bank: int, ids: AbstractSet[str]) -> frozenset[str]:
    """Which of these ids mean another bank's memories: a bank that was imported may hold memories of the same ids itself."""
    if not ids:
        return frozenset()
    held = select(memories.c.id).where(memories.c.bank == bank, memories.c.id.in_(ids))
    return frozenset(ids).difference(connection.scalars(held))


def _overtaken(before: MentalModel, now: MentalModel) -> bool:
    """Whether a model was asked something else, refreshed or written by hand while its answer was on its way: that stands."""
    asked = [(each.source_query, each.tags, each.max_tokens, each.refreshed_at) for each in (before, now)]
    by_hand = now.content not in ("", before.content) and not now.based_on
    return asked[0] != asked[1] or by_hand


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
    kept = {"name": model.name, "source_query": model.source_query, "max_tokens": model.max_tokens, "trigger": model.trigger}
    return {**kept, "tags": to_json(model.tags)}


def to_model(row: RowMapping) -> MentalModel:
    """The mental model of a row."""
    return MentalModel(
        id=row["id"],
        name=row["name"],
        source_query=row["source_query"],
        content=row["content"],
        tags=tags_of(row["tags"]),
        max_tokens=row["max_tokens"],
        trigger=row["trigger"],
        refreshed_at=maybe_moment(row["refreshed_at"]),
        based_on=cited(row["based_on"]),
    )
