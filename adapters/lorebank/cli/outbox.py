"""`lorebank outbox ...`: writes that have not reached the server yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer

from lorebank.cli.place import (
    NOTHING,
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
)

app = typer.Typer(no_args_is_help=True, help="Writes that wait for the memory server, and dead letters.")
SHOWN = 10
"""Ids that are shown one by one."""
Ids = Annotated[list[str] | None, typer.Argument(help="The rows' ids; none: all that are dead.")]


@app.command("list")
def list_(
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    state: Annotated[str | None, typer.Option("--state", help="Only rows of this state, such as dead.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1)] = 100,
    as_json: AsJson = False,
) -> None:
    """Shows the bank's rows, the oldest first, and how the server answers."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        status = opened.outbox.status()
        rows = opened.outbox.list(state=cast("Any", state), limit=limit)
    resting = f"; the server rests: {status.reason}" if status.resting_until else ""
    told = f"{counted(status.waiting, 'write waits', 'writes wait')}, {counted(status.lost, 'dead letter')}{resting}."
    if not as_json:
        place.tell(None, told)
    cells = [(e.id, e.state, f"{e.created_at:%Y-%m-%d %H:%M}", e.document_id, e.bytes, e.attempts, e.reason) for e in rows]
    if rows or as_json:
        shown = table("id", "state", "since", "document", "bytes", "attempts", "reason", rows=cells)
        place.tell({"status": status, "rows": list(rows)}, shown)


@app.command()
def flush(
    url: Url = None,
    bank: Name = "default",
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = 60.0,
    until: Annotated[str, typer.Option("--until", help="accepted: the server has it; completed: it is worked up.")] = "accepted",
    as_json: AsJson = False,
) -> None:
    """Sends what waits. Exit code 3: something is left."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        report = opened.flush(timeout=timeout, until=cast("Any", until))
    place.tell(report, "All is delivered." if report.done else f"{counted(report.left, 'write')} left: {report.reason}.")
    if not report.done:
        raise typer.Exit(UNAVAILABLE)


@app.command()
def requeue(ids: Ids = None, url: Url = None, bank: Name = "default", project: Project = None, as_json: AsJson = False) -> None:
    """Has dead letters sent again."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        count = opened.outbox.requeue(ids or None)
    place.tell({"requeued": count}, f"{counted(count, 'dead letter')} will be sent again.")


@app.command()
def purge(
    ids: Ids = None,
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Deletes rows that are dead or not yet sent: what they hold is lost. Shows which, and asks."""
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        chosen = ids or [each.id for each in opened.outbox.list(state="dead", limit=10_000)]
        told = f"{counted(len(chosen), 'row')}: {', '.join(chosen[:10])}{' ...' if len(chosen) > 10 else ''}"
        if dry_run or not chosen:
            place.tell({"dry_run": True, "would_delete": chosen}, told if chosen else "No dead letters.")
            return
        agreed(place, f"Delete {told}?", yes=yes)
        count = opened.outbox.purge(chosen)
    place.tell({"deleted": count}, f"{counted(count, 'row')} deleted.")


@app.command()
def reroute(
    ids: Annotated[list[str] | None, typer.Argument(help="The writes' ids; none: all that wait there.")] = None,
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    from_url: Annotated[str | None, typer.Option("--from-url", help="The address that the writes were to go to.")] = None,
    from_bank: Annotated[str | None, typer.Option("--from-bank", help="The bank that the writes were to go to.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Sends writes to --bank at --url that were queued for another bank or address. Shows which, and asks. Exit code 3: some are
    under way and stay; 4: nothing waits there.
    """
    place = Place(url, bank, as_json, project)
    with explained(), place.open() as opened:
        found = opened.outbox.reroute(ids or None, url=from_url, bank=from_bank, dry_run=True)
        if found.ids and (dry_run or not as_json):
            place.tell(found, f"To {opened.scope.bank}: {_named(found.ids)}.")
        if found.ids and not dry_run:
            agreed(place, f"Reroute {counted(len(found), 'write')}?", yes=yes)
            found = opened.outbox.reroute(ids or None, url=from_url, bank=from_bank)
            place.tell(found, f"{counted(len(found), 'write')} rerouted.")
        elif not found.ids:
            place.tell(found, "Nothing waits there.")
    if found.underway and not as_json:
        place.tell(None, f"Under way, and left where they are: {_named(found.underway)}.")
    if found.underway or not found.ids:
        raise typer.Exit(UNAVAILABLE if found.underway else NOTHING)


def _named(ids: Sequence[str]) -> str:
    return f"{counted(len(ids), 'write')} ({', '.join(ids[:SHOWN])}{', ...' if len(ids) > SHOWN else ''})"
