"""`lorebank doctor`: checks a backend step by step, says what works and what to do about the rest."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape

from lorebank import Bank, ForbiddenError, GarbledError, LorebankError, UnavailableError, UsageError, open_bank

OLDEST, NEWEST = (0, 9, 1), (1, 1)
"""The servers that are supported: from the first, up to all releases of the second."""
PATIENCE = 120.0
"""Seconds for a server to work up one write."""
FACT = "Marta Oliveira keeps a grey parrot named Biscuit."
QUESTION = "Which bird does Marta Oliveira keep?"

console = Console()


@dataclass(frozen=True, slots=True)
class Check:
    """One step: what was looked at, whether it is well, what was found, and what to do where it is not."""

    name: str
    ok: bool
    found: str
    todo: str = ""


def run_doctor(url: str | None, bank: str, key_variable: str | None, *, as_json: bool) -> bool:
    """Checks and prints; whether all is well."""
    checks: list[Check] = []
    for check in examine(url, bank, key_variable):
        checks.append(check)
        if not as_json:
            _print(check)
    well = all(check.ok for check in checks)
    if as_json:
        print(json.dumps({"ok": well, "checks": [asdict(check) for check in checks]}, indent=2))  # noqa: T201 - for scripts
    return well


def _print(check: Check) -> None:
    word = "[green]ok    [/green]" if check.ok else "[red]failed[/red]"
    todo = f" [bold]{escape(check.todo)}[/bold]" if check.todo else ""
    console.print(f"{word} {check.name:<10} {escape(check.found)}{todo}", highlight=False, soft_wrap=True)


def examine(url: str | None, name: str, key_variable: str | None) -> Iterator[Check]:
    """Opens the bank and checks it."""
    try:
        key = None if key_variable is None else os.environ[key_variable]
        opened = open_bank(url, bank=name, api_key=key)
    except KeyError:
        yield Check("address", False, f"the environment has no {key_variable}.", "Set it, or leave out --api-key-env.")
        return
    except LorebankError as error:
        yield Check("address", False, _sentence(error))
        return
    with opened as bank:
        yield Check("address", True, f"{bank.backend}, from {_source(url)}")
        yield from examine_bank(bank)


def _source(url: str | None) -> str:
    if url is not None:
        return "--url"
    return next((name for name in ("LOREBANK_URL", "HINDSIGHT_API_URL") if os.environ.get(name)), "the default file")


def examine_bank(bank: Bank) -> Iterator[Check]:
    """Checks an open bank. What can't work once something else has failed is not tried."""
    health = bank.health()
    if bank.connections.off:
        yield Check("reachable", False, f"{health.detail}.", "Unset LOREBANK_URL to switch it on.")
        return
    todo = "" if health.ok else "Is the address right, and does it answer?"
    yield Check("reachable", health.ok, _sentence(health.detail), todo)
    server = bank.backend == "hindsight"
    if health.ok and (not server or (yield from _supported(health.detail))) and (yield from _readable(bank, server=server)):
        yield _round_trip(bank.named(f"lorebank-doctor-{secrets.token_hex(6)}"))
    yield _outbox(bank)


def _supported(detail: str) -> Generator[Check, None, bool]:
    """Whether the server's version is one that is supported."""
    told = re.search(r"Hindsight (\d+(?:\.\d+)*)", detail)
    version = tuple(map(int, told[1].split("."))) if told else ()
    well = OLDEST[: len(version)] <= version and version[: len(NEWEST)] <= NEWEST
    found = told[1] if told else "The server does not tell it"
    yield Check("version", well, f"{found}.", "" if well else "Use a Hindsight server from 0.9.1 to 1.1.")
    return well


def _readable(bank: Bank, *, server: bool) -> Generator[Check, None, bool]:
    """Whether the key is accepted, and the bank can be read."""
    try:
        held = bank.list(limit=1)
    except ForbiddenError as error:
        yield Check("key", False, _sentence(error), "Set HINDSIGHT_API_KEY, or name its variable with --api-key-env.")
        return False
    except LorebankError as error:
        yield Check("bank", False, _sentence(error), _advice(error))
        return False
    if server:
        yield Check("key", True, "accepted.")
    yield Check("bank", True, f"{bank.scope.bank!r} can be read; it holds {'memories' if held else 'none yet'}.")
    return True


def _round_trip(probe: Bank) -> Check:
    """Writes into a bank of its own, reads it back, and deletes the bank."""
    try:
        check = _write_and_read(probe)
    except LorebankError as error:
        check = Check("round trip", False, _sentence(error), _advice(error))
    left = _cleared(probe)
    return check if left is None else Check("round trip", False, f"{check.found} {left}", check.todo)


def _write_and_read(probe: Bank) -> Check:
    probe.retain(FACT)
    report = probe.flush(timeout=PATIENCE, until="completed")
    if lost := probe.outbox.list(state="dead"):
        reason = _sentence(lost[0].reason or "the server refused the write")
        return Check("round trip", False, reason, "Look at the server's log.")
    if not report.done:
        reason = _sentence(f"the write was not worked up within {PATIENCE:g} s: {report.reason}")
        return Check("round trip", False, reason, "Look at the server's log: does its model answer?")
    if not probe.recall(QUESTION):
        return Check("round trip", False, "what was written is not found.", "Look at the server's log: does its model answer?")
    return Check("round trip", True, "written and found again; the bank that was used for it is deleted.")


def _cleared(probe: Bank) -> str | None:
    """Deletes the probe's bank; says what is left where that fails."""
    try:
        probe.clear(confirm=probe.scope.bank)
    except LorebankError:
        with suppress(LorebankError):
            if waiting := [entry.id for entry in probe.outbox.list()]:
                probe.outbox.purge(waiting)
        return f"The bank {probe.scope.bank!r} could not be deleted: delete it by hand."
    return None


def _outbox(bank: Bank) -> Check:
    """What waits for the server, and what was given up, in all banks."""
    try:
        status = bank.outbox.status(everything=True)
    except LorebankError as error:
        return Check("outbox", False, _sentence(error), _advice(error))
    oldest = f", the oldest since {status.oldest:%Y-%m-%d %H:%M} UTC" if status.oldest else ""
    found = f"{status.waiting} waiting{oldest}, {status.lost} dead."
    todo = "Look at bank.outbox.list(state='dead'), then requeue() or purge() them." if status.lost else ""
    return Check("outbox", not status.lost, found, todo)


def _advice(error: LorebankError) -> str:
    """What to do about a failure."""
    if isinstance(error, GarbledError):
        return "Is there a Hindsight server at this address, or something else?"
    if isinstance(error, ForbiddenError):
        return "Set HINDSIGHT_API_KEY, or name its variable with --api-key-env."
    if isinstance(error, UnavailableError):
        return "Try again; if it stays so, look at the server's log."
    return "" if isinstance(error, UsageError) else "Look at the server's log."


def _sentence(said: object) -> str:
    text = str(said).strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
