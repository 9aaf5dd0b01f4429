"""Documents, operations and directives on the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from lorebank._domain.operations import Directive, Document, Operation, OperationState
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import (
    DirectiveAnswer,
    DirectiveList,
    DocumentAnswer,
    DocumentList,
    OperationList,
    read,
)
from lorebank._hindsight.client import Client, root
from lorebank.errors import MissingError

PAGE = 100


class DocumentCalls:
    """The port's documents."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, scope: Scope, *, limit: int, offset: int) -> tuple[Document, ...]:
        """One page of the documents that the scope may read."""
        found: list[Document] = []
        for document in self.all(scope.bank):
            if scope.admits(document.tags):
                found.append(document)
            if len(found) >= offset + limit:
                break
        return tuple(found[offset:])

    def get(self, scope: Scope, document_id: str) -> Document:
        """One document with its text."""
        try:
            path = f"{root(scope.bank)}/documents/{quote(document_id, safe='')}"
            found = self._client.get(DocumentAnswer, path).document()
        except MissingError:
            raise _missing(document_id) from None
        if not scope.admits(found.tags):
            raise _missing(document_id)
        return found

    def all(self, bank: str, query: Mapping[str, object] | None = None) -> list[Document]:
        """Every document of a bank, without their texts."""
        found: list[Document] = []
        while True:
            asked = {**(query or {}), "limit": PAGE, "offset": len(found)}
            try:
                page = self._client.get(DocumentList, f"{root(bank)}/documents", query=asked)
            except MissingError:
                return found
            found += [answer.document() for answer in page.items]
            if len(page.items) < PAGE:
                return found


class OperationCalls:
    """The port's operations."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, scope: Scope, *, state: OperationState | None, limit: int, offset: int) -> tuple[Operation, ...]:
        """Operations, newest first."""
        found: list[Operation] = []
        while len(found) < limit:
            size = min(PAGE, limit - len(found))
            query: dict[str, object] = {"limit": size, "offset": offset + len(found)}
            if state is not None:
                query["status"] = state
            try:
                page = self._client.get(OperationList, f"{root(scope.bank)}/operations", query=query)
            except MissingError:
                break
            found += [answer.operation() for answer in page.operations]
            if len(page.operations) < size:
                break
        return tuple(found)

    def get(self, scope: Scope, operation_id: str) -> Operation:
        return self._client.operation(scope.bank, operation_id).operation()

    def retry(self, scope: Scope, operation_id: str) -> None:
        self._client.send("POST", f"{root(scope.bank)}/operations/{quote(operation_id, safe='')}/retry")

    def cancel(self, scope: Scope, operation_id: str) -> None:
        self._client.send("DELETE", f"{root(scope.bank)}/operations/{quote(operation_id, safe='')}")


class DirectiveCalls:
    """The port's directives."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, scope: Scope) -> tuple[Directive, ...]:
        """All directives, also those that are switched off."""
        try:
            path = f"{root(scope.bank)}/directives"
            page = self._client.get(DirectiveList, path, query={"active_only": "false", "limit": 1000})
        except MissingError:
            return ()
        return tuple(answer.directive() for answer in page.items)

    def create(self, scope: Scope, directive: Directive) -> Directive:
        body = {
            "name": directive.name,
            "content": directive.content,
            "priority": directive.priority,
            "is_active": directive.active,
            "tags": list(directive.tags),
        }
        path = f"{root(scope.bank)}/directives"
        return read(DirectiveAnswer, f"POST {path}", self._client.send("POST", path, body)).directive()

    def update(self, scope: Scope, directive_id: str, fields: Mapping[str, Any]) -> Directive:
        self._known(scope, directive_id)
        sent = {"is_active" if name == "active" else name: value for name, value in fields.items()}
        path = self._path(scope, directive_id)
        return read(DirectiveAnswer, f"PATCH {path}", self._client.send("PATCH", path, sent)).directive()

    def delete(self, scope: Scope, directive_id: str) -> None:
        self._known(scope, directive_id)
        self._client.send("DELETE", self._path(scope, directive_id))

    def _known(self, scope: Scope, directive_id: str) -> None:
        """The server fails on ids that are none of its own."""
        if all(directive.id != directive_id for directive in self.list(scope)):
            raise MissingError(f"there is no directive {directive_id!r} in this bank")

    @staticmethod
    def _path(scope: Scope, directive_id: str) -> str:
        return f"{root(scope.bank)}/directives/{quote(directive_id, safe='')}"


def _missing(document_id: str) -> MissingError:
    return MissingError(f"there is no document {document_id!r} in this bank")
