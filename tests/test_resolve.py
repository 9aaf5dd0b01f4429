"""`per_user`: each run gets its own user's bank, and none without a user."""

from __future__ import annotations

from typing import Any

import pytest

from lorebank import Bank, UsageError, per_user
from lorebank.seams import BankResolver, checked, resolve


def test_each_run_gets_its_users_bank(bank: Bank) -> None:
    """The bank is named after the run's user and holds that user's memories only."""
    resolver = per_user(bank)
    ana, ben = (resolver.bank({"user_id": user, "thread_id": "t"}) for user in ("ana", "ben"))
    ana.retain("Ana plays the cello.")
    assert (ana.name, ben.name, ana.connections is bank.connections) == ("ana", "ben", True)
    assert (len(ana.list()), ben.list(), bank.list()) == (1, (), ())


def test_the_name_of_the_user_may_be_chosen(bank: Bank) -> None:
    """`key` says where the run names its user; nothing else of the run counts."""
    assert per_user(bank, key="account").bank({"account": "ana", "user_id": "ben"}).name == "ana"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({}, "nothing"),
        ({"thread_id": "t"}, "'thread_id'"),
        ({"user_id": None}, "user_id"),
        ({"user_id": ""}, "user_id"),
        ({"user_id": 5}, "int"),
        ({"user_id": "a/b"}, "'/'"),
        ({"user_id": "ana::atlas"}, "'::'"),
        ({"user_id": " "}, "empty"),
    ],
)
def test_a_run_without_a_proper_user_is_refused(bank: Bank, run: dict[str, Any], words: str) -> None:
    """No run falls back to a common bank; the message says what was found."""
    with pytest.raises(UsageError, match=words):
        per_user(bank).bank(run)


def test_a_plain_bank_is_fixed(bank: Bank) -> None:
    """Nothing in a run changes a bank that was given."""
    assert resolve(bank, {"user_id": "ben"}, looked="the config") is bank
    assert resolve(per_user(bank), {"user_id": "ben"}, looked="the config").name == "ben"


def test_an_error_says_where_the_user_was_looked_for(bank: Bank) -> None:
    """Who runs an agent learns where to put the user."""
    with pytest.raises(UsageError, match=r"names no 'user_id'.*\(looked in the config\)"):
        resolve(per_user(bank), {"thread_id": "t"}, looked="the config")


def test_any_object_of_the_right_shape_resolves(bank: Bank) -> None:
    """A resolver of the user's own is as good; anything else is refused at construction."""

    class ByTeam:
        def bank(self, run: Any) -> Bank:
            return bank.named(run["team"])

    assert isinstance(per_user(bank), BankResolver)
    assert resolve(checked(ByTeam()), {"team": "blue"}, looked="the config").name == "blue"
    for wrong in (None, "alice", object()):
        with pytest.raises(UsageError, match="open_bank"):
            checked(wrong)


def test_a_closed_bank_resolves_to_nothing(bank: Bank) -> None:
    """A run after close is refused."""
    bank.close()
    with pytest.raises(UsageError, match="closed"):
        per_user(bank).bank({"user_id": "ana"})
