"""What a completer is asked in a batch of work, counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorebank._domain.memory import count_tokens
from lorebank._domain.ports import Completer


class Metered:
    """A completer that counts: requests, tokens that are sent, tokens that come back (as `count_tokens` counts)."""

    def __init__(self, completer: Completer) -> None:
        self._completer = completer
        self.requests = self.sent = self.received = 0

    @property
    def tokens(self) -> int:
        return self.sent + self.received

    def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None, max_tokens: int) -> str:
        self.requests += 1
        self.sent += count_tokens(prompt)
        reply = self._completer.complete(prompt, schema=schema, max_tokens=max_tokens)
        self.received += count_tokens(reply)
        return reply
