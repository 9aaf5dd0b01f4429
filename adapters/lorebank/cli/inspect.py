"""`lorebank inspect`: pages on this machine where people see and steer a bank's memory."""

from __future__ import annotations

import sys
import webbrowser
from importlib.util import find_spec
from typing import Annotated

import typer

from lorebank.cli.place import AsJson, Name, Place, Project, Url, errors, explained

NEEDED = ("starlette", "uvicorn", "jinja2")


def inspect(
    url: Url = None,
    bank: Name = "default",
    project: Project = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--open/--no-browser", help="Open the page in your browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serves the inspector on this machine: search, timeline, entities, mental models, turns, outbox. Ctrl-C ends it."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        errors.print(f"this command needs {missing[0]}: pip install 'lorebank[inspect]'", highlight=False, markup=False)
        raise typer.Exit(1)
    from lorebank.inspector.serving import serve

    place = Place(url, bank, as_json, project)

    def ready(address: str) -> None:
        place.tell({"url": address}, f"{address}\nWho has this address can read and change the bank {bank!r}. Ctrl-C ends it.")
        sys.stdout.flush()
        if browser:
            webbrowser.open(address)

    with explained(), place.open() as opened:
        serve(opened, port, ready)
