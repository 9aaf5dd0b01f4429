"""`lorebank export` and `lorebank import`: a bank into a file, a file into a bank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from lorebank import ExportReport, ImportReport
from lorebank.cli.place import PATIENCE, Place, bar, counted

SHOWN = 10
"""Rejections that are shown one by one."""


@dataclass(frozen=True, slots=True)
class What:
    """What of a file is imported, and whether it is."""

    format: str
    only: str | None
    dry_run: bool


def run_export(path: Path, place: Place, *, overwrite: bool) -> None:
    """Writes the file and says what is in it."""
    with place.open() as bank, bar("exporting", quiet=place.as_json) as hear:
        report = bank.export(path, overwrite=overwrite, progress=hear)
    place.tell(report, f"{_counted(report)} in {report.path} ({report.bytes:,} bytes).")


def run_import(path: Path, place: Place, what: What) -> None:
    """Reads the file and says what became of it."""
    with place.open() as bank:
        with bar("checking" if what.dry_run else "importing", quiet=place.as_json) as hear:
            report = bank.import_(path, format=cast("Any", what.format), only=what.only, dry_run=what.dry_run, progress=hear)
        left = bank.flush(timeout=PATIENCE).left if report.queued and not what.dry_run else 0
    place.tell({**asdict(report), "left": left}, "\n".join(_told(report, left)))


def _told(report: ImportReport, left: int) -> Iterator[str]:
    """What became of a file, line by line."""
    yield _outcome(report)
    for each in report.reasons[:SHOWN]:
        yield f"  not imported: {each.id or 'a message'}{f', line {each.line}' if each.line else ''}: {each.reason}"
    if report.rejected > SHOWN:
        yield f"  and {report.rejected - SHOWN:,} more."
    if left:
        yield f"{left:,} wait in the outbox: they are sent by the next command, or by `bank.flush()`."


def _counted(report: ExportReport) -> str:
    others = {"document": report.documents, "directive": report.directives}
    told = [counted(report.memories, "memory", "memories"), counted(report.mental_models, "mental model")]
    return ", ".join(told + [counted(count, name) for name, count in others.items() if count])


def _outcome(report: ImportReport) -> str:
    states = {
        "added": report.added,
        "queued": report.queued,
        "already known": report.known,
        "rejected": report.rejected,
        "left out": report.skipped,
        "secrets taken out": report.redactions,
    }
    others = {"mental model": report.mental_models, "directive": report.directives}
    parts = [f"{count:,} {name}" for name, count in states.items() if count]
    parts += [counted(count, name) for name, count in others.items() if count]
    told = ", ".join(parts) or "nothing new"
    return f"{'Would be' if report.dry_run else 'From'} {report.format}: {told}."
