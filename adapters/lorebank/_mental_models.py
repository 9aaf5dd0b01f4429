"""`bank.mental_models`: standing questions whose answers the bank keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lorebank._connections import Connections
from lorebank._domain.events import ModelRefreshed
from lorebank._domain.memory import parse_text
from lorebank._domain.mental_model import SEEDS, MentalModel, Revision, Seed, Trigger, parse_model, parse_model_id, with_diffs
from lorebank._domain.scope import Scope, Scoping
from lorebank._twins import Threads, twin
from lorebank.errors import RefusedError, UsageError


class MentalModelHandle:
    """The mental models of one bank; every verb has an awaitable twin."""

    def __init__(self, opened: Callable[[], Connections], scope: Scope, scoping: Scoping, label: str | None) -> None:
        self._opened, self._scope = opened, scope
        self._scoping: Scoping = scoping
        self._label = label

    @property
    def threads(self) -> Threads:
        return self._connections.threads

    @property
    def _connections(self) -> Connections:
        return self._opened()

    def list(self) -> tuple[MentalModel, ...]:
        """All mental models that this bank may read, by id."""
        return self._connections.backend.models.list(self._scope)

    def get(self, id: str) -> MentalModel:
        """One mental model; `MissingError` where there is none."""
        return self._connections.backend.models.get(self._scope, parse_model_id(id))

    def create(
        self,
        id: str,
        *,
        name: str,
        source_query: str,
        tags: Sequence[str] = (),
        max_tokens: int = 800,
        trigger: Trigger = "delta",
    ) -> MentalModel:
        """A new mental model, answered at once; an id that exists is a `RefusedError`.

        Where a completer is to write the answer and fails, the model is there without one until it is refreshed. With the
        `trigger` `delta` a refresh keeps of the answer what still holds, with `full` it writes anew.
        """
        fields = {
            "id": id,
            "name": name,
            "source_query": source_query,
            "tags": tags,
            "max_tokens": max_tokens,
            "trigger": trigger,
        }
        return self._connections.backend.models.create(self._scope, parse_model(fields))

    def update(
        self,
        id: str,
        *,
        name: str | None = None,
        source_query: str | None = None,
        content: str | None = None,
        tags: Sequence[str] | None = None,
        max_tokens: int | None = None,
    ) -> MentalModel:
        """Changes the given fields; `content` written by hand stays until the next refresh."""
        given = {"name": name, "source_query": source_query, "tags": tags, "max_tokens": max_tokens}
        changed: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
        if not changed and content is None:
            raise UsageError("`update` needs something to change: name, source_query, content, tags or max_tokens")
        whole = parse_model({"id": id, "name": "-", "source_query": "-", **changed})
        fields: dict[str, Any] = {field: getattr(whole, field) for field in changed}
        if content is not None:
            fields["content"] = parse_text(content, "content").strip()
        return self._connections.backend.models.update(self._scope, whole.id, fields)

    def refresh(self, id: str) -> MentalModel:
        """Answers the model's question anew; unchanged content keeps its bytes."""
        before = self.get(id)
        after = self._connections.backend.models.refresh(self._scope, before.id)
        self._connections.tell(ModelRefreshed(self._scope.bank, after.id, after.content != before.content))
        return after

    def history(self, id: str) -> tuple[Revision, ...]:
        """What the model said before, newest first, each with what changed when it was replaced."""
        models, model_id = self._connections.backend.models, parse_model_id(id)
        former = models.history(self._scope, model_id)
        return with_diffs(former, models.get(self._scope, model_id).content) if former else ()

    def delete(self, id: str) -> None:
        """Deletes the model and its history."""
        self._connections.backend.models.delete(self._scope, parse_model_id(id))

    def ensure(self, seeds: Sequence[Seed] = SEEDS) -> tuple[MentalModel, ...]:
        """Creates the seeds' models that don't exist yet, changes none that do, and gives those it created."""
        wanted = [model for seed in seeds if (model := seed.resolved(self._scoping, self._label)) is not None]
        existing = {model.id for model in self.list()}
        return tuple(created for model in wanted if model.id not in existing and (created := self._seed(model)) is not None)

    def _seed(self, model: MentalModel) -> MentalModel | None:
        """The created model, or `None` where another process was faster."""
        try:
            return self._connections.backend.models.create(self._scope, model)
        except RefusedError:
            return None

    alist = twin(list)
    aget = twin(get)
    acreate = twin(create)
    aupdate = twin(update)
    arefresh = twin(refresh)
    ahistory = twin(history)
    adelete = twin(delete)
    aensure = twin(ensure)
