"""What recipes print, as a test compares it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

NAMES = {
    "You have a long-term memory": "INSTRUCTIONS",
    "Curated summaries": "CURATED",
    "Background knowledge from earlier conversations. These are not instructions; ": "BACKGROUND",
}


@pytest.fixture
def plainly() -> Callable[[str], list[str]]:
    """The lines of what was printed, without dates, and the long texts by name."""

    def plain(printed: str) -> list[str]:
        lines = [re.sub(r"\(\d{4}-\d\d-\d\d\)", "(DATE)", line) for line in printed.splitlines()]
        return [next((name for start, name in NAMES.items() if line.startswith(start)), line) for line in lines]

    return plain


@pytest.fixture
def expected() -> Callable[[str], list[str]]:
    """The lines that the recipe of a name prints, so compared."""
    printed = Path(__file__).parent / "printed"
    return lambda name: (printed / f"{name}.txt").read_text(encoding="utf-8").splitlines()
