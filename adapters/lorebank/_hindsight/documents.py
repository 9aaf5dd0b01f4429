"""What a server keeps beside memories: documents, operations, directives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from lorebank._domain.operations import Directive, Document, Operation, OperationState
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import Answer, Paper, Papers, Standing, Standings, Works
from lorebank._hindsight.server import Server, is_uuid
from lorebank.errors import MissingError

MOST_OPERATIONS = 100
"""Operations that a server lists at once."""
DIRECTIVES = "directives"


class DocumentHandle:
    """What retains have created, as far as a scope may read it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def list(self, scope: Scope, *, limit: int, offset: int) -> tuple[Document, ...]:
        """One page, newest first, without texts."""
        size = min(100, offset + limit)
        found = (
            paper.document()
            for bank in scope.searched
            for paper in self._server.pages(Papers, bank, "documents", query={}, size=size)
            if scope.admits(paper.tags)
        )
        return tuple(islice(found, offset, offset + limit))

    def get(self, scope: Scope, document_id: str) -> Document:
        for bank in scope.searched:
            try:
                paper = self._server.read(Paper, bank, "documents", document_id)
            except MissingError:
                continue
            if scope.admits(paper.tags):
                return paper.document()
        raise MissingError(f"no document {document_id!r} in {' or '.join(map(repr, scope.searched))}")


class OperationHandle:
    """What the server works on for the scope's own bank."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def list(self, scope: Scope, *, state: OperationState | None, limit: int, offset: int) -> tuple[Operation, ...]:
        """One page, newest first."""
        found: list[Operation] = []
        while len(found) < limit:
            size = min(limit - len(found), MOST_OPERATIONS)
            page = operations(self._server, scope.bank, state=state, limit=size, offset=offset + len(found))
            found += page
            if len(page) < size:
                break
        return tuple(found)

    def get(self, scope: Scope, operation_id: str) -> Operation:
        return self._server.operation(scope.bank, operation_id)

    def retry(self, scope: Scope, operation_id: str) -> None:
        retry(self._server, scope.bank, operation_id)

    def cancel(self, scope: Scope, operation_id: str) -> None:
        _check_id(scope.bank, operation_id)
        self._server.change(Answer, "DELETE", (scope.bank, "operations", operation_id))


def operations(
    server: Server, bank: str, *, state: OperationState | None, limit: int = MOST_OPERATIONS, offset: int = 0
) -> list[Operation]:
    """One page of a bank's operations."""
    query = {"limit": limit, "offset": offset} | ({} if state is None else {"status": state})
    try:
        page = server.read(Works, bank, "operations", query=query)
    except MissingError:
        return []
    return [work.operation() for work in page.operations]


def retry(server: Server, bank: str, operation_id: str, *, urgent: bool = False) -> None:
    """Has the server try a failed operation again."""
    _check_id(bank, operation_id)
    server.change(Answer, "POST", (bank, "operations", operation_id, "retry"), urgent=urgent)


def _check_id(bank: str, operation_id: str) -> None:
    if not is_uuid(operation_id):
        raise MissingError(f"no operation {operation_id!r} in {bank!r}")


class DirectiveHandle:
    """The standing instructions of the scope's own bank."""

    def __init__(self, server: Server, prepare: Callable[[str], None]) -> None:
        self._server, self._prepare = server, prepare

    def list(self, scope: Scope) -> tuple[Directive, ...]:
        """All that the scope admits, inactive ones too."""
        found = self._server.pages(Standings, scope.bank, DIRECTIVES, query={"active_only": "false"}, size=100)
        return tuple(each.directive() for each in found if scope.admits(each.tags))

    def create(self, scope: Scope, directive: Directive) -> Directive:
        self._prepare(scope.bank)
        body = {
            "name": directive.name,
            "content": directive.content,
            "priority": directive.priority,
            "is_active": directive.active,
            "tags": list(directive.tags),
        }
        return self._server.change(Standing, "POST", (scope.bank, DIRECTIVES), body).directive()

    def update(self, scope: Scope, directive_id: str, fields: Mapping[str, Any]) -> Directive:
        self._check(scope, directive_id)
        body = {"is_active" if name == "active" else name: value for name, value in fields.items()}
        return self._server.change(Standing, "PATCH", (scope.bank, DIRECTIVES, directive_id), body).directive()

    def delete(self, scope: Scope, directive_id: str) -> None:
        self._check(scope, directive_id)
        self._server.change(Answer, "DELETE", (scope.bank, DIRECTIVES, directive_id))

    def _check(self, scope: Scope, directive_id: str) -> None:
        """Raises where the scope knows no such directive; an id of another form would be a server error."""
        if is_uuid(directive_id):
            try:
                found = self._server.read(Standing, scope.bank, DIRECTIVES, directive_id)
            except MissingError:
                found = None
            if found is not None and scope.admits(found.tags):
                return
        raise MissingError(f"no directive {directive_id!r} in {scope.bank!r}")
