"""What users' own tests need: banks that vanish with the test, and a server that fails on request.

`FaultServer` answers like a small Hindsight from memory, passes on to a real server, or replays recorded exchanges; a
`Fault` says how matching requests go wrong.

>>> from urllib.request import urlopen
>>> with FaultServer() as server:
...     server.fault(Fault(delay=0.01), path="/version$", times=1)
...     urlopen(f"{server.url}/version").status
200

Scripted chat models live in `langchain_lorebank.testing` and `llamaindex_lorebank.testing`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lorebank._bank import Bank
from lorebank._faults.fault import Fault
from lorebank._faults.server import FaultServer
from lorebank._faults.wire import Request
from lorebank._open import open_bank

__all__ = ["Fault", "FaultServer", "Request", "temporary_bank"]


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
