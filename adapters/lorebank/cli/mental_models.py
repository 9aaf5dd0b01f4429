"""`lorebank models ...`: a bank's mental models."""

from __future__ import annotations

from typing import Annotated

import typer

from lorebank import MentalModel
from lorebank.cli.place import NOTHING, AsJson, Name, Place, Url, counted, explained, table

app = typer.Typer(no_args_is_help=True, help="Mental models: standing questions with their answers.")
Id = Annotated[str, typer.Argument(help="The mental model's id.")]


@app.command("list")
def list_(url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """Shows the bank's mental models."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        found = opened.mental_models.list()
    rows = [(each.id, each.name, _day(each), f"{len(each.content):,}") for each in found]
    place.tell(list(found), table("id", "name", "refreshed", "characters", rows=rows) if found else "No mental models.")


@app.command()
def show(id: Id, url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """Shows one with its question and its answer. Exit code 4: there is none."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        model = opened.mental_models.get(id)
    place.tell(model, f"{model.name} ({model.id}, {_day(model)})\n{model.source_query}\n\n{model.content or '(no answer yet)'}")


@app.command()
def refresh(id: Id, url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """Has one answered anew from the memories of now."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        model = opened.mental_models.refresh(id)
    place.tell(model, model.content or "(no answer yet)")


@app.command()
def history(id: Id, url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """Shows what one said before, the newest first, with what changed."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        found = opened.mental_models.history(id)
    told = "\n\n".join(f"until {each.replaced_at:%Y-%m-%d %H:%M}\n{each.diff or each.content}" for each in found)
    place.tell(list(found), told or "It has said nothing else before.")
    if not found:
        raise typer.Exit(NOTHING)


@app.command()
def seed(url: Url = None, bank: Name = "default", as_json: AsJson = False) -> None:
    """Creates the mental models that every bank starts with; what exists stays as it is."""
    place = Place(url, bank, as_json)
    with explained(), place.open() as opened:
        before = {each.id for each in opened.mental_models.list()}
        found = [each for each in opened.mental_models.ensure() if each.id not in before]
    place.tell(found, f"{counted(len(found), 'mental model')} created{'' if found else ': all are there'}.")


def _day(model: MentalModel) -> str:
    return f"{model.refreshed_at:%Y-%m-%d %H:%M}" if model.refreshed_at else "never"
