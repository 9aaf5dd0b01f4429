"""160 facts that changed, told plainly in four languages among everyday talk: which value comes before the other.

`pairs.json` was written without a look at the engine: an `old` and a `new` message, and questions for what holds `now`, as the
user asks and as an `agent` does, and for what was `before`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lorebank import Bank, Item
from lorebank.testing import temporary_bank

TOLD: dict[str, Any] = json.loads((Path(__file__).parent / "pairs.json").read_text(encoding="utf-8"))
BEGIN = datetime(2025, 1, 1, 9, tzinfo=UTC)
BANKS = 10
RIGHT = {"now": 0.85, "agent": 0.77, "before": 0.87}


def items(pairs: list[dict[str, str]], chance: random.Random) -> Iterator[Item]:
    """The messages of some pairs months apart, and of everyday talk, as they were said."""
    said: list[tuple[int, str]] = [(chance.randrange(300), text) for text in TOLD["chatter"]]
    for pair in pairs:
        day = chance.randrange(100)
        said += [(day, pair["old"]), (day + chance.randrange(60, 200), pair["new"])]
    for place, (day, text) in enumerate(sorted(said)):
        yield Item(text, session=f"day-{day}", speaker="user", timestamp=BEGIN + timedelta(days=day, minutes=place))


def right(bank: Bank, pair: dict[str, str], question: str) -> bool:
    found = [memory.text for memory in bank.recall(pair[question], limit=8)]
    wanted, other = (pair["old"], pair["new"]) if question == "before" else (pair["new"], pair["old"])
    return wanted in found and (other not in found or found.index(wanted) < found.index(other))


def test_the_value_that_is_asked_for_comes_first() -> None:
    """What holds now, or what held before: in most of them."""
    chance, counts = random.Random(5), Counter[str]()
    pairs: list[dict[str, str]] = chance.sample(TOLD["pairs"], len(TOLD["pairs"]))
    with temporary_bank("all") as everything:
        for number in range(BANKS):
            part, bank = pairs[number::BANKS], everything.named(f"part-{number}")
            bank.retain(list(items(part, chance)))
            counts.update(question for pair in part for question in RIGHT if right(bank, pair, question))
    shares = {question: counts[question] / len(pairs) for question in RIGHT}
    assert {question: share for question, share in shares.items() if share < RIGHT[question]} == {}, shares
