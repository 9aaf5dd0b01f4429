"""A sub-agent's share of its parent's session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lorebank._domain.instructions import instructions
from lorebank._domain.message import Message
from lorebank._domain.session import History, Injection, Mode, TurnReceipt
from lorebank._domain.toolbook import Offer, ToolName
from lorebank._session.view import call_of
from lorebank._twins import Threads, twin


class Parent(Protocol):
    """What a sub-agent shares of its parent's session."""

    id: str
    offer: Offer

    @property
    def mode(self) -> Mode: ...
    @property
    def threads(self) -> Threads: ...
    def refusal(self, tool: ToolName) -> str | None: ...
    def missed(self, verb: str, error: Exception) -> None: ...


class Alias:
    """A sub-agent's view of its parent's session: nothing is recalled or retained on its own, and closing it closes nothing."""

    def __init__(self, session: Parent) -> None:
        self.parent, self.id = session, session.id

    @property
    def threads(self) -> Threads:
        return self.parent.threads

    def before_turn(
        self,
        messages: Sequence[Message | dict[str, Any]],
        *,
        history: History = "full",
        run_id: str | None = None,
        offer: Offer | None = None,
    ) -> Injection:
        """What the sub-agent is told of its tools; no memories."""
        call = call_of(messages, history, run_id, offer=offer)
        return Injection(instructions(self.parent.mode, call.offer or self.parent.offer, blocks=False))

    def after_turn(
        self,
        messages: Sequence[Message | dict[str, Any]],
        *,
        history: History = "full",
        run_id: str | None = None,
        cancelled: bool = False,
    ) -> TurnReceipt:
        """Nothing: what a sub-agent finds out reaches the parent's conversation."""
        call_of(messages, history, run_id, cancelled=cancelled)
        return TurnReceipt(reason="a sub-agent's messages are not retained on their own")

    @property
    def mode(self) -> Mode:
        """As the parent's."""
        return self.parent.mode

    def refusal(self, tool: ToolName) -> str | None:
        """As the parent's."""
        return self.parent.refusal(tool)

    def missed(self, verb: str, error: Exception) -> None:
        """As the parent's."""
        self.parent.missed(verb, error)

    abefore_turn = twin(before_turn, lane="session")
    aafter_turn = twin(after_turn, lane="local")
