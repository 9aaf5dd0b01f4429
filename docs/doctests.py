"""Shows the examples of docstrings as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)\S.*\n?|^\.\.\. .*\n?)*)+", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around what `doctest` would run."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Each object once, when it was read."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda match: f"```python\n{match[0].rstrip()}\n```\n", obj.docstring.value)
