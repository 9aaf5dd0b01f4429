"""What users' own tests need: banks that vanish with the test, and a server that fails on request.

`FaultServer` answers like a small Hindsight from memory, passes on to a real server, or replays recorded exchanges; a
`Fault` says how matching requests go wrong.

>>> from urllib.request import urlopen
>>> with FaultServer() as server:
...     server.fault(Fault(delay=0.01), path="/version$", times=1)
...     urlopen(f"{server.url}/version").status
200

`ScriptedCompleter` stands in for the model that writes reflections and mental models. Scripted chat models live in
`langchain_lorebank.testing` and `llamaindex_lorebank.testing`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorebank._bank import Bank
from lorebank._faults.fault import Fault
from lorebank._faults.server import FaultServer
from lorebank._faults.wire import Request
from lorebank._open import open_bank

__all__ = ["Asked", "Fault", "FaultServer", "Request", "ScriptedCompleter", "temporary_bank"]

Answer = str | Mapping[str, Any] | Exception


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a completer."""

    prompt: str
    schema: Mapping[str, Any] | None
    max_tokens: int


@dataclass(slots=True)
class ScriptedCompleter:
    """A completer that gives the answers of its script, in order, or what a function makes of each prompt.

    An answer is text, a mapping (given as JSON) or an exception (raised). `asked` holds what it was asked.

    >>> completer = ScriptedCompleter([{"statements": [{"text": "Ana prefers aisle seats.", "memories": [1]}]}])
    >>> with temporary_bank(completer=completer) as bank:
    ...     receipt = bank.retain("Ana: an aisle seat, as always.")
    ...     bank.reflect("Which seat for Ana?").text
    'Ana prefers aisle seats.'
    >>> completer.asked[0].max_tokens
    1024
    """

    script: Sequence[Answer] | Callable[[str], Answer]
    asked: list[Asked] = field(default_factory=list[Asked])

    def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None, max_tokens: int) -> str:
        """The next answer; `IndexError` where the script is over."""
        self.asked.append(Asked(prompt, schema, max_tokens))
        answer = self.script(prompt) if callable(self.script) else self._next(self.script)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    def _next(self, script: Sequence[Answer]) -> Answer:
        if len(self.asked) > len(script):
            raise IndexError(f"the script has {len(script)} answers; this is question {len(self.asked)}")
        return script[len(self.asked) - 1]


@contextmanager
def temporary_bank(bank: str = "test", **options: Any) -> Generator[Bank]:
    """A bank in a file of its own, which is gone afterwards. Options are those of `open_bank`.

    >>> with temporary_bank() as bank:
    ...     receipt = bank.retain("Ana prefers aisle seats.")
    """
    with (
        tempfile.TemporaryDirectory(prefix="lorebank-", ignore_cleanup_errors=True) as folder,
        open_bank(f"sqlite:///{Path(folder) / 'memory.db'}", bank=bank, **options) as opened,
    ):
        yield opened
