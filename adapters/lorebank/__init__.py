"""Long-term memory for LangChain and LlamaIndex.

>>> from lorebank import open_bank
>>> bank = open_bank("sqlite:///memory.db", bank="alice")

Names load on first use, so that importing is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebank._lazy import lazily

if TYPE_CHECKING:
    from lorebank._bank import Bank
    from lorebank._domain.archive import ExportReport, ImportReport
    from lorebank._domain.audit import Audit, Finding
    from lorebank._domain.entities import Entities, Entity, Together
    from lorebank._domain.item import Item
    from lorebank._domain.memory import Memory, Outcome, RecallResult, Receipt, Reflection, Removal
    from lorebank._domain.mental_model import MentalModel, Seed
    from lorebank._domain.message import Message
    from lorebank._domain.operations import Directive, Document, Operation
    from lorebank._domain.outbox import OutboxEntry, OutboxStatus, Rerouted
    from lorebank._domain.session import Injection, SessionRecord, Trace, TurnReceipt
    from lorebank._domain.settings import (
        ConnectionSettings,
        FollowUp,
        MentalModelSettings,
        Missions,
        MnemopiSettings,
        OutboxSettings,
        RankingWeights,
        RecallSettings,
        RetainSettings,
    )
    from lorebank._open import open_bank, per_user
    from lorebank._session.session import Session
    from lorebank.errors import (
        DeadlineError,
        ForbiddenError,
        GarbledError,
        LorebankError,
        MissingError,
        OutboxFullError,
        RateLimitedError,
        RefusedError,
        UnavailableError,
        UnsupportedError,
        UsageError,
    )

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Bank",
    "ConnectionSettings",
    "DeadlineError",
    "Directive",
    "Document",
    "Entities",
    "Entity",
    "ExportReport",
    "Finding",
    "FollowUp",
    "ForbiddenError",
    "GarbledError",
    "ImportReport",
    "Injection",
    "Item",
    "LorebankError",
    "Memory",
    "MentalModel",
    "MentalModelSettings",
    "Message",
    "MissingError",
    "Missions",
    "MnemopiSettings",
    "Operation",
    "OutboxEntry",
    "OutboxFullError",
    "OutboxSettings",
    "OutboxStatus",
    "Outcome",
    "RankingWeights",
    "RateLimitedError",
    "RecallResult",
    "RecallSettings",
    "Receipt",
    "Reflection",
    "RefusedError",
    "Removal",
    "Rerouted",
    "RetainSettings",
    "Seed",
    "Session",
    "SessionRecord",
    "Together",
    "Trace",
    "TurnReceipt",
    "UnavailableError",
    "UnsupportedError",
    "UsageError",
    "open_bank",
    "per_user",
]

_HOMES = {
    "_bank": ("Bank",),
    "_domain.archive": ("ExportReport", "ImportReport"),
    "_domain.audit": ("Audit", "Finding"),
    "_domain.entities": ("Entities", "Entity", "Together"),
    "_domain.item": ("Item",),
    "_domain.memory": ("Memory", "Outcome", "RecallResult", "Receipt", "Reflection", "Removal"),
    "_domain.mental_model": ("MentalModel", "Seed"),
    "_domain.message": ("Message",),
    "_domain.operations": ("Directive", "Document", "Operation"),
    "_domain.outbox": ("OutboxEntry", "OutboxStatus", "Rerouted"),
    "_domain.session": ("Injection", "SessionRecord", "Trace", "TurnReceipt"),
    "_domain.settings": (
        "ConnectionSettings",
        "FollowUp",
        "MentalModelSettings",
        "Missions",
        "MnemopiSettings",
        "OutboxSettings",
        "RankingWeights",
        "RecallSettings",
        "RetainSettings",
    ),
    "_open": ("open_bank", "per_user"),
    "_session.session": ("Session",),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
}
__getattr__ = lazily(__name__, __name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
