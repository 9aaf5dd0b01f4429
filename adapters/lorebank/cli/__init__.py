"""The `lorebank` command. The one part of the core that may import the integrations, lazily."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Runs the command; says what to install where its libraries are missing."""
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.exit("the lorebank command needs Typer and Rich: pip install 'lorebank[cli]'")
    from lorebank.cli.app import app

    app()
