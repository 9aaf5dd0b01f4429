"""`lorebank session ...` and `lorebank last-recall`: what a conversation may do with memory, and what it was told."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from lorebank import Session, UsageError
from lorebank.cli.place import NOTHING, AsJson, Name, Place, Url, explained, table, text_of

app = typer.Typer(no_args_is_help=True, help="A conversation's mode, tags, and the run that is not retained.")
Id = Annotated[str, typer.Argument(help="The session's id: the thread, the conversation.")]


@app.command()
def show(id: Id, url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """Shows a session's mode and tags."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        _tell(place, opened.session(id))


@app.command()
def mode(
    id: Id,
    value: Annotated[str, typer.Argument(help="normal, read-only, ignored or tools-only.")],
    url: Url = None,
    bank: Name = "default",
    as_json: AsJson = False,
) -> None:
    """Sets what memory does in a session; a running process takes it up with its next turn."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        session = opened.session(id)
        session.mode = cast("Any", value)
        session.save()
        _tell(place, session)


@app.command()
def tag(
    id: Id,
    add: Annotated[list[str] | None, typer.Option("--add", help="A tag that its memories get from now on.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="A tag that they no longer get.")] = None,
    url: Url = None,
    bank: Name = "default",
    as_json: AsJson = False,
) -> None:
    """Adds and removes a session's tags."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        if not add and not remove:
            raise UsageError("name a tag to --add or to --remove")
        session = opened.session(id)
        for each in add or ():
            session.tags.add(each)
        for each in remove or ():
            session.tags.discard(each)
        session.save()
        _tell(place, session)


@app.command("skip-next")
def skip_next(id: Id, url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """The next run of a session is not retained."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        session = opened.session(id)
        session.skip_next()
        session.save()
        place.tell({"session": id, "skip_next": True}, f"The next run of {id} is not retained.")


def last_recall(id: Id, url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """Shows what the last turn of a session was told from memory, and why. Exit code 4: no trace was kept."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        trace = opened.session(id).last_recall()
        if trace is None:
            place.tell(None, "No trace: the session has recalled nothing, or traces are not kept (`keep_traces`).")
            raise typer.Exit(NOTHING)
        rows = [(each.id, f"{each.score or 0:.3f}", text_of(opened, each.id), _why(each.signals)) for each in trace.shown]
        if not as_json:
            place.tell(trace, f"{trace.at:%Y-%m-%d %H:%M}, {trace.state}, {1000 * trace.elapsed:.0f} ms: {trace.query}")
        place.tell(trace, table("id", "score", "memory", "why", rows=rows))


def _tell(place: Place, session: Session) -> None:
    told: dict[str, Any] = {
        "session": session.id,
        "mode": session.mode,
        "retain": session.retain_enabled,
        "tags": sorted(session.tags),
    }
    rows = [(name, ", ".join(value) if isinstance(value, list) else value) for name, value in told.items()]
    place.tell(told, table("", "", rows=rows))


def _why(signals: Any) -> str:
    return ", ".join(f"{name} {value:+.3f}" for name, value in signals.items())
