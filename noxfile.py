"""What a contributor runs, and CI with them: `nox` runs lint, types and tests in the environment it is started from."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import nox

LOWEST = (
    "langchain-core==1.4.7",
    "langchain==1.3.0",
    "langgraph==1.2.12",
    "langchain-classic==1.0.0",
    "llama-index-core==0.14.12",
    "httpx==0.28.1",  # langchain-tests takes no 0.28.0
    "sqlalchemy==2.0.30",
)
"""The lowest versions that pyproject.toml allows, and that can be installed together."""
nox.options.default_venv_backend = "none"
TESTING = (
    "blockbuster",
    "hypothesis",
    "pytest>=9.0.3,<10",
    "pytest-asyncio",
    "pytest-examples",
    "pytest-socket",
    "pytest-timeout",
    "pytest-xdist",
)
nox.options.sessions = ["lint", "types", "tests", "floor"]


def python(session: nox.Session, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """Runs a module with the Python that runs nox."""
    session.run(sys.executable, "-m", *arguments, env=env)


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


@nox.session(venv_backend="venv")
def floor(session: nox.Session) -> None:
    """LlamaIndex's tests on the lowest version of it, in an environment of its own; on the embedded engine."""
    session.install("-e", ".[llamaindex]", *TESTING, *(each for each in LOWEST if each.startswith("llama-index")))
    session.run("pytest", "-q", "-n", "auto", "-k", "not real-server", "tests/llamaindex_lorebank", *session.posargs)


@nox.session(default=False)
def notebooks(session: nox.Session) -> None:
    """The notebooks of the cookbook, made anew from its scripts."""
    session.run(sys.executable, "cookbook/notebooks/generate.py")


@nox.session(default=False)
def site(session: nox.Session) -> None:
    """The documentation, into `site/`; the tests build it, too."""
    python(session, "mkdocs", "build", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """The tests with branch coverage."""
    python(session, "coverage", "run", "-m", "pytest", "-q")
    python(session, "coverage", "report")


@nox.session(default=False, venv_backend="venv")
def lowest(session: nox.Session) -> None:
    """The integrations' tests on the lowest versions of their frameworks, in an environment of its own."""
    session.install("-e", ".[dev]", *LOWEST)
    session.run("pytest", "-q", "-n", "auto", "tests/langchain_lorebank", "tests/llamaindex_lorebank", *session.posargs)


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """The integrations' whole matrix on the real server, of which `tests` takes a covering sample."""
    places = ("tests/langchain_lorebank", "tests/llamaindex_lorebank")
    whole = {"LOREBANK_MATRIX": "whole"}
    python(session, "pytest", "-q", "-n", "auto", "-k", "real-server", "--timeout", "600", *places, *session.posargs, env=whole)
