"""`lorebank audit`: what of a bank a person should look at."""

from __future__ import annotations

from typing import Annotated

import typer

from lorebank import Audit, Finding, UsageError
from lorebank._domain.audit import KINDS
from lorebank.cli.place import FINDINGS, AsJson, Name, Place, Project, Url, bar, counted, explained, table

IDS = 3
"""Ids of a finding that are shown one by one."""


def audit(
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help=f"Only this: {', '.join(KINDS)}. May be repeated.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many of each kind.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Looks for junk, duplicates, feedback, secrets, stale and contradicting memories; changes nothing. Exit code 5: found."""
    place = Place(url, bank, as_json, project)
    with explained():
        wanted = _kinds(kind)
        with place.open() as opened, bar("looking", quiet=as_json) as hear:
            found = opened.audit(progress=hear)
    shown = [finding for finding in found.findings if finding.kind in wanted]
    if as_json:
        counts = {name: count for name, count in found.counts.items() if name in wanted}
        place.tell({"bank": found.bank, "memories": found.memories, "counts": counts, "findings": shown}, "")
    else:
        _print(place, found, shown, limit)
    if shown:
        raise typer.Exit(FINDINGS)


def _kinds(given: list[str] | None) -> tuple[str, ...]:
    if unknown := [name for name in given or () if name not in KINDS]:
        raise UsageError(f"no kind is named {unknown[0]!r}: there are {', '.join(KINDS)}")
    return tuple(given) if given else KINDS


def _print(place: Place, found: Audit, shown: list[Finding], limit: int) -> None:
    looked = counted(found.memories, "memory", "memories")
    if not shown:
        place.tell(None, f"{looked}: nothing to look at.")
        return
    kept: list[Finding] = []
    for kind in KINDS:
        kept += [finding for finding in shown if finding.kind == kind][:limit]
    rows = [(finding.kind.replace("_", " "), finding.count, _ids(finding), finding.reason) for finding in kept]
    place.tell(None, table("kind", "count", "ids", "why", rows=rows))
    counts = {kind: sum(finding.kind == kind for finding in shown) for kind in KINDS}
    told = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)
    more = f" {len(shown) - len(kept):,} are not shown (--limit)." if len(kept) < len(shown) else ""
    place.tell(None, f"{looked}: {told}.{more}")


def _ids(finding: Finding) -> str:
    more = f" and {finding.count - IDS:,} more" if finding.count > IDS else ""
    return ", ".join(finding.ids[:IDS]) + more
