"""The second door: for those who write an integration or a backend, or lend lorebank a model.

Names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebank._lazy import lazily

if TYPE_CHECKING:
    from lorebank._background import Background, arrival
    from lorebank._connections import heard_by
    from lorebank._domain.archive import Archived, Dump, Entry, FormerText, Loaded, ModelEntry, Rejection
    from lorebank._domain.blocks import ahead_of, fence, render_memories, render_mental_models, shown_memories, strip
    from lorebank._domain.cursor import Claim, Known
    from lorebank._domain.events import (
        BankPrepared,
        DeadLettered,
        Event,
        IgnoredParameters,
        KeyTakenOver,
        LedgerMoved,
        Listener,
        ModelRefreshed,
        OutageEnded,
        OutageStarted,
        Recalled,
        Redacted,
        Retained,
        SessionUnreadable,
        Skipped,
    )
    from lorebank._domain.item import Item
    from lorebank._domain.memory import RecallTrace, Writer
    from lorebank._domain.mental_model import MentalModel, Revision
    from lorebank._domain.message import Keep, Line, Message, ToolCall, Transcript, last_turns, project, substantive, user_turns
    from lorebank._domain.operations import Directive, Document, Operation, OperationState
    from lorebank._domain.outbox import OutboxEntry, OutboxStatus, RowState
    from lorebank._domain.ports import (
        AfterTurn,
        Archive,
        Backend,
        BankResolver,
        BeforeTurn,
        Completer,
        Directives,
        Documents,
        Embedder,
        MentalModels,
        Operations,
        Outbox,
        SessionLedger,
        Sessions,
    )
    from lorebank._domain.query import compose_query
    from lorebank._domain.requests import (
        Change,
        FlushReport,
        Health,
        Integrity,
        ListRequest,
        RecallRequest,
        ReflectRequest,
        Selection,
        Stats,
    )
    from lorebank._domain.scope import Scope, scope_by_bank, scope_by_tag
    from lorebank._domain.session import MATRIX, Choices, DocumentWrite, History, Mode, Permits, Progress, Stored
    from lorebank._domain.toolbook import (
        DEFAULT_TOOLS,
        TOOLBOOK,
        EditArguments,
        Offer,
        RecallArguments,
        ReflectArguments,
        RetainArguments,
        ToolName,
    )
    from lorebank._forks import Forkable, watch_forks
    from lorebank._guarding import missed, quiet
    from lorebank._partial import PartialBackend
    from lorebank._resolve import Run, checked, resolve
    from lorebank._retrieval import Retrieval, described
    from lorebank._runs import RunSessions
    from lorebank._session.alias import Alias
    from lorebank._session_file import SessionFile
    from lorebank._shims import Places, checked_client, given, numbered, refuse_meaningless
    from lorebank._tools import MemoryTools, ToolFailure, ToolReply, offered
    from lorebank._twins import Threads

__all__ = [
    "DEFAULT_TOOLS",
    "MATRIX",
    "TOOLBOOK",
    "AfterTurn",
    "Alias",
    "Archive",
    "Archived",
    "Backend",
    "Background",
    "BankPrepared",
    "BankResolver",
    "BeforeTurn",
    "Change",
    "Choices",
    "Claim",
    "Completer",
    "DeadLettered",
    "Directive",
    "Directives",
    "Document",
    "DocumentWrite",
    "Documents",
    "Dump",
    "EditArguments",
    "Embedder",
    "Entry",
    "Event",
    "FlushReport",
    "Forkable",
    "FormerText",
    "Health",
    "History",
    "IgnoredParameters",
    "Integrity",
    "Item",
    "Keep",
    "KeyTakenOver",
    "Known",
    "LedgerMoved",
    "Line",
    "ListRequest",
    "Listener",
    "Loaded",
    "MemoryTools",
    "MentalModel",
    "MentalModels",
    "Message",
    "Mode",
    "ModelEntry",
    "ModelRefreshed",
    "Offer",
    "Operation",
    "OperationState",
    "Operations",
    "OutageEnded",
    "OutageStarted",
    "Outbox",
    "OutboxEntry",
    "OutboxStatus",
    "PartialBackend",
    "Permits",
    "Places",
    "Progress",
    "RecallArguments",
    "RecallRequest",
    "RecallTrace",
    "Recalled",
    "Redacted",
    "ReflectArguments",
    "ReflectRequest",
    "Rejection",
    "RetainArguments",
    "Retained",
    "Retrieval",
    "Revision",
    "RowState",
    "Run",
    "RunSessions",
    "Scope",
    "Selection",
    "SessionFile",
    "SessionLedger",
    "SessionUnreadable",
    "Sessions",
    "Skipped",
    "Stats",
    "Stored",
    "Threads",
    "ToolCall",
    "ToolFailure",
    "ToolName",
    "ToolReply",
    "Transcript",
    "Writer",
    "ahead_of",
    "arrival",
    "checked",
    "checked_client",
    "compose_query",
    "described",
    "fence",
    "given",
    "heard_by",
    "last_turns",
    "lazily",
    "missed",
    "numbered",
    "offered",
    "project",
    "quiet",
    "refuse_meaningless",
    "render_memories",
    "render_mental_models",
    "resolve",
    "scope_by_bank",
    "scope_by_tag",
    "shown_memories",
    "strip",
    "substantive",
    "user_turns",
    "watch_forks",
]

_HOMES = {
    "_session_file": ("SessionFile",),
    "_shims": ("Places", "checked_client", "given", "numbered", "refuse_meaningless"),
    "_lazy": ("lazily",),
    "_background": (
        "Background",
        "arrival",
    ),
    "_connections": ("heard_by",),
    "_domain.archive": (
        "Archived",
        "Dump",
        "Entry",
        "FormerText",
        "Loaded",
        "ModelEntry",
        "Rejection",
    ),
    "_domain.blocks": (
        "ahead_of",
        "fence",
        "render_memories",
        "render_mental_models",
        "shown_memories",
        "strip",
    ),
    "_domain.cursor": (
        "Claim",
        "Known",
    ),
    "_domain.events": (
        "BankPrepared",
        "DeadLettered",
        "Event",
        "IgnoredParameters",
        "KeyTakenOver",
        "LedgerMoved",
        "Listener",
        "ModelRefreshed",
        "OutageEnded",
        "OutageStarted",
        "Recalled",
        "Redacted",
        "Retained",
        "SessionUnreadable",
        "Skipped",
    ),
    "_domain.item": ("Item",),
    "_domain.memory": (
        "RecallTrace",
        "Writer",
    ),
    "_domain.mental_model": (
        "MentalModel",
        "Revision",
    ),
    "_domain.message": (
        "Keep",
        "Line",
        "Message",
        "ToolCall",
        "Transcript",
        "last_turns",
        "project",
        "substantive",
        "user_turns",
    ),
    "_domain.operations": (
        "Directive",
        "Document",
        "Operation",
        "OperationState",
    ),
    "_domain.outbox": (
        "OutboxEntry",
        "OutboxStatus",
        "RowState",
    ),
    "_domain.ports": (
        "AfterTurn",
        "Archive",
        "Backend",
        "BankResolver",
        "BeforeTurn",
        "Completer",
        "Directives",
        "Documents",
        "Embedder",
        "MentalModels",
        "Operations",
        "Outbox",
        "SessionLedger",
        "Sessions",
    ),
    "_domain.query": ("compose_query",),
    "_domain.requests": (
        "Change",
        "FlushReport",
        "Health",
        "Integrity",
        "ListRequest",
        "RecallRequest",
        "ReflectRequest",
        "Selection",
        "Stats",
    ),
    "_domain.scope": (
        "Scope",
        "scope_by_bank",
        "scope_by_tag",
    ),
    "_domain.session": (
        "Choices",
        "DocumentWrite",
        "History",
        "MATRIX",
        "Mode",
        "Permits",
        "Progress",
        "Stored",
    ),
    "_domain.toolbook": (
        "DEFAULT_TOOLS",
        "EditArguments",
        "Offer",
        "RecallArguments",
        "ReflectArguments",
        "RetainArguments",
        "TOOLBOOK",
        "ToolName",
    ),
    "_forks": (
        "Forkable",
        "watch_forks",
    ),
    "_guarding": (
        "missed",
        "quiet",
    ),
    "_partial": ("PartialBackend",),
    "_resolve": (
        "Run",
        "checked",
        "resolve",
    ),
    "_retrieval": (
        "Retrieval",
        "described",
    ),
    "_runs": ("RunSessions",),
    "_session.alias": ("Alias",),
    "_tools": (
        "MemoryTools",
        "ToolFailure",
        "ToolReply",
        "offered",
    ),
    "_twins": ("Threads",),
}
__getattr__ = lazily(__name__, "lorebank", _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
