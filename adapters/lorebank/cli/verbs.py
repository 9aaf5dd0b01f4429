"""`lorebank retain`, `recall`, `reflect`, `stats`, `forget`, `clear`: a bank's verbs."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from lorebank import Bank, Item, Memory, RecallResult, Removal
from lorebank._domain.toolbook import NOTHING_TO_REFLECT
from lorebank.cli.place import (
    NOTHING,
    PATIENCE,
    UNAVAILABLE,
    AsJson,
    DryRun,
    Name,
    Place,
    Project,
    Url,
    Yes,
    agreed,
    counted,
    explained,
    table,
    text_of,
)

Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be given several times.")]
SHOWN = 20
"""Memories of a removal that are shown one by one."""


def retain(
    content: Annotated[str, typer.Argument(help="What to remember; - reads it from the standard input, one memory a line.")],
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    tag: Tags = None,
    document: Annotated[str | None, typer.Option("--document", help="The document that it belongs to.")] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds that a server gets to take it.")] = PATIENCE,
    as_json: AsJson = False,
) -> None:
    """Remembers something."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        texts = [line for line in sys.stdin.read().splitlines() if line.strip()] if content == "-" else [content]
        receipt = opened.retain([Item(text, tags=tag or (), document_id=document) for text in texts])
        left = opened.flush(timeout=wait).left if receipt.queued else 0
    states = {
        "stored": receipt.stored,
        "queued": receipt.queued,
        "already known": receipt.duplicates,
        "rejected": receipt.rejected,
    }
    told = ", ".join(f"{len(each)} {name}" for name, each in states.items() if each)
    reasons = "".join(f"\n  not kept: {each.reason}" for each in receipt.rejected)
    waiting = f"\n{left:,} wait in the outbox: they are sent when the server answers." if left else ""
    place.tell({"receipt": receipt, "left": left}, f"{told}.{reasons}{waiting}")
    if receipt.rejected:
        raise typer.Exit(1)


def recall(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    tag: Tags = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many memories.")] = 8,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each signal added to a score.")] = False,
    as_json: AsJson = False,
) -> None:
    """Finds memories. Exit code 4: nothing is known; 3: memory could not be asked."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        found = opened.recall(query, limit=limit, tags=tag or None, explain=explain)
    place.tell(_outcome(found), _memories(found, explain=explain) if found else f"{found.state}.")
    if not found:
        raise typer.Exit(UNAVAILABLE if found.state == "unavailable" else NOTHING)


def reflect(
    question: Annotated[str, typer.Argument(help="What to answer from memory.")],
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    as_json: AsJson = False,
) -> None:
    """One answer drawn from several memories. Exit code 4: nothing is known."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        told = opened.reflect(question)
    place.tell(told, told.text)
    if told.text.strip() in ("", NOTHING_TO_REFLECT):
        raise typer.Exit(NOTHING)


def stats(url: Url = None, bank: Name = "default", project: Project = None, as_json: AsJson = False) -> None:
    """Counts what a bank holds."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        found = opened.stats()
    rows: list[tuple[object, ...]] = [
        ("bank", found.bank),
        ("memories", f"{found.memories:,}"),
        ("no longer true", f"{found.invalidated:,}"),
        *((f"type {name}", f"{count:,}") for name, count in found.by_type.items()),
        *((f"source {name}", f"{count:,}") for name, count in found.by_source.items()),
        ("sessions", f"{found.sessions:,}"),
        ("mental models", f"{found.mental_models:,}"),
        ("oldest", found.oldest and f"{found.oldest:%Y-%m-%d}"),
        ("newest", found.newest and f"{found.newest:%Y-%m-%d}"),
        ("bytes", f"{found.bytes:,}" if found.bytes is not None else None),
    ]
    place.tell(found, table("", "", rows=[row for row in rows if row[1] is not None]))


def forget(
    id: Annotated[str | None, typer.Argument(help="The memory's id.")] = None,
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    session: Annotated[str | None, typer.Option("--session", help="All of this conversation.")] = None,
    document: Annotated[str | None, typer.Option("--document", help="All of this document.")] = None,
    tag: Tags = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Deletes a memory, or all of a session, a document, a tag, for good: from rows, indexes and pages. Shows which, and asks."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        which: dict[str, Any] = {"session": session, "document": document, "tags": tag}
        removal = opened.forget(id, **which, dry_run=True)
        if not removal.ids and not removal.rows:
            place.tell(removal, "Nothing to forget.")
            raise typer.Exit(NOTHING)
        if dry_run or not as_json:
            place.tell(removal, _doomed(opened, removal))
        if dry_run:
            return
        agreed(place, f"Forget {_amount(removal)} for good?", yes=yes)
        removal = opened.forget(id, **which)
        place.tell(removal, _removed(removal))


def clear(url: Url = None, bank: Name = "default", yes: Yes = False, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Empties a bank for good. Shows how much it holds, and asks."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        held = opened.stats()
        holds = (
            f"{held.bank} holds {counted(held.memories, 'memory', 'memories')}, {counted(held.mental_models, 'mental model')}."
        )
        if dry_run:
            place.tell({"dry_run": True, "would_remove": held}, holds)
            return
        agreed(place, f"{holds} Empty it for good?", yes=yes)
        removal = opened.clear(confirm=opened.scope.bank)
        place.tell(removal, _removed(removal))


def _memories(found: RecallResult, *, explain: bool) -> Table:
    """The memories, best first."""
    rows = [(each.id, _score(each), each.text, _told(each) if explain else _day(each)) for each in found]
    return table("id", "score", "memory", "why" if explain else "said", rows=rows)


def _outcome(found: RecallResult) -> dict[str, object]:
    return {"state": found.state, "query": found.query, "memories": list(found), "trace": found.trace}


def _score(memory: Memory) -> str:
    return "" if memory.score is None else f"{memory.score:.3f}"


def _day(memory: Memory) -> str:
    return f"{memory.mentioned_at:%Y-%m-%d}" if memory.mentioned_at else ""


def _told(memory: Memory) -> str:
    return ", ".join(f"{name} {value:+.3f}" for name, value in (memory.signals or {}).items())


def _doomed(bank: Bank, removal: Removal) -> str:
    """What a removal takes, one by one as far as that is readable."""
    lines = [f"  {each}  {text_of(bank, each)[:100]}" for each in removal.ids[:SHOWN]]
    more = [f"  and {len(removal) - SHOWN:,} more"] if len(removal) > SHOWN else []
    queued = [f"  {counted(len(removal.rows), 'write')} in the outbox"] if removal.rows else []
    return "\n".join([*lines, *more, *queued])


def _amount(removal: Removal) -> str:
    queued = f" and {counted(len(removal.rows), 'queued write')}" if removal.rows else ""
    return f"{counted(len(removal), 'memory', 'memories')}{queued}"


def _removed(removal: Removal) -> str:
    told = f"{_amount(removal)} forgotten."
    return told if removal.reason is None else f"{told} Not yet out of every page: {removal.reason}."
