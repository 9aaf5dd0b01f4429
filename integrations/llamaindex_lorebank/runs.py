"""What a LlamaIndex run tells about itself: its instrument tags."""

from __future__ import annotations

from llama_index_instrumentation.dispatcher import active_instrument_tags

from lorebank import Bank
from lorebank.seams import BankResolver, resolve

LOOKED = 'the run\'s instrument tags: with instrument_tags({"user_id": ...})'


def bank_of(bank: Bank | BankResolver) -> Bank:
    """The bank of the present run. With `per_user`, a run without its user is a `UsageError` that says where to put it."""
    return bank if isinstance(bank, Bank) else resolve(bank, dict(active_instrument_tags.get()), looked=LOOKED)
