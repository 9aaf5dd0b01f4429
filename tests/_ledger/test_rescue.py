"""A ledger that can't be used is moved aside with all it holds, and what can be read of it is carried over."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from lorebank._ledger import inspection
from lorebank._ledger.claims import Terms, claim_sending
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.values import Bounds, Claim, Draft, Route

ROUTE = Route("http://server", "key")
BOUNDS = Bounds(rows=1000, bytes=10_000_000, age=1000.0)
NOW = 1_700_000_000.0
COUNT = 200
Moved = list[tuple[Path, str, int]]
Opening = Callable[[], Ledger]


def fill(ledger: Ledger) -> None:
    drafts = [Draft("alice", f"d{n}", json.dumps({"content": f"{n} " + "x" * 500}), str(n)) for n in range(COUNT)]
    ledger.enqueue(ROUTE, drafts, BOUNDS, NOW)


def claim(ledger: Ledger) -> Claim | None:
    terms = Terms("one", 16, 5.0, 60.0, 300.0, lambda items, operation: operation.encode(), print)
    return ledger.write(lambda c: claim_sending(c, ROUTE, terms, NOW, urgent=True))


def settled(opening: Opening, place: Path) -> None:
    """A ledger of 200 rows in one file, with nothing in its log."""
    ledger = opening()
    fill(ledger)
    ledger.close()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def waiting(ledger: Ledger) -> int:
    return ledger.read(lambda c: inspection.status(c, ROUTE, None)).waiting


def overwrite(place: Path, start: int, size: int) -> None:
    with place.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * size)


def test_damage_in_the_middle_costs_only_what_it_hit(opening: Opening, place: Path, moved: Moved) -> None:
    """Rows on both sides of the damage are carried over; the file stays beside; the hook hears of it."""
    settled(opening, place)
    overwrite(place, place.stat().st_size // 2 // 4096 * 4096, 8192)
    ledger = opening()
    entries = ledger.read(lambda c: [row.digest for row in c.execute(sql("SELECT digest FROM outbox ORDER BY seq, body"))])
    [(aside, reason, saved)] = moved
    assert (aside.exists(), "damaged" in reason, saved) == (True, True, len(entries))
    assert COUNT // 2 < saved < COUNT
    assert ("0" in entries, str(COUNT - 1) in entries) == (True, True)
    ledger.enqueue(ROUTE, [Draft("alice", "new", "{}", "new")], BOUNDS, NOW)
    assert waiting(ledger) == saved + 1


def test_a_sealed_batch_is_carried_over_as_it_is(opening: Opening, place: Path, moved: Moved) -> None:
    """Its id and rows stay, so that what the server may have is not sent under another name."""
    ledger = opening()
    fill(ledger)
    before = claim(ledger)
    ledger.close()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'outbox_place'").fetchone()
    overwrite(place, (page - 1) * 4096, 4096)
    again = opening()
    left = waiting(again)
    after = claim(again)
    assert before is not None
    assert after is not None
    assert (after.id, after.rows, after.body) == (before.id, before.rows, before.body)
    assert (moved[0][2], left) == (COUNT, COUNT)


def test_a_file_that_is_cut_short_is_moved_aside(opening: Opening, place: Path, moved: Moved) -> None:
    """What lies before the cut is carried over where it can be read; writes go on."""
    settled(opening, place)
    with place.open("r+b") as file:
        file.truncate(place.stat().st_size // 2 // 4096 * 4096)
    ledger = opening()
    ledger.enqueue(ROUTE, [Draft("alice", "new", "{}", "new")], BOUNDS, NOW)
    assert len(moved) == 1
    assert waiting(ledger) == moved[0][2] + 1


def test_a_file_that_is_no_database_is_moved_aside(opening: Opening, place: Path, moved: Moved) -> None:
    """Its bytes stay beside the new ledger."""
    place.parent.mkdir()
    place.write_bytes(b"this is a letter, not a ledger" * 300)
    ledger = opening()
    fill(ledger)
    [(aside, reason, saved)] = moved
    assert (aside.read_bytes()[:16], "no SQLite database" in reason, saved) == (b"this is a letter", True, 0)
    assert waiting(ledger) == COUNT


def test_a_ledger_of_a_newer_release_is_moved_aside(opening: Opening, place: Path, moved: Moved) -> None:
    """Nothing of it is touched; a new one is begun."""
    settled(opening, place)
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("UPDATE lorebank_schema SET version = 99 WHERE component = 'ledger'")
    ledger = opening()
    assert waiting(ledger) == 0
    [(aside, reason, saved)] = moved
    assert ("newer" in aside.name, "newer lorebank" in reason, saved) == (True, True, 0)
    with closing(sqlite3.connect(aside)) as connection:
        assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (COUNT,)


@pytest.mark.parametrize("column", ["state", "body"])
def test_a_row_of_garbage_waits_for_a_person(opening: Opening, place: Path, moved: Moved, column: str) -> None:
    """A row whose fields can't be understood is kept as `malformed`, and the others go on."""
    ledger = opening()
    fill(ledger)
    ledger.write(lambda c: c.execute(sql(f"UPDATE outbox SET {column} = 'garbage' WHERE seq = 3")))  # noqa: S608
    ledger.close()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'outbox_place'").fetchone()
    overwrite(place, (page - 1) * 4096, 4096)
    again = opening()
    claim(again)
    rows = again.read(lambda c: inspection.status(c, ROUTE, None)).rows
    assert (rows["malformed"], sum(rows.values()), len(moved)) == (1, COUNT, 1)


def test_who_has_the_old_file_open_goes_on_in_the_new_one(opening: Opening, moved: Moved) -> None:
    """Once somebody has moved a ledger aside, nobody writes into it any more."""
    mine, other = opening(), opening()
    fill(other)
    mine._replace("newer", ValueError("as if"))
    assert moved == []  # it is usable: nothing is moved without need
    with mine.database.write() as connection:
        connection.exec_driver_sql("UPDATE lorebank_schema SET version = 99")
    mine.close()
    fill(mine)
    other.enqueue(ROUTE, [Draft("alice", "late", "{}", "late")], BOUNDS, NOW)
    assert len(moved) == 1
    assert mine.read(lambda c: inspection.status(c, ROUTE, "alice").waiting) == COUNT + 1
