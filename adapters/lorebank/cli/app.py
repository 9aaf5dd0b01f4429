"""The commands and their options."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from lorebank import __version__
from lorebank.cli import audit, cleanup, inspect, mental_models, outbox, sessions, verbs
from lorebank.cli.place import AsJson, Place, errors, explained
from lorebank.cli.place import Name as Bank
from lorebank.cli.place import Url as Backend

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Long-term memory for LangChain and LlamaIndex.",
)
for verb in (verbs.retain, verbs.recall, verbs.reflect, verbs.stats, verbs.forget, verbs.clear):
    app.command()(verb)
app.command()(audit.audit)
app.command()(cleanup.cleanup)
app.add_typer(mental_models.app, name="models")
app.add_typer(sessions.app, name="session")
app.command("last-recall")(sessions.last_recall)
app.add_typer(outbox.app, name="outbox")
app.command()(inspect.inspect)

Database = Annotated[
    Path | None, typer.Option("--database", help="Keep the memories in this file; default: a file that vanishes afterwards.")
]
Conversation = Annotated[
    Path | None,
    typer.Option(
        "--conversation",
        exists=True,
        dir_okay=False,
        help="Remember this conversation (JSON or JSON Lines) instead of the built-in facts.",
    ),
]


Server = Annotated[
    str | None, typer.Option("--url", help="Use this backend, such as http://localhost:8888; default: a file that vanishes.")
]
Name = Annotated[str | None, typer.Option("--bank", help="The bank's name; default: demo, on a server with a random suffix.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Long-term memory for LangChain and LlamaIndex."""
    del version


@app.command()
def demo(conversation: Conversation = None, database: Database = None, url: Server = None, bank: Name = None) -> None:
    """An agent is told facts; another process answers from memory, through LangChain and through LlamaIndex."""
    _need("langchain", "langchain")
    _need("llama_index", "llamaindex")
    if url is not None and database is not None:
        raise typer.BadParameter("name a --database or a --url, not both")
    from lorebank.cli.demo import home_of, run_demo

    with explained(), home_of(url, database, bank) as home:
        run_demo(conversation, home)


@app.command(hidden=True)
def answer(url: str, bank: str, questions: Path) -> None:
    """The second process of the demo."""
    from lorebank.cli.answering import run_answers
    from lorebank.cli.demo import Home

    with explained():
        run_answers(Home(url, bank), questions)


@app.command()
def doctor(
    url: Annotated[
        str | None, typer.Option("--url", help="Check this backend; default: LOREBANK_URL, HINDSIGHT_API_URL, the default file.")
    ] = None,
    bank: Annotated[str, typer.Option("--bank", help="The bank that must be readable.")] = "default",
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", help="The environment variable with the key; default: HINDSIGHT_API_KEY.")
    ] = None,
    extra: Annotated[
        list[str] | None, typer.Option("--extra", help="An extra that must be installed, such as langchain; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Checks a backend step by step, and names each fault with the next step: what is installed, address, server, version, key,
    clock or file, bank, a write that is read back, the outbox. Exit code 1: not well.
    """
    from lorebank.cli.doctor import run_doctor

    with explained():
        well = run_doctor(url, bank, api_key_env, extra or (), as_json=as_json)
    raise typer.Exit(0 if well else 1)


@app.command("export")
def export_(
    path: Annotated[Path, typer.Argument(help="The file to write.")],
    url: Backend = None,
    bank: Bank = "default",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Writes a bank into a file: every memory with all that is known of it, and the mental models."""
    from lorebank.cli.transfer import run_export

    with explained():
        run_export(path, Place(url, bank, as_json), overwrite=overwrite)


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="The file to read: an export, or what LangChain, LlamaIndex or mem0 keep.")],
    url: Backend = None,
    bank: Bank = "default",
    file_format: Annotated[
        str, typer.Option("--format", help="auto (finds it out), lorebank, langchain, llamaindex or mem0.")
    ] = "auto",
    only: Annotated[str | None, typer.Option("--only", help="Whose part: a user of mem0, a chat of a chat store.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported; write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Writes what a file holds into a bank, each memory once."""
    from lorebank.cli.transfer import What, run_import

    with explained():
        run_import(path, Place(url, bank, as_json), What(file_format, only, dry_run))


def _need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        errors.print(f"this command needs {module}: pip install 'lorebank[{extra}]'", highlight=False, markup=False)
        raise typer.Exit(1)
