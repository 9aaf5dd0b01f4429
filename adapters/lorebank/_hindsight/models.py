"""Mental models on a server, which writes and refreshes their content itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lorebank._domain.mental_model import MentalModel, Revision
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import Answer, Begun, Curated, Curation, Formers, read
from lorebank._hindsight.asking import model_body, model_change
from lorebank._hindsight.server import Server, at
from lorebank._hindsight.transport import Call
from lorebank.errors import DeadlineError, MissingError, RefusedError, UnavailableError

MODELS = "mental-models"
_EXISTS = ("duplicate key", "already exists", "unique constraint")


class ModelHandle:
    """The mental models of the scope's own bank."""

    def __init__(self, server: Server, prepare: Callable[[str], None]) -> None:
        self._server, self._prepare = server, prepare

    def list(self, scope: Scope) -> tuple[MentalModel, ...]:
        """All that the scope admits, by id, with their content; what they rest on is told by `get`."""
        found = self._server.pages(Curation, scope.bank, MODELS, query={"detail": "content"}, size=100)
        admitted = [each.model() for each in found if scope.admits(each.tags)]
        return tuple(sorted(admitted, key=lambda model: model.id))

    def get(self, scope: Scope, model_id: str) -> MentalModel:
        return self._found(scope, model_id).model()

    def create(self, scope: Scope, model: MentalModel) -> MentalModel:
        """Makes the model and waits for its first content, as long as a reflect may take. An empty model is a model, too."""
        body = model_body(model, scope)
        self._prepare(scope.bank)
        try:
            begun = self._server.change(Begun, "POST", (scope.bank, MODELS), body)
        except (RefusedError, UnavailableError) as error:
            raise _existing(error, scope, model.id) from error
        if begun.operation_id:
            self._server.await_operation(scope.bank, begun.operation_id, self._server.settings.reflect_timeout)
        return self._server.read(Curated, scope.bank, MODELS, model.id, query={"detail": "full"}).model()

    def update(self, scope: Scope, model_id: str, fields: Mapping[str, Any]) -> MentalModel:
        """Changes the given fields; the content follows with the next refresh."""
        body = model_change(fields)
        self._found(scope, model_id)
        self._server.change(Curated, "PATCH", (scope.bank, MODELS, model_id), body)
        return self._found(scope, model_id).model()

    def refresh(self, scope: Scope, model_id: str) -> MentalModel:
        """Has the question answered anew, and waits for the answer."""
        self._found(scope, model_id)
        begun = self._server.change(Begun, "POST", (scope.bank, MODELS, model_id, "refresh"))
        if begun.operation_id:
            self._finished(scope, model_id, begun.operation_id)
        return self._found(scope, model_id).model()

    def history(self, scope: Scope, model_id: str) -> tuple[Revision, ...]:
        """What the model said before, newest first."""
        self._found(scope, model_id)
        path = at(scope.bank, MODELS, model_id, "history")
        call = Call("GET", path, self._server.settings.timeout, bank=scope.bank)
        formers = read(Formers, {"revisions": self._server.transport.call(call)})
        return tuple(revision for former in formers.revisions if (revision := former.revision()) is not None)

    def delete(self, scope: Scope, model_id: str) -> None:
        self._found(scope, model_id)
        self._server.change(Answer, "DELETE", (scope.bank, MODELS, model_id))

    def _found(self, scope: Scope, model_id: str) -> Curated:
        """The model, if the scope may read it."""
        try:
            found = self._server.read(Curated, scope.bank, MODELS, model_id, query={"detail": "full"})
        except MissingError as error:
            raise _missing(scope, model_id) from error
        if not scope.admits(found.tags):
            raise _missing(scope, model_id)
        return found

    def _finished(self, scope: Scope, model_id: str, operation_id: str) -> None:
        bound = self._server.settings.reflect_timeout
        operation = self._server.await_operation(scope.bank, operation_id, bound)
        if operation.running:
            raise DeadlineError(f"the mental model {model_id!r} is still being refreshed after {bound:g} s: look again later")
        failed = operation.state == "failed" or (operation.outcome or "").startswith("refresh_failed")
        if failed:
            raise UnavailableError(f"the server could not refresh the mental model {model_id!r}: its old content stays")


def _missing(scope: Scope, model_id: str) -> MissingError:
    return MissingError(f"no mental model {model_id!r} in {scope.bank!r}")


def _existing(error: RefusedError | UnavailableError, scope: Scope, model_id: str) -> RefusedError | UnavailableError:
    """Servers before 1.0 tell of an existing id with a text of their database's."""
    said = (error.detail or "").lower()
    if error.status == 409 or (error.status == 500 and any(words in said for words in _EXISTS)):
        return RefusedError(
            f"the mental model {model_id!r} exists already in {scope.bank!r}; update it, or choose another id",
            status=error.status,
            detail=error.detail,
        )
    return error
