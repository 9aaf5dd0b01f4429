"""What a test says of a bank: that it knows something, or doesn't; a failure tells what the bank would have shown instead."""

from __future__ import annotations

from typing import Any

from lorebank._bank import Bank
from lorebank._domain.memory import Memory, RecallResult

SHOWN = 10
"""How many memories a failure lists."""


def settle(bank: Bank, *, timeout: float = 30) -> None:
    """Waits until all that was told can be recalled; `AssertionError` says what is left after `timeout` seconds.

    What a framework's handler records in the background is its own: call `chain.handler.flush(10)` first.

    >>> settle(bank)
    """
    report = bank.flush(timeout=timeout, until="completed")
    if report.left or report.dead:
        raise AssertionError(
            f"bank {bank.name!r}: {report.left} writes are left and {report.dead} were given up after {timeout:g} s"
            + (f": {report.reason}" if report.reason else "")
        )


def assert_recalls(bank: Bank, query: str, text: str, **how: Any) -> Memory:
    """The bank answers `query` with a memory that holds `text` (upper and lower case alike); gives it, best first.

    `how` is what `recall` takes: `limit=1` says that it is the best. Waits until what was told can be recalled.

    >>> assert_recalls(bank, "Which seats does Ana prefer?", "aisle", limit=1).tags
    ('trip',)
    """
    settle(bank)
    result = bank.recall(query, **how)
    for memory in result:
        if text.casefold() in memory.text.casefold():
            return memory
    raise AssertionError(f"bank {bank.name!r} recalls nothing with {text!r} for {query!r}{_instead(bank, result)}")


def assert_not_recalled(bank: Bank, query: str, text: str = "", **how: Any) -> None:
    """The bank answers `query` with no memory that holds `text`; without a text, with none at all.

    >>> assert_not_recalled(bank.named("ben"), "Which seats does Ana prefer?")
    """
    settle(bank)
    result = bank.recall(query, **how)
    if found := [memory.text for memory in result if text.casefold() in memory.text.casefold()]:
        what = f"{text!r}" if text else "something"
        raise AssertionError(f"bank {bank.name!r} recalls {what} for {query!r}:{_bullets(found)}")


def _instead(bank: Bank, result: RecallResult) -> str:
    """What came up instead, else what there is."""
    if result:
        return f"; it recalls:{_bullets([memory.text for memory in result])}"
    held = [memory.text for memory in bank.list(limit=SHOWN + 1)]
    return f"; it recalls nothing, and holds:{_bullets(held)}" if held else "; it is empty"


def _bullets(texts: list[str]) -> str:
    more = ["..."] if len(texts) > SHOWN else []
    return "".join(f"\n  - {text}" for text in [*texts[:SHOWN], *more])
