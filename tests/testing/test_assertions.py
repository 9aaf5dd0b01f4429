"""What a test can say of a bank, and what it is told where that does not hold."""

import doctest
from pathlib import Path

import pytest

from lorebank import Bank, open_bank, testing
from lorebank.testing import Fault, FaultServer, ScriptedEmbedder, assert_not_recalled, assert_recalls, settle, temporary_bank

QUICK = {"batch_seconds": 0.02}


def test_the_memory_that_holds_the_text_is_given(bank: Bank) -> None:
    """Upper and lower case alike; what recall takes may be given, too."""
    bank.retain("Ana prefers aisle seats.", tags=["trip"])
    bank.retain("Ana plays the cello.")
    assert assert_recalls(bank, "Which seats does Ana prefer?", "AISLE", limit=1).tags == ("trip",)


def test_a_miss_tells_what_came_up_instead(bank: Bank) -> None:
    """The failure names bank, query, text and the memories that were recalled."""
    bank.retain("Ana prefers aisle seats.")
    with pytest.raises(AssertionError) as failure:
        assert_recalls(bank, "Which seats does Ana prefer?", "window")
    told = "bank 'alice' recalls nothing with 'window' for 'Which seats does Ana prefer?'; it recalls:"
    assert str(failure.value) == f"{told}\n  - Ana prefers aisle seats."


def test_a_miss_that_recalls_nothing_tells_what_the_bank_holds(bank: Bank) -> None:
    """Ten memories at most, newest first."""
    bank.retain([f"Ana visited city number {n}." for n in range(11)])
    with pytest.raises(AssertionError, match="it recalls nothing, and holds:") as failure:
        assert_recalls(bank, "tungsten?", "aisle")
    assert str(failure.value).count("\n  - Ana") == 10
    assert str(failure.value).endswith("\n  - ...")


def test_a_miss_in_an_empty_bank_says_so(bank: Bank) -> None:
    """Nothing was retained at all."""
    with pytest.raises(AssertionError, match="it is empty"):
        assert_recalls(bank, "Which seats?", "aisle")


def test_what_must_not_come_up(bank: Bank) -> None:
    """A text that is recalled fails the test; so does anything at all where no text is given."""
    bank.retain("Ana prefers aisle seats.")
    assert_not_recalled(bank, "Which seats does Ana prefer?", "window")
    assert_not_recalled(bank.named("ben"), "Which seats does Ana prefer?")
    for text, named in (("aisle", "'aisle'"), ("", "something")):
        with pytest.raises(AssertionError, match=f"recalls {named} for 'Which seats does Ana prefer\\?':\n  - Ana prefers"):
            assert_not_recalled(bank, "Which seats does Ana prefer?", text)


def test_on_a_server_an_assertion_waits_until_what_was_told_is_known(tmp_path: Path) -> None:
    """Operations of a server take a while."""
    with FaultServer() as server, open_bank(server.url, ledger=f"sqlite:///{tmp_path / 'o.db'}", outbox=QUICK) as bank:
        server.fault(Fault(delay=0.2), path="/memories$", method="POST")
        assert bank.retain("Ana prefers aisle seats.").queued
        assert_recalls(bank, "Which seats does Ana prefer?", "aisle")


def test_what_can_not_be_settled_fails_with_the_reason(tmp_path: Path) -> None:
    """A server that is down keeps writes in the outbox: a test that went on would test nothing."""
    with FaultServer() as server, open_bank(server.url, ledger=f"sqlite:///{tmp_path / 'o.db'}", outbox=QUICK) as bank:
        server.fault(Fault(status=503))
        bank.retain("Ana prefers aisle seats.")
        with pytest.raises(AssertionError, match=r"1 writes are left and 0 were given up after 2 s: .*503"):
            settle(bank, timeout=2)


def test_scripted_synonyms_are_found_by_meaning() -> None:
    """A query that shares no word with a memory finds it by a synonym, and nothing without one."""
    embedder = ScriptedEmbedder([("landlord", "lease")])
    with temporary_bank(embedder=embedder) as bank:
        bank.retain(["The lease is with Mr Okoro.", "Bello is a dog.", "The van is red."])
        assert_recalls(bank, "Who is my landlord?", "Okoro", limit=1)
        assert_not_recalled(bank, "Who is my tenant?")
        assert "Bello is a dog." in embedder.asked
        embedder.error = ConnectionError("down")
        assert_recalls(bank, "What about the dog?", "Bello")


def test_the_examples_run() -> None:
    """Those of `lorebank.testing`."""
    ran = doctest.testmod(testing)
    assert ran.attempted >= 7
    assert ran.failed == 0
