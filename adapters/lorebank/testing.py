"""What users' own tests need: banks that vanish with the test, and a server that fails on request.

`FaultServer` answers like a small Hindsight from memory, passes on to a real server, or replays recorded exchanges; a
`Fault` says how matching requests go wrong.

>>> from urllib.request import urlopen
>>> with FaultServer() as server:
...     server.fault(Fault(delay=0.01), path="/version$", times=1)
...     urlopen(f"{server.url}/version").status
200

`assert_recalls` and `assert_not_recalled` say what a bank knows, `settle` waits until it does. `ScriptedCompleter` stands in for
the model that writes reflections and mental models, `ScriptedEmbedder` for the one that makes vectors. `check_backend` checks a
backend of your own. Scripted chat models live in `langchain_lorebank.testing` and `llamaindex_lorebank.testing`, fixtures in
`lorebank.pytest_plugin`.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lorebank._assertions import assert_not_recalled, assert_recalls, settle
from lorebank._bank import Bank
from lorebank._conformance import Promise, check_backend
from lorebank._domain.blocks import shown_memories
from lorebank._faults.fault import Fault
from lorebank._faults.server import FaultServer
from lorebank._faults.wire import Request
from lorebank._open import open_bank

__all__ = [
    "Asked",
    "Fault",
    "FaultServer",
    "Promise",
    "Request",
    "ScriptedCompleter",
    "ScriptedEmbedder",
    "assert_not_recalled",
    "assert_recalls",
    "check_backend",
    "settle",
    "shown_memories",
    "temporary_bank",
]

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


@dataclass(slots=True)
class ScriptedEmbedder:
    """An embedder for tests: each word has a direction of its own, and words that `synonyms` puts on one line share it.

    `asked` holds the texts it was given; while `error` is set, it is raised.

    >>> with temporary_bank(embedder=ScriptedEmbedder([("landlord", "lease")])) as bank:
    ...     receipt = bank.retain(["The lease is with Mr Okoro.", "Bello is a dog."])
    ...     assert_recalls(bank, "Who is my landlord?", "Okoro").text
    'The lease is with Mr Okoro.'
    """

    synonyms: Sequence[Sequence[str]] = ()
    name: str = "lorebank-scripted"
    dimensions: int = 128
    error: Exception | None = None
    asked: list[str] = field(default_factory=list[str])

    def embed(self, texts: Sequence[str], *, kind: Literal["query", "passage"]) -> list[list[float]]:
        """A vector for each text; the same text gives the same one on every machine."""
        del kind
        self.asked += texts
        if self.error is not None:
            raise self.error
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        """The sum of the words' directions; one that has synonyms counts six times, so that it decides what a text is about."""
        vector = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.casefold()):
            line = next((line for line in self.synonyms if word in map(str.casefold, line)), ())
            digest = hashlib.shake_128((line[0].casefold() if line else word).encode()).digest(self.dimensions)
            weight = 6 if line else 1
            vector = [value + weight * (byte - 127.5) / 127.5 for value, byte in zip(vector, digest, strict=True)]
        return vector


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
