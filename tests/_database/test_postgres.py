"""A PostgreSQL database: how it is reached, shared, lost and found again; what it never tells."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from postgres_fixtures import Schema
from sqlalchemy import Table, make_url, text

from lorebank import Bank, ForbiddenError, LorebankError, UnavailableError, UnsupportedError, UsageError, open_bank
from lorebank._database.driver import Source, Spoken, rows_of, run
from lorebank._database.engine import Database, DatabaseSettings
from lorebank._database.postgres import MORE, POOL
from lorebank._mnemopi.schema import metadata

SECRET = "hunter2"  # noqa: S105 - of a server on loopback that ends with the tests
WITHOUT_EXTRA = """
import sys
sys.modules["psycopg"] = None
from lorebank import UsageError, open_bank
try:
    open_bank("postgresql://u:hunter2@127.0.0.1/x")
except UsageError as error:
    print(error)
"""
OPENERS = """
import sys
from lorebank import open_bank
sys.stdin.readline()
with open_bank(sys.argv[1], bank="shared") as bank:
    bank.retain(f"fact of process {sys.argv[2]}")
    bank.retain("a fact of all")
"""


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    """A database with one table."""

    def prepare(opened: Database) -> None:
        with opened.write() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS things (name TEXT)"))

    opened = Database(DatabaseSettings(postgres_url, busy_timeout=0.5), prepare)
    yield opened
    opened.close()


@pytest.fixture
def bank(postgres_url: str) -> Iterator[Bank]:
    with open_bank(postgres_url, bank="alice") as opened:
        yield opened


def names(database: Database) -> list[str]:
    with database.read() as connection:
        return [row[0] for row in connection.execute(text("SELECT name FROM things ORDER BY name"))]


def add(database: Database, name: str, bank: str | None = None) -> None:
    with database.write(bank) as connection:
        connection.execute(text("INSERT INTO things VALUES (:name)"), {"name": name})


OURS = "FROM pg_stat_activity WHERE application_name = 'lorebank' AND datname = current_database()"


def terminate(schema: Schema) -> int:
    """Ends every connection of lorebank's to the database, as a restart of the server would."""
    return len(schema.sql(f"SELECT pg_terminate_backend(pid, 5000) {OURS}"))


def test_both_spellings_of_the_url_open_a_bank(postgres_url: str) -> None:
    """`postgresql://` and `postgresql+psycopg://` are the same."""
    with open_bank(postgres_url) as one, open_bank(postgres_url.replace("://", "+psycopg://", 1)) as other:
        one.retain("Ana plays the cello.")
        assert [memory.text for memory in other.list()] == ["Ana plays the cello."]


def test_health_names_server_and_version_and_no_password(bank: Bank) -> None:
    """Who asks how the database is learns where it is and which one."""
    health = bank.health()
    assert (health.ok, "PostgreSQL 1" in health.detail, "postgresql://lore@127.0.0.1:" in health.detail) == (True, True, True)
    assert SECRET not in str(health)


def test_a_missing_extra_is_named() -> None:
    """Without psycopg the error says what to install."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "PostgreSQL needs the extra `postgres`: pip install 'lorebank[postgres]'"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"password": "hunter2hunter2"}, ForbiddenError, "refuses this user or password"),
        ({"username": "nobody"}, ForbiddenError, "refuses this user or password"),
        ({"database": "missing"}, UsageError, "is not there"),
        ({"port": 1}, UnavailableError, "can't be reached"),
        ({"host": "no-such-host.invalid"}, UnavailableError, "can't be reached"),
    ],
)
def test_what_is_wrong_with_a_url_is_told_without_the_password(
    postgres_url: str, caplog: pytest.LogCaptureFixture, change: dict[str, Any], error: type[LorebankError], words: str
) -> None:
    """Wrong password, user, database, port and host: an error of its own, in time; the password is nowhere."""
    caplog.set_level(logging.DEBUG)
    wrong = make_url(postgres_url).set(**change).render_as_string(hide_password=False)
    with open_bank(wrong) as bank:
        with pytest.raises(error, match=words) as caught:
            bank.retain("Ana plays the cello.")
        health = bank.health()
        told = [str(caught.value), str(caught.value.detail), str(health), repr(bank), repr(vars(bank.connections.backend))]
        with pickle.loads(pickle.dumps(bank)) as other:  # noqa: S301 - our own bytes
            told += [repr(other), repr(vars(other.connections.backend)), caplog.text]
    assert health.ok is False
    assert SECRET not in " ".join(told)


def test_a_password_may_hold_any_sign(schema: Schema) -> None:
    """Percent-encoded in the URL, it opens the database, and is in no message."""
    role, password = f"odd_{schema.name}", "p@ss/w:rd %?#'x"
    schema.sql(f"CREATE ROLE {role} LOGIN PASSWORD '{password.replace(chr(39), chr(39) * 2)}'")
    try:
        schema.sql(f"GRANT ALL ON SCHEMA {schema.name} TO {role}")
        url = make_url(schema.url).set(username=role, password=password).render_as_string(hide_password=False)
        with open_bank(url) as bank:
            bank.retain("Ana plays the cello.")
            schema.sql("UPDATE lorebank_schema SET version = 99")
            with open_bank(url) as later:
                assert password not in later.health().detail
    finally:
        schema.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_verb_that_waits_for_its_turn_stops_no_loop(bank: Bank) -> None:
    """While another writer has the bank's lock, an awaited write waits in a thread of the bank's own."""
    await bank.aretain("before")
    with bank.connections.backend.database.write("alice"):  # type: ignore[attr-defined]
        waiting = asyncio.create_task(bank.aretain("Ana plays the cello."))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not waiting.done()
    assert len((await waiting).stored) == 1


def test_a_server_that_says_nothing_is_unavailable_in_time(postgres_url: str) -> None:
    """A port that takes connections and never answers costs `connect_timeout` and no more."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://lore:hunter2@127.0.0.1:{silent.getsockname()[1]}/lore?connect_timeout=2"
        with open_bank(url) as bank, pytest.raises(UnavailableError, match="can't be reached"):
            bank.retain("Ana plays the cello.")


def test_processes_may_open_a_new_database_at_once(schema: Schema) -> None:
    """Three processes that open, and write to the same new bank, all succeed: tables and bank are made once."""
    command = [sys.executable, "-c", OPENERS, schema.url]
    processes = [subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for n in range(3)]
    ended = [process.communicate("go\n", timeout=120)[1] for process in processes]
    assert ended == [""] * 3
    with open_bank(schema.url, bank="shared") as bank:
        assert sorted(memory.text for memory in bank.list()) == ["a fact of all", *(f"fact of process {n}" for n in range(3))]
        assert [memory.evidence for memory in bank.list() if memory.text == "a fact of all"] == [3]
        assert bank.check().problems == ()
    assert schema.sql("SELECT count(*) FROM banks") == [(1,)]


def test_a_newer_schema_is_refused(schema: Schema, bank: Bank) -> None:
    """A database of a newer release says so, and is not changed."""
    bank.retain("Ana plays the cello.")
    schema.sql("UPDATE lorebank_schema SET version = version + 1")
    with open_bank(schema.url) as later, pytest.raises(UnsupportedError, match="newer lorebank"):
        later.list()
    assert schema.sql("SELECT count(*) FROM memories") == [(1,)]


def test_writers_of_a_bank_take_turns_and_other_banks_go_on(database: Database) -> None:
    """A second writer of a bank waits, `busy_timeout` at most; a writer of another bank does not."""
    with database.write("ana") as connection:
        connection.execute(text("INSERT INTO things VALUES ('first')"))
        add(database, "other bank", "ben")
        with pytest.raises(UnavailableError, match="busy"):
            add(database, "same bank", "ana")
        with pytest.raises(UnavailableError, match="busy"):
            add(database, "all banks")
        assert names(database) == ["other bank"]
    add(database, "same bank", "ana")
    assert names(database) == ["first", "other bank", "same bank"]


def test_a_reader_sees_one_snapshot_and_writes_nothing(database: Database) -> None:
    """What is committed while a reader reads is not seen by it, but by the next."""
    with database.read() as reader:
        assert reader.scalar(text("SELECT count(*) FROM things")) == 0
        add(database, "later")
        assert reader.scalar(text("SELECT count(*) FROM things")) == 0
    assert names(database) == ["later"]
    with pytest.raises(UnavailableError, match="read-only"), database.read() as reader:
        reader.execute(text("INSERT INTO things VALUES ('x')"))


def test_a_failed_transaction_writes_nothing(database: Database) -> None:
    """All of a transaction, or nothing, on either kind of connection."""

    def half(source: Source) -> None:
        run(source, "INSERT INTO things VALUES (?)", ("half",))
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"), database.write() as connection:
        half(connection)
    with pytest.raises(ValueError, match="half way"), database.direct(write=True) as driver:
        half(driver)
    assert names(database) == []


def test_statements_are_written_once_for_both_drivers(database: Database) -> None:
    """`?` is a parameter and `%` a sign, whatever psycopg makes of them; `Spoken` has other words for the other database."""
    add(database, "50% of it")
    with database.direct() as driver:
        assert rows_of(driver, "SELECT name FROM things WHERE name LIKE '50%' AND name <> ?", ("x",)) == [("50% of it",)]
        assert rows_of(driver, Spoken("SELECT sqlite_version()", "SELECT 'other words'")) == [("other words",)]


def test_connections_that_were_given_up_are_replaced_unseen(bank: Bank, schema: Schema) -> None:
    """The server drops all idle connections: the next verbs know nothing of it."""
    bank.retain("Ana plays the cello.")
    for verb in (bank.list, lambda: bank.recall("cello"), lambda: bank.forget(bank.list()[0].id)):
        assert terminate(schema) > 0
        verb()
    assert bank.list() == ()


@pytest.mark.parametrize("way", ["direct", "write"])
def test_a_connection_lost_in_the_middle_is_unavailable_and_the_next_call_works(
    database: Database, schema: Schema, way: str
) -> None:
    """A write that was under way is told as lost, nothing of it stays, and the next one goes through."""
    add(database, "before")
    opening = database.openings

    def broken_off(source: Source) -> None:
        run(source, "INSERT INTO things VALUES (?)", ("lost",))
        terminate(schema)
        run(source, "INSERT INTO things VALUES (?)", ("lost, too",))

    transaction: AbstractContextManager[Any] = database.write() if way == "write" else database.direct(write=True)
    with pytest.raises(UnavailableError, match="was lost"), transaction as connection:
        broken_off(connection)
    add(database, "after")
    assert names(database) == ["after", "before"]
    assert database.openings > opening


def test_a_process_uses_a_bounded_number_of_connections(bank: Bank, schema: Schema) -> None:
    """A hundred verbs at once make no more connections than the pool allows, and none is refused."""
    bank.retain("Ana plays the cello.")
    threads = [threading.Thread(target=bank.recall, args=("cello",)) for _ in range(100)]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, schema.sql(f"SELECT count(*) {OURS}")[0][0])
    for thread in threads:
        thread.join()
    assert 0 < most <= POOL + MORE


def test_no_connection_survives_a_fork(bank: Bank, schema: Schema) -> None:
    """A child has connections of its own; the parent's goes on."""
    bank.retain("before")
    if (child := os.fork()) == 0:
        try:
            bank.retain("child")
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the exit code tells
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    bank.retain("parent")
    assert sorted(memory.text for memory in bank.list()) == ["before", "child", "parent"]


def test_pickling_keeps_the_settings_and_shows_no_password(postgres_url: str) -> None:
    """A database in another process is the same with the same settings; its repr tells no secret."""
    settings = DatabaseSettings(postgres_url, "full", 3)
    database = pickle.loads(pickle.dumps(Database(settings, print)))  # noqa: S301 - our own bytes
    assert database.settings == settings
    assert SECRET not in f"{database!r} {settings!r} {database.place!r} {database.name}"


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_the_tables_have_the_columns_that_the_code_names(bank: Bank, schema: Schema, table: Table) -> None:
    """Name, order, nullability and kind of each column are the same on the server and in the SQLAlchemy table."""
    bank.stats()
    found = schema.sql(
        """SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
           WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position""",
        table.name,
    )
    kinds = {"VARCHAR": "text", "TEXT": "text", "FLOAT": "double precision", "BLOB": "bytea"}
    assert found == [(c.name, kinds.get(str(c.type), "bigint"), c.nullable) for c in table.columns]
