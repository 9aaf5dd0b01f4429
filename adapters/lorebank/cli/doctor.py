"""`lorebank doctor`: what is installed, which backend is meant, and what its examination finds; each fault with the next step."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec

from rich.console import Console

from lorebank import LorebankError, UsageError, open_bank
from lorebank.cli.examination import Check, examine_bank, sentence
from lorebank.cli.place import harmless

EXTRAS = {
    "langchain": ("langchain_core", "langchain", "langgraph"),
    "langchain-classic": ("langchain_classic",),
    "llamaindex": ("llama_index.core",),
    "postgres": ("psycopg",),
    "embeddings": ("wordllama",),
    "dense": ("onnxruntime", "tokenizers"),
    "inspect": ("starlette", "uvicorn"),
    "otel": ("opentelemetry",),
}
"""What each extra brings."""

console = Console()


def run_doctor(url: str | None, bank: str, key_variable: str | None, extras: Sequence[str] = (), *, as_json: bool) -> bool:
    """Checks and prints; whether all is well."""
    checks: list[Check] = []
    for check in examine(url, bank, key_variable, extras):
        checks.append(check)
        if not as_json:
            _print(check)
    well = all(check.ok for check in checks)
    if as_json:
        print(json.dumps({"ok": well, "checks": [asdict(check) for check in checks]}, indent=2))  # noqa: T201 - for scripts
    return well


def _print(check: Check) -> None:
    word = "[green]ok    [/green]" if check.ok else "[red]failed[/red]"
    todo = f" [bold]{harmless(check.todo)}[/bold]" if check.todo else ""
    console.print(f"{word} {check.name:<10} {harmless(check.found)}{todo}", highlight=False, soft_wrap=True)


def examine(url: str | None, name: str, key_variable: str | None, extras: Sequence[str] = ()) -> Iterator[Check]:
    """Looks at what is installed, opens the bank and checks it. `extras` are those that must be there."""
    checked = _extras(url, extras)
    yield checked
    if not checked.ok:
        return
    try:
        key = None if key_variable is None else os.environ[key_variable]
        opened = open_bank(url, bank=name, api_key=key)
    except KeyError:
        todo = f"Set it: export {key_variable}=..., or leave out --api-key-env."
        yield Check("address", False, f"the environment has no {key_variable}.", todo)
        return
    except LorebankError as error:
        yield Check("address", False, sentence(error))
        return
    with opened as bank:
        yield Check("address", True, f"{bank.backend}, from {_source(url)}")
        yield from examine_bank(bank, _option(url))


def _option(url: str | None) -> str:
    """The option that means the same backend; a password is for whoever types it."""
    if url is None:
        return ""
    return " --url ..." if "@" in url else f" --url {shlex.quote(url)}"


def _extras(url: str | None, wanted: Sequence[str]) -> Check:
    """What is installed, and whether all is that must be: what was asked for, and what the address needs."""
    if unknown := [name for name in wanted if name not in EXTRAS]:
        raise UsageError(f"no extra is named {unknown[0]!r}: there are {', '.join(EXTRAS)}")
    address = url or os.environ.get("LOREBANK_URL") or ""
    needed = [*wanted, *(["postgres"] if address.startswith("postgresql") else [])]
    absent = {name: lacking for name in needed if (lacking := [each for each in EXTRAS[name] if not _installed(each)])}
    if absent:
        found = "; ".join(f"{name} lacks {', '.join(lacking)}" for name, lacking in absent.items())
        return Check("extras", False, f"{found}.", f"Install it: pip install 'lorebank[{','.join(absent)}]'")
    there = [name for name, modules in EXTRAS.items() if all(map(_installed, modules))]
    return Check("extras", True, f"{', '.join(there) or 'none'}.")


def _installed(module: str) -> bool:
    """Whether a module can be imported, found out without importing it (but the packages that it is in)."""
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _source(url: str | None) -> str:
    if url is not None:
        return "--url"
    return next((name for name in ("LOREBANK_URL", "HINDSIGHT_API_URL") if os.environ.get(name)), "the default file")
