"""`audit`: what a person should look at, on either backend."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lorebank import Audit, Bank, UnavailableError, open_bank

Caller = Callable[..., Any]
Opener = Callable[..., Bank]
FACTS = ("world", "experience")
LONG_AGO = datetime(2024, 3, 1, 9, tzinfo=UTC)
CARD = "4111 1111 1111 1111"


def at(content: str, days: int = 0, **fields: Any) -> dict[str, Any]:
    """An item of a conversation of its own, so that no other is merged with it."""
    return {"content": content, "timestamp": LONG_AGO + timedelta(days=days), "document_id": f"doc-{days}", **fields}


WORLD = [
    at("My favourite colour is green, and I keep bees near Lyon with Marta.", 1, session="a"),
    at("My favourite colour is green, and I keep  bees near Lyon with Marta.", 2, session="b"),
    at("The landlord repairs the old heating in the small kitchen downstairs.", 3),
    at("The landlord really repairs the old heating in the small kitchen downstairs.", 4),
    at(f"The card of the office is {CARD} and nobody may know.", 5),
    at("The parcel for the office arrives tomorrow.", 6),
    at("Found 2 relevant memories (as of 2024-03-01 09:00 UTC): bees", 7),
    at("Thanks, perfect", 8),
    at("I live in Rome and I work at Acme.", 9),
    at("I live in Oslo.", 10),
    at("Ana's grandmother speaks Portuguese with her parrot.", 11),
]


def texts(bank: Bank, audit: Audit, kind: Any) -> list[list[str]]:
    """What the findings of a kind are about, as far as they are about what was told: a server draws observations from it."""
    found = [[bank.get(each) for each in finding.ids] for finding in audit.of(kind)]
    told = [memories for memories in found if all(memory.type in FACTS for memory in memories)]
    return [[" ".join(memory.text.split()) for memory in memories] for memories in told]


def test_each_kind_is_found_with_its_ids(opened: Opener) -> None:
    """What is well is not found; secrets are masked; nothing is changed."""
    bank = opened(bank="alice", retain={"redactor": None})
    bank.retain(WORLD)
    assert bank.flush(timeout=60, until="completed").done
    audit = bank.audit()
    contents = [" ".join(item["content"].split()) for item in WORLD]
    assert texts(bank, audit, "duplicates") == [[contents[0], contents[0]]]
    assert texts(bank, audit, "near_duplicates") == [contents[2:4]]
    assert texts(bank, audit, "secrets") == [[contents[4]]]
    assert texts(bank, audit, "stale") == [[contents[5]]]
    assert texts(bank, audit, "feedback") == [[contents[6]]]
    assert texts(bank, audit, "junk") == [[contents[7]]]
    assert [pair[-1] for pair in texts(bank, audit, "contradicting")] == ["I live in Oslo."]
    assert CARD not in repr(audit)
    assert "1 secret in 'The card of the office is [redacted] and nobody may…'" in repr(audit)
    assert (audit.ok, audit.bank, sum(audit.counts.values())) == (False, bank.scope.bank, len(audit.findings))
    assert len(bank.list(types=FACTS)) == len(WORLD)


def test_an_unknown_bank_is_clean(bank: Bank, call: Caller) -> None:
    """Nothing is there, and nothing is found."""
    heard: list[tuple[int, int]] = []
    audit = call(bank, "audit", progress=lambda done, total: heard.append((done, total)))
    assert (audit.ok, audit.memories, audit.findings, heard) == (True, 0, (), [(0, 0)])


@pytest.mark.backends("mnemopi")
def test_what_is_no_longer_true_is_passed_over(bank: Bank, call: Caller) -> None:
    """Nobody recalls it."""
    call(bank, "retain", [at("The parcel for the office arrives tomorrow.")])
    [memory] = call(bank, "list", types=FACTS)
    call(bank, "invalidate", memory.id)
    assert memory.id not in {each for finding in call(bank, "audit").findings for each in finding.ids}


def test_a_server_that_is_down_can_not_be_audited() -> None:
    """That is an error, and never a clean bank."""
    with open_bank("http://127.0.0.1:9", bank="alice") as bank, pytest.raises(UnavailableError):
        bank.audit()
