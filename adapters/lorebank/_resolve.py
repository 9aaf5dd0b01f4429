"""Which bank a run of a host gets: the fixed one, or its user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lorebank._domain.ports import BankResolver
from lorebank.errors import UsageError

if TYPE_CHECKING:
    from lorebank._bank import Bank

Run = Mapping[str, Any]
"""What a host knows of a run: names such as `user_id` to values."""


def checked(bank: object) -> Bank | BankResolver:
    """A bank or a resolver; `UsageError` at construction for anything else."""
    from lorebank._bank import Bank  # loaded by whoever has opened one

    if isinstance(bank, (Bank, BankResolver)):
        return bank
    raise UsageError(f"`bank` must be a Bank (open_bank()) or a resolver (per_user(bank)); found {type(bank).__name__}")


def resolve(bank: Bank | BankResolver, run: Run, *, looked: str) -> Bank:
    """The bank of a run; nothing in the run changes a fixed one. `looked` says, in an error, where the user was looked for."""
    if not isinstance(bank, BankResolver):
        return bank
    try:
        return bank.bank(run)
    except UsageError as error:
        raise UsageError(f"{error} (looked in {looked})") from error
