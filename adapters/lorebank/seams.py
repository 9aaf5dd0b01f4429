"""The second door: for those who write an integration or a backend, or lend lorebank a model."""

from __future__ import annotations

from lorebank._domain.blocks import fence, render_memories, render_mental_models, strip
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
from lorebank._domain.session import (
    History,
)
from lorebank._domain.toolbook import (
    DEFAULT_TOOLS,
    TOOLBOOK,
    EditArguments,
    RecallArguments,
    ReflectArguments,
    RetainArguments,
    ToolName,
)
from lorebank._resolve import Run, checked, resolve
from lorebank._retrieval import Retrieval, described
from lorebank._tools import MemoryTools, ToolFailure, ToolReply, offered
from lorebank._twins import Threads

__all__ = [
    "DEFAULT_TOOLS",
    "TOOLBOOK",
    "AfterTurn",
    "Backend",
    "BankPrepared",
    "BankResolver",
    "BeforeTurn",
    "Change",
    "Completer",
    "DeadLettered",
    "Directive",
    "Directives",
    "Document",
    "Documents",
    "EditArguments",
    "Embedder",
    "Event",
    "FlushReport",
    "Health",
    "History",
    "IgnoredParameters",
    "Integrity",
    "Item",
    "Keep",
    "KeyTakenOver",
    "LedgerMoved",
    "Line",
    "ListRequest",
    "Listener",
    "MemoryTools",
    "MentalModel",
    "MentalModels",
    "Message",
    "ModelRefreshed",
    "Operation",
    "OperationState",
    "Operations",
    "OutageEnded",
    "OutageStarted",
    "Outbox",
    "OutboxEntry",
    "OutboxStatus",
    "RecallArguments",
    "RecallRequest",
    "RecallTrace",
    "Recalled",
    "Redacted",
    "ReflectArguments",
    "ReflectRequest",
    "RetainArguments",
    "Retained",
    "Retrieval",
    "Revision",
    "RowState",
    "Run",
    "Scope",
    "Selection",
    "Skipped",
    "Stats",
    "Threads",
    "ToolCall",
    "ToolFailure",
    "ToolName",
    "ToolReply",
    "Transcript",
    "Writer",
    "checked",
    "compose_query",
    "described",
    "fence",
    "last_turns",
    "offered",
    "project",
    "render_memories",
    "render_mental_models",
    "resolve",
    "scope_by_bank",
    "scope_by_tag",
    "strip",
    "substantive",
    "user_turns",
]
