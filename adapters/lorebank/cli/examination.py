"""What `lorebank doctor` looks at in an open bank, and what it advises: steps that can be typed."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lorebank import (
    Bank,
    ForbiddenError,
    GarbledError,
    LorebankError,
    OutboxFullError,
    OutboxStatus,
    UnavailableError,
    UsageError,
)
from lorebank.seams import Health, RowState

OLDEST, NEWEST = (0, 9, 1), (1, 1)
"""The servers that are supported: from the first, up to all releases of the second."""
PATIENCE = 120.0
"""Seconds for a server to work up one write."""
SKEW = 60.0
"""Seconds by which a server's clock may differ."""
NEARLY = 0.9
"""The share of the outbox's room from which it is told before writes are refused."""
FACT = "Marta Oliveira keeps a grey parrot named Biscuit."
QUESTION = "Which bird does Marta Oliveira keep?"
KEY = "Set the key that the server wants: export HINDSIGHT_API_KEY=..., or name its variable with --api-key-env."
VERSIONS = "Install a server from 0.9.1 to 1.1: pip install 'hindsight-api-slim>=0.9.1,<1.2', and start it again."
CLOCKS = "Set both clocks by the network, on each machine: sudo timedatectl set-ntp true"
LOG = "Look at the server's log."
BANKS = 3
"""Banks with dead letters that are named one by one."""
LOST: tuple[RowState, ...] = ("dead", "malformed")


@dataclass(frozen=True, slots=True)
class Check:
    """One step: what was looked at, whether it is well, what was found, and what to do where it is not."""

    name: str
    ok: bool
    found: str
    todo: str = ""


def examine_bank(bank: Bank, where: str = "") -> Iterator[Check]:
    """Checks an open bank. What can't work once something else has failed is not tried. `where` are the options that make a
    command mean the same backend.
    """
    health = bank.health()
    if bank.connections.off:
        yield Check("reachable", False, f"{health.detail}.", "Switch it on: unset LOREBANK_URL")
        return
    server = bank.backend == "hindsight"
    if (yield from _reached(bank, health)) and (yield from _usable(bank, health, where, server=server)):
        yield _round_trip(bank.named(f"lorebank-doctor-{secrets.token_hex(6)}"))
    yield _outbox(bank, where)


def _reached(bank: Bank, health: Health) -> Generator[Check, None, bool]:
    """Whether there is a backend that answers; one that refuses the key does."""
    if health.ok:
        yield Check("reachable", True, sentence(health.detail))
        return True
    try:
        bank.list(limit=1)
    except ForbiddenError as error:
        yield Check("reachable", True, "the server answers.")
        yield Check("key", False, sentence(error), KEY)
    except LorebankError as error:
        yield Check("reachable", False, sentence(health.detail), _advice(bank, error))
    else:
        yield Check("reachable", False, sentence(health.detail), "It works now: run the command again.")
    return False


def _usable(bank: Bank, health: Health, where: str, *, server: bool) -> Generator[Check, None, bool]:
    if not server:
        return (yield from _sound(bank, where)) and (yield from _readable(bank, server=False))
    if not (yield from _supported(health.detail)):
        return False
    yield from _timely(health.skew)
    return (yield from _readable(bank, server=True))


def _sound(bank: Bank, where: str) -> Generator[Check, None, bool]:
    """Whether what is stored is whole."""
    try:
        problems = bank.check().problems
    except LorebankError as error:
        todo = _rescue(bank, where) if isinstance(error, GarbledError) else _advice(bank, error)
        yield Check("integrity", False, sentence(error), todo)
        return False
    todo = _rescue(bank, where) if problems else ""
    yield Check("integrity", not problems, sentence("; ".join(problems) or "what is stored is whole"), todo)
    return not problems


def _rescue(bank: Bank, where: str) -> str:
    """How to save what can be read of a damaged database."""
    own, aside = f"{where} --bank {shlex.quote(bank.name)}", _aside(bank)
    saving = f"Save what can be read, of each bank: lorebank export saved.jsonl{own}"
    if not aside:
        return saving
    return f"{saving}; move the file aside: {aside}; read it in again: lorebank import saved.jsonl{own}; or restore a backup."


def _aside(bank: Bank) -> str:
    """The command that sets a bank's file aside, with what SQLite keeps beside it."""
    place = getattr(getattr(bank.connections.backend, "database", None), "place", None)
    path = getattr(place, "path", None)
    if not isinstance(path, Path):
        return ""
    folder = shlex.quote(str(path.with_name(f"damaged-{datetime.now(UTC):%Y%m%d-%H%M%S}")))
    return f"mkdir {folder} && mv {shlex.quote(str(path))}* {folder}"


def _supported(detail: str) -> Generator[Check, None, bool]:
    """Whether the server's version is one that is supported."""
    told = re.search(r"Hindsight (\d+(?:\.\d+)*)", detail)
    version = tuple(map(int, told[1].split("."))) if told else ()
    well = OLDEST[: len(version)] <= version and version[: len(NEWEST)] <= NEWEST
    found = told[1] if told else "The server does not tell it"
    yield Check("version", well, f"{found}.", "" if well else VERSIONS)
    return well


def _timely(skew: float | None) -> Iterator[Check]:
    """Whether the server's clock goes with this machine's, where it tells the time: times of memories, and phrases such as
    "yesterday", depend on both.
    """
    if skew is not None:
        well, amount = abs(skew) <= SKEW, f"{abs(skew):,.0f} s"
        found = f"the server's clock is {amount} {'ahead' if skew > 0 else 'behind'}."
        yield Check("clock", well, f"within {SKEW:g} s of the server's." if well else found, "" if well else CLOCKS)


def _readable(bank: Bank, *, server: bool) -> Generator[Check, None, bool]:
    """Whether the key is accepted, and the bank can be read."""
    try:
        held = bank.list(limit=1)
    except ForbiddenError as error:
        yield Check("key", False, sentence(error), KEY)
        return False
    except LorebankError as error:
        yield Check("bank", False, sentence(error), _advice(bank, error))
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
        check = Check("round trip", False, sentence(error), _advice(probe, error))
    left = _cleared(probe)
    return check if left is None else Check("round trip", False, f"{check.found} {left}", check.todo)


def _write_and_read(probe: Bank) -> Check:
    probe.retain(FACT)
    report = probe.flush(timeout=PATIENCE, until="completed")
    if lost := probe.outbox.list(state="dead"):
        return Check("round trip", False, sentence(lost[0].reason or "the server refused the write"), LOG)
    if not report.done:
        reason = sentence(f"the write was not worked up within {PATIENCE:g} s: {report.reason}")
        return Check("round trip", False, reason, f"{LOG[:-1]}: does its model answer?")
    if not probe.recall(QUESTION):
        return Check("round trip", False, "what was written is not found.", f"{LOG[:-1]}: does its model answer?")
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


def _outbox(bank: Bank, where: str) -> Check:
    """What waits for the server, what was given up, in all banks, and whether there is room."""
    try:
        status = bank.outbox.status(everything=True)
        losers = _losers(bank) if status.lost else []
    except LorebankError as error:
        return Check("outbox", False, sentence(error), _advice(bank, error))
    oldest = f", the oldest since {status.oldest:%Y-%m-%d %H:%M} UTC" if status.oldest else ""
    room = f", {int(100 * status.used)} % full" if status.used >= NEARLY else ""
    found = f"{status.waiting} waiting{oldest}, {status.lost} dead{room}."
    return Check("outbox", not status.lost and not room, found, " ".join(_relief(status, losers, where)))


def _losers(bank: Bank) -> list[tuple[str, RowState]]:
    """The banks whose writes wait for a person, and in which state."""
    port = bank.connections.backend.outbox
    return sorted({(entry.bank, state) for state in LOST for entry in port.list(None, state=state, limit=1000, offset=0)})


def _relief(status: OutboxStatus, losers: Sequence[tuple[str, RowState]], where: str) -> Iterator[str]:
    """What to do about an outbox that is full, or holds dead letters."""
    if status.used >= NEARLY:
        yield "Writes are refused once it is full."
        yield f"Let it drain: lorebank outbox flush --until completed{where};"
        yield "or give it more room (`max_rows`, `max_bytes`) in the application."
    for name, state in losers[:BANKS]:
        base, _, project = name.partition("::")
        own = f"{where} --bank {shlex.quote(base)}" + (f" --project {shlex.quote(project)}" if project else "")
        yield f"See why: lorebank outbox list --state {state}{own};"
        again = f"send again: lorebank outbox requeue{own}; or " if state == "dead" else ""
        yield f"{again}delete: lorebank outbox purge{own}{'' if state == 'dead' else ' ID'}."
    if len(losers) > BANKS:
        yield f"And so in {len(losers) - BANKS} more."


def _advice(bank: Bank, error: LorebankError) -> str:
    """What to do about a failure."""
    if isinstance(error, ForbiddenError):
        return KEY
    if bank.backend == "hindsight":
        return _server_advice(bank, error)
    if isinstance(error, GarbledError):
        aside = _aside(bank)
        return f"To move it aside: {aside}" if aside else ""
    return "Try again: another process may hold it." if isinstance(error, UnavailableError) else ""


def _server_advice(bank: Bank, error: LorebankError) -> str:
    route = getattr(bank.connections.backend, "route", None)
    address = getattr(route, "url", None)
    asked = f" Try: curl -i {address}/health" if address else ""
    if isinstance(error, OutboxFullError):
        return "Make room in the outbox, as is said below."
    if isinstance(error, GarbledError):
        return f"Is there a Hindsight server at this address, or something else?{asked}"
    if isinstance(error, UnavailableError):
        return f"Is the address right? Start the server, or wait until it is up.{asked}"
    return "" if isinstance(error, UsageError) else LOG


def sentence(said: object) -> str:
    """What was said, with an end."""
    text = str(said).strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
