"""What a contributor runs, and CI with them: `nox` runs lint, types and tests in the environment it is started from."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

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
nox.options.sessions = ["lint", "types", "tests", "browser", "floor"]


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
    """The whole test suite but the browser's: two workers a core, since half of the time a test waits for a server or a disk."""
    workers = str(2 * (os.cpu_count() or 1))
    python(session, "pytest", "-q", "-n", workers, "--ignore", "tests/browser", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """The inspector in a real Chromium, with axe-core's rules; `LOREBANK_PICTURES` names a folder for screenshots.

    `LOREBANK_CHROMIUM`, `LOREBANK_CHROMEDRIVER` and `LOREBANK_AXE` name what is to be used. What is not named, and not on the
    path, comes from Debian's packages (as root) and from npm.
    """
    chosen = {"LOREBANK_CHROMIUM": "chromium", "LOREBANK_CHROMEDRIVER": "chromedriver"}
    found = {name: os.environ.get(name) or shutil.which(command) for name, command in chosen.items()}
    axe = os.environ.get("LOREBANK_AXE")
    lacking = [] if all(found.values()) else ["chromium", "chromium-driver"]
    lacking += [] if axe or shutil.which("npm") else ["npm"]
    if lacking:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            session.skip(f"needs {', '.join(lacking)}: install them, or name Chromium, its driver and axe-core (LOREBANK_...)")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        session.run("apt-get", "update", "-qq", external=True, silent=True)
        session.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *lacking, external=True, silent=True, env=quiet)
    if axe is None:
        folder = session.create_tmp()
        packing = ("npm", "pack", "axe-core@4", "--silent", "--pack-destination", folder)
        name = str(session.run(*packing, external=True, silent=True)).split()[-1]
        with tarfile.open(Path(folder, name)) as package:
            package.extract("package/axe.min.js", folder, filter="data")
        axe = str(Path(folder, "package", "axe.min.js").absolute())
    env = {"LOREBANK_AXE": axe, **{name: found[name] or f"/usr/bin/{command}" for name, command in chosen.items()}}
    python(session, "pytest", "-q", "-n", "2", "tests/browser", *session.posargs, env=env)


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
