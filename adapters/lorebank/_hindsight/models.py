"""Mental models on the server. Their content is made by an operation there, which is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from lorebank._domain.mental_model import MentalModel, Revision
from lorebank._domain.scope import Leaf, Scope
from lorebank._hindsight.answers import Former, Model, ModelList, ModelStarted, read
from lorebank._hindsight.client import Client, root
from lorebank._hindsight.faults import garbled
from lorebank.errors import LorebankError, MissingError, RefusedError, UnavailableError, UnsupportedError

PAGE = 200
FEWEST_TOKENS = 256
_HISTORY: TypeAdapter[list[Former]] = TypeAdapter(list[Former])


class ModelCalls:
    """The port's mental models. `prepare` makes the bank where there is none."""

    def __init__(self, client: Client, prepare: Callable[[str], None]) -> None:
        self._client, self._prepare = client, prepare

    def list(self, scope: Scope) -> tuple[MentalModel, ...]:
        """All models that the scope may read, by id."""
        models: list[MentalModel] = []
        while True:
            query = {"detail": "content", "limit": PAGE, "offset": len(models)}
            try:
                page = self._client.get(ModelList, self._path(scope), query=query)
            except MissingError:
                break
            models += [answer.model() for answer in page.items]
            if len(page.items) < PAGE or page.total is None or len(models) >= page.total:
                break
        return tuple(sorted((model for model in models if _readable(scope, model)), key=lambda model: model.id))

    def get(self, scope: Scope, model_id: str) -> MentalModel:
        """One model, with its content."""
        try:
            found = self._client.get(Model, self._path(scope, model_id), query={"detail": "full"}).model()
        except MissingError:
            raise _missing(model_id) from None
        if not _readable(scope, found):
            raise _missing(model_id)
        return found

    def create(self, scope: Scope, model: MentalModel) -> MentalModel:
        """Makes a model and waits until it is answered, as long as a reflection may take."""
        if model.max_tokens < FEWEST_TOKENS:
            raise UnsupportedError(f"Hindsight's mental models have {FEWEST_TOKENS} tokens or more; found {model.max_tokens}")
        self._prepare(scope.bank)
        trigger: dict[str, Any] = {"mode": model.trigger, "refresh_after_consolidation": True}
        if model.tags and isinstance(scope.required, Leaf):
            trigger["tags_match"] = scope.required.match
        body = {"id": model.id, "name": model.name, "source_query": model.source_query, "max_tokens": model.max_tokens}
        try:
            made = self._client.send("POST", self._path(scope), {**body, "tags": list(model.tags), "trigger": trigger})
        except LorebankError as error:
            if self._exists(scope, model.id, error):
                raise RefusedError(f"the mental model {model.id!r} exists already: update it, or choose another id") from error
            raise
        self._wait(scope, read(ModelStarted, "POST mental-models", made).operation_id)
        return self.get(scope, model.id)

    def update(self, scope: Scope, model_id: str, fields: Mapping[str, Any]) -> MentalModel:
        """Changes fields; the content is the server's own work."""
        if "content" in fields:
            raise UnsupportedError("Hindsight writes the content of a mental model itself: change its `source_query`")
        tokens = fields.get("max_tokens")
        if tokens is not None and tokens < FEWEST_TOKENS:
            raise UnsupportedError(f"Hindsight's mental models have {FEWEST_TOKENS} tokens or more; found {tokens}")
        self.get(scope, model_id)
        sent = {name: list(value) if name == "tags" else value for name, value in fields.items()}
        self._client.send("PATCH", self._path(scope, model_id), sent)
        return self.get(scope, model_id)

    def refresh(self, scope: Scope, model_id: str) -> MentalModel:
        """Has a model answered anew and waits for it."""
        self.get(scope, model_id)
        started = self._client.send("POST", f"{self._path(scope, model_id)}/refresh", {"mode": "full"})
        self._wait(scope, read(ModelStarted, "POST refresh", started).operation_id)
        return self.get(scope, model_id)

    def history(self, scope: Scope, model_id: str) -> tuple[Revision, ...]:
        """What a model said before, newest first."""
        self.get(scope, model_id)
        path = f"{self._path(scope, model_id)}/history"
        body = self._client.send("GET", path, read=True)
        try:
            former = [each.revision() for each in _HISTORY.validate_python(body)]
        except ValidationError:
            raise garbled(f"GET {path}", "JSON of another shape") from None
        said = [revision for revision in former if revision.content]
        return tuple(sorted(said, key=lambda revision: revision.replaced_at, reverse=True))

    def delete(self, scope: Scope, model_id: str) -> None:
        """Deletes a model with its history."""
        self.get(scope, model_id)
        self._client.send("DELETE", self._path(scope, model_id))

    def forget(self, scope: Scope, memory_ids: set[str]) -> None:
        """Models that rest on forgotten memories are emptied and answered anew."""
        for model in self.list(scope):
            if memory_ids.intersection(self.get(scope, model.id).based_on):
                self._client.send("POST", f"{self._path(scope, model.id)}/clear")
                self._client.send("POST", f"{self._path(scope, model.id)}/refresh", {"mode": "full"})

    def _exists(self, scope: Scope, model_id: str, error: LorebankError) -> bool:
        """Servers before 1.0 answer with a database's own words where there is such a model."""
        if error.status == 409:
            return True
        if not isinstance(error, UnavailableError) or error.status is None:
            return False
        try:
            self._client.get(Model, self._path(scope, model_id), query={"detail": "metadata"})
        except LorebankError:
            return False
        return True

    def _wait(self, scope: Scope, operation: str | None) -> None:
        """Waits for an answer; one that fails is said, one that is late comes later."""
        done = self._client.awaited(scope.bank, operation, self._client.settings.reflect_timeout)
        if done is not None and done.status == "failed":
            raise UnavailableError(f"the server could not answer the mental model ({(done.error_message or '')[:200]})")

    @staticmethod
    def _path(scope: Scope, model_id: str | None = None) -> str:
        whole = f"{root(scope.bank)}/mental-models"
        return whole if model_id is None else f"{whole}/{quote(model_id, safe='')}"


def _readable(scope: Scope, model: MentalModel) -> bool:
    return not model.tags or scope.admits(model.tags)


def _missing(model_id: str) -> MissingError:
    return MissingError(f"there is no mental model {model_id!r} in this bank")
