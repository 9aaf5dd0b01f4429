"""The commands and their options."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lorebank import LorebankError, __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Long-term memory for LangChain and LlamaIndex.",
)
errors = Console(stderr=True)

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
def demo(conversation: Conversation = None, database: Database = None) -> None:
    """An agent is told facts; another process answers from memory, through LangChain and through LlamaIndex."""
    _need("langchain", "langchain")
    _need("llama_index", "llamaindex")
    from lorebank.cli.demo import run_demo

    with _explained():
        run_demo(conversation, database)


@app.command(hidden=True)
def answer(database: Path, questions: Path) -> None:
    """The second process of the demo."""
    from lorebank.cli.answering import run_answers

    with _explained():
        run_answers(database, questions)


class _explained:  # noqa: N801 - reads as a clause
    """Errors of ours, and of a missing model package, end the command with one line and exit code 1."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, (LorebankError, ImportError)):
            errors.print(f"[red]error:[/red] {error}", highlight=False)
            sys.exit(1)


def _need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        errors.print(f"this command needs {module}: pip install 'lorebank[{extra}]'", highlight=False, markup=False)
        raise typer.Exit(1)
