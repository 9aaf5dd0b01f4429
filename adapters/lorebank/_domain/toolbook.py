"""The memory tools as a model sees them: names, descriptions, argument schemas, result texts. Golden files fix the bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from lorebank._domain.blocks import fence, fold
from lorebank._domain.memory import BackendName, Memory, Receipt, Reflection
from lorebank.errors import UsageError

Style = BackendName
ToolName = Literal["retain", "recall", "reflect", "memory_edit", "retain_global"]
DEFAULT_TOOLS: tuple[ToolName, ...] = ("retain", "recall", "reflect")

NOTHING_FOUND = "No relevant memories found."
NOTHING_TO_REFLECT = "No relevant information found to reflect on."


class Arguments(BaseModel):
    """What all tool arguments share: no unknown fields."""

    model_config = ConfigDict(extra="forbid")


class RetainItem(Arguments):
    """One thing to remember."""

    content: str = Field(min_length=1, description="One self-contained statement: who, what, when and why.")
    context: str | None = Field(default=None, description="Where it comes from, in a few words.")


class RetainArguments(Arguments):
    """Arguments of `retain` and `retain_global`."""

    items: list[RetainItem] = Field(min_length=1, description="What to remember; related statements in one call.")


class RecallArguments(Arguments):
    """Arguments of `recall`."""

    query: str = Field(min_length=1, description="What to look for, in natural language.")


class ReflectArguments(Arguments):
    """Arguments of `reflect`."""

    query: str = Field(min_length=1, description="The question to answer from memory.")
    context: str | None = Field(default=None, description="What narrows the question down.")


class EditArguments(Arguments):
    """Arguments of `memory_edit`."""

    operation: Literal["update", "forget", "invalidate"] = Field(description="What to do with the memory.")
    id: str = Field(min_length=1, description="The memory's id, as shown by recall.")
    content: str | None = Field(default=None, description="update: the whole new text.")
    importance: float | None = Field(default=None, ge=0, le=1, description="update: the new importance, 0 to 1.")
    replacement_id: str | None = Field(default=None, description="invalidate: the memory that holds the truth now.")


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool's name, what the model is told about it, and its arguments."""

    name: ToolName
    description: str
    arguments: type[BaseModel]


TOOLBOOK: dict[ToolName, ToolEntry] = {
    "retain": ToolEntry(
        "retain",
        "Save facts that will matter in later conversations: preferences, decisions, names, dates, how things work. "
        "Each item must be understandable on its own. Don't save the state of the present task, guesses, or what was "
        "recalled from memory.",
        RetainArguments,
    ),
    "recall": ToolEntry(
        "recall",
        "Search long-term memory and get the stored entries, best first. Use it on your own initiative whenever the "
        "answer may depend on earlier conversations, before you guess or ask again.",
        RecallArguments,
    ),
    "reflect": ToolEntry(
        "reflect",
        "Get one answer drawn from many memories, for broad questions about the user or the project. For single facts "
        "use recall.",
        ReflectArguments,
    ),
    "memory_edit": ToolEntry(
        "memory_edit",
        "Correct long-term memory: update an entry's text, forget an entry for good, or invalidate one that is no "
        "longer true (it is kept, but not recalled). Take the id from recall.",
        EditArguments,
    ),
    "retain_global": ToolEntry(
        "retain_global",
        "Save facts into the memory that is shared with other users and projects. Only what all of them should know; "
        "for everything else use retain.",
        RetainArguments,
    ),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a model is offered, and what goes before their names."""

    tools: tuple[ToolName, ...] = ()
    prefix: str = ""


def parse_tools(values: object) -> tuple[ToolName, ...]:
    """Names of tools, in the toolbook's order."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"`tools` must be a list of names of tools; found {values!r}")
    names = set(cast("Iterable[object]", values))
    if unknown := [name for name in names if name not in TOOLBOOK]:
        raise UsageError(f"there is no tool {unknown[0]!r}; there are {', '.join(TOOLBOOK)}")
    return tuple(name for name in TOOLBOOK if name in names)


def plural(count: int) -> str:
    """`memory` or `memories`."""
    return "memory" if count == 1 else "memories"


def retain_text(receipt: Receipt, style: Style = "mnemopi") -> str:
    """What the model reads after `retain`; the counts are the true ones."""
    done, verb = (len(receipt.stored), "stored") if style == "mnemopi" else (len(receipt.queued), "queued")
    known, refused = len(receipt.duplicates), len(receipt.rejected)
    text = f"{done} {plural(done)} {verb}."
    return f"{text} {known} already known, {refused} rejected." if known or refused else text


def recall_text(memories: Sequence[Memory], *, style: Style, now: datetime, ids: bool = False) -> str:
    """What the model reads after `recall`: a head line with the time, in UTC, and one bullet a memory."""
    if not memories:
        return NOTHING_FOUND
    head = f"Found {len(memories)} relevant {plural(len(memories))} (as of {now:%Y-%m-%d %H:%M} UTC):"
    return "\n".join([head, "", *bullets(memories, style=style, ids=ids)])


def bullets(memories: Sequence[Memory], *, style: Style, ids: bool = False) -> list[str]:
    """One line a memory, in the style of the backend it comes from (`style`, where it does not say); absent parts are left
    out.
    """
    return [
        _mnemopi_bullet(memory) if (memory.backend or style) == "mnemopi" else _hindsight_bullet(memory, ids)
        for memory in memories
    ]


def queued_text(count: int) -> str:
    """What the model reads below what was recalled while writes are on their way."""
    return f"{count} {'write is' if count == 1 else 'writes are'} queued and can't be found yet."


def _mnemopi_bullet(memory: Memory) -> str:
    parts = [f"- {fence(fold(memory.text))} (id: {memory.id})"]
    parts += [f"[{memory.source}]"] if memory.source else []
    parts += [f"({memory.mentioned_at:%Y-%m-%d})"] if memory.mentioned_at else []
    parts += [f"c:{memory.score:.1f}"] if memory.score is not None else []
    return " ".join(parts)


def _hindsight_bullet(memory: Memory, ids: bool) -> str:
    parts = [f"- {fence(fold(memory.text))}", *([f"(id: {memory.id})"] if ids else []), f"[{memory.type}]"]
    parts += [f"({memory.mentioned_at:%Y-%m-%d})"] if memory.mentioned_at else []
    return " ".join(parts)


def reflect_query(query: str, context: str | None) -> str:
    """The query that is sent for `reflect`: the context, trimmed, stands after it."""
    return f"{query}\n\nAdditional context:\n{context.strip()}" if context and context.strip() else query


def reflect_text(reflection: Reflection) -> str:
    """What the model reads after `reflect`."""
    return reflection.text.strip() or NOTHING_TO_REFLECT


def ranked_reflection(memories: Sequence[Memory]) -> str:
    """A reflection without a model: the ranked memories themselves, what holds now before what held before that."""
    held = [memory for memory in memories if memory.superseded_by is None]
    former = [memory for memory in memories if memory.superseded_by is not None]
    parts = (("Based on recalled memories:", held), ("What held before:", former))
    return "\n\n".join("\n".join([title, "", *bullets(part, style="mnemopi")]) for title, part in parts if part)


def edit_text(operation: str, memory_id: str, replacement_id: str | None = None) -> str:
    """What the model reads after `memory_edit`."""
    done = {"update": "updated", "forget": "forgotten", "invalidate": "invalidated"}[operation]
    return f"Memory {memory_id} {done}" + (f"; {replacement_id} replaces it." if replacement_id else ".")
