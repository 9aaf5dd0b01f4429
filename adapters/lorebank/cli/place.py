"""Which bank a command means, how it tells its outcome, and with which exit code it ends.

0: done. 1: a fault, or a refusal. 2: the command was wrong. 3: memory could not be asked; try again. 4: no such thing, or
nothing was found. 5: an audit found something, or a transcript holds our blocks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table

from lorebank import Bank, LorebankError, MissingError, UnavailableError, UsageError, open_bank

FAULT, USAGE, UNAVAILABLE, NOTHING, FINDINGS = 1, 2, 3, 4, 5
PATIENCE = 60.0
"""Seconds for a server to take what was queued."""
CLOSING = 0.2
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
console = Console()
errors = Console(stderr=True)

Url = Annotated[
    str | None, typer.Option("--url", help="The backend; default: LOREBANK_URL, HINDSIGHT_API_URL, the default file.")
]
Name = Annotated[str, typer.Option("--bank", help="The bank's name.")]
Project = Annotated[
    str | None, typer.Option("--project", help="Only this project's memories: its label, or auto for the current folder's.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")]


@dataclass(frozen=True, slots=True)
class Place:
    """Which bank is meant, and whether the outcome is for scripts."""

    url: str | None
    bank: str
    as_json: bool = False
    project: str | None = None

    def open(self) -> Bank:
        """The bank. What a command writes it waits for itself, and not once more when it closes the bank."""
        scoping: Literal["global", "per-project"] = "global" if self.project is None else "per-project"
        quick = {"close_timeout": CLOSING}
        return open_bank(self.url, bank=self.bank, project=self.project, scoping=scoping, connection=quick)

    def tell(self, outcome: object, text: str | Table) -> None:
        """Prints an outcome: as JSON, or the text."""
        if self.as_json:
            print(json.dumps(outcome, default=_plain, ensure_ascii=False))  # noqa: T201 - for scripts
        else:
            console.print(text if isinstance(text, Table) else harmless(text), highlight=False, soft_wrap=True)


def table(*columns: str, rows: Iterable[Sequence[object]]) -> Table:
    """A table for people."""
    made = Table(*columns, box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for row in rows:
        made.add_row(*("" if each is None else harmless(str(each)) for each in row))
    return made


def harmless(text: str) -> str:
    """A text as a terminal may have it: a memory is no markup, and steers nothing."""
    return escape(_CONTROL.sub("", text))


def agreed(place: Place, question: str, *, yes: bool) -> None:
    """Asks before something is destroyed; ends the command where the answer is no. A script says `--yes`."""
    if yes:
        return
    if place.as_json:
        raise UsageError("with --json nobody can be asked: say --yes, or look first with --dry-run")
    typer.confirm(question, abort=True)


@contextmanager
def explained() -> Iterator[None]:
    """Errors of ours, and of a missing package, end the command with one line and an exit code that says what to do."""
    try:
        yield
    except (LorebankError, ImportError) as error:
        errors.print(f"[red]error:[/red] {harmless(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(code_of(error))


def code_of(error: Exception) -> int:
    """The exit code of an error."""
    kinds: tuple[tuple[type[Exception], int], ...] = (
        (MissingError, NOTHING),
        (UnavailableError, UNAVAILABLE),
        (UsageError, USAGE),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), FAULT)


@contextmanager
def bar(title: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on the error stream; none for scripts."""
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal) as shown:
        task = shown.add_task(title, total=None)

        def hear(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield hear


def text_of(bank: Bank, id: str) -> str:
    """What a memory says now; it may be gone since."""
    try:
        return bank.get(id).text
    except MissingError:
        return "(forgotten)"


def counted(count: int, name: str, plural: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {name if count == 1 else plural or f'{name}s'}"


def _plain(value: object) -> object:
    """What JSON lacks: our values, times, sets."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
