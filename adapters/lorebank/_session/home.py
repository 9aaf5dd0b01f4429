"""Where a session belongs: a bank's connections and scope."""

from __future__ import annotations

from dataclasses import dataclass

from lorebank._connections import AllSettings, Connections
from lorebank._domain.ports import Backend
from lorebank._domain.scope import Scope, Scoping
from lorebank.errors import UsageError


@dataclass(frozen=True, slots=True)
class Home:
    """A bank, as its sessions see it. They outlive the handle that opened them, but not the connections."""

    connections: Connections
    scope: Scope
    scoping: Scoping
    label: str | None

    def opened(self) -> Connections:
        """The connections; `UsageError` once they are closed."""
        if self.closed:
            raise UsageError(f"the bank {self.scope.bank!r} is closed: open it again with open_bank()")
        return self.connections

    @property
    def closed(self) -> bool:
        """Whether the bank is closed: its close has delivered what it could."""
        return self.connections.closed

    @property
    def backend(self) -> Backend:
        return self.opened().backend

    @property
    def settings(self) -> AllSettings:
        return self.connections.settings

    @property
    def tagged(self) -> str | None:
        """The project, where it shares a bank with others."""
        return self.label if self.scope.stamp else None
