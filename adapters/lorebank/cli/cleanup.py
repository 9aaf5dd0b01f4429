"""`lorebank cleanup`: our blocks in stored transcripts, found, and taken out on request."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lorebank.cli.place import FINDINGS, AsJson, DryRun, Place, Yes, agreed, counted, explained, table
from lorebank.cli.pruning import Transcript, prune, read

SHOWN = 20
"""Lines that are shown one by one."""


def cleanup(
    file: Annotated[Path, typer.Argument(help="A transcript of LangChain or LlamaIndex: JSON Lines.")],
    pruned: Annotated[bool, typer.Option("--prune", help="Take the blocks out; the file as it was stays beside it.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Finds blocks of memories and mental models in a stored transcript; --prune takes them out. Exit code 5: some are there."""
    place = Place(None, "", as_json)
    with explained():
        transcript = read(file)
        if not transcript.cleaned.lines:
            place.tell(_told(transcript), f"No block of ours in {file}.")
            return
        if not pruned or dry_run or not as_json:
            _show(place, transcript)
        if not pruned or dry_run:
            raise typer.Exit(FINDINGS)
        agreed(place, f"Take {counted(transcript.cleaned.blocks, 'block')} out of {file}?", yes=yes)
        backup = prune(transcript)
        place.tell(
            {**_told(transcript), "pruned": True, "backup": str(backup)},
            f"{counted(transcript.cleaned.blocks, 'block')} taken out. The file as it was: {backup}",
        )


def _told(transcript: Transcript) -> dict[str, object]:
    cleaned = transcript.cleaned
    lines = [asdict(line) for line in cleaned.lines]
    return {"file": str(transcript.path), "blocks": cleaned.blocks, "lines": lines, "pruned": False}


def _show(place: Place, transcript: Transcript) -> None:
    """The lines, and what becomes of messages that hold nothing else."""
    cleaned = transcript.cleaned
    if place.as_json:
        place.tell(_told(transcript), "")
        return
    rows = [(each.line, each.blocks, each.dropped, each.emptied - each.dropped) for each in cleaned.lines[:SHOWN]]
    place.tell(None, table("line", "blocks", "messages that go", "messages left empty", rows=rows))
    more = f"; {len(cleaned.lines) - SHOWN:,} more are not shown" if len(cleaned.lines) > SHOWN else ""
    place.tell(None, f"{counted(cleaned.blocks, 'block')} in {counted(len(cleaned.lines), 'line')} of {transcript.path}{more}.")
