"""For those who come from `hindsight-llamaindex`: its memory, its tools and its `configure`, with its arguments, on lorebank's
engine.

    from llamaindex_lorebank.compat import HindsightMemory

What differs: one recall and one retain a turn; memories stand ahead of the user's words, in the model's copy, and not in a second
system message; writes go through the outbox and are never lost; what `configure` says holds for the memory, too, wherever an
argument is left at its default. `client` is a bank (`open_bank()`), whose own settings hold. `hindsight_api_url` may also be a
`sqlite:///` file; without one, `LOREBANK_URL` and `HINDSIGHT_API_URL` are tried, and no hosted service is called that was not
named. What has no meaning here is a `UsageError` that says what to use.

New code has better with `with_memory`, `BankMemory` and `BankToolSpec`.
"""

from __future__ import annotations

from llamaindex_lorebank.compat.configuring import (
    HindsightError,
    HindsightLlamaIndexConfig,
    configure,
    get_config,
    reset_config,
)
from llamaindex_lorebank.compat.memory import HindsightMemory
from llamaindex_lorebank.compat.tools import HindsightToolSpec, create_hindsight_tools

__all__ = [
    "HindsightError",
    "HindsightLlamaIndexConfig",
    "HindsightMemory",
    "HindsightToolSpec",
    "configure",
    "create_hindsight_tools",
    "get_config",
    "reset_config",
]
