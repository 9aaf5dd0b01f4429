"""What a contributor runs, and CI with them: `nox` runs lint, types and tests in the environment it is started from."""

from __future__ import annotations

import sys

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]


def python(session: nox.Session, *arguments: str) -> None:
    """Runs a module with the Python that runs nox."""
    session.run(sys.executable, "-m", *arguments)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff and the arrows between the layers."""
    python(session, "ruff", "check", ".")
    python(session, "ruff", "format", "--check", ".")
    session.run(sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")


@nox.session
def types(session: nox.Session) -> None:
    """mypy strict on all, pyright strict on the core."""
    python(session, "mypy")
    python(session, "basedpyright", "--pythonpath", sys.executable)


@nox.session
def tests(session: nox.Session) -> None:
    """The whole test suite, on all cores."""
    python(session, "pytest", "-q", "-n", "auto", *session.posargs)


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """The tests with branch coverage."""
    python(session, "coverage", "run", "-m", "pytest", "-q")
    python(session, "coverage", "report")
