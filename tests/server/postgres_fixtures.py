"""PostgreSQL as fixtures: one server for a test run, a database for each of its processes, a schema for each test.

A test that uses one of them is marked `postgres`. A server that can't be had is an error of each of these tests; only
`--without-postgres` skips them, and says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from postgres_server import Lease, PostgresMissingError

FIXTURES = frozenset({"postgres", "postgres_url", "schema"})
WITHOUT = "needs PostgreSQL (--without-postgres)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-postgres", action="store_true", help="leave out the tests that need PostgreSQL")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgres: needs PostgreSQL (set by itself on users of its fixtures)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the users of the fixtures, before `-m` selects."""
    for item in items:
        if FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.postgres)
        if item.get_closest_marker("postgres") is not None and config.getoption("--without-postgres"):
            item.add_marker(pytest.mark.skip(reason=WITHOUT))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--without-postgres"):
        skipped = [report for report in terminalreporter.getreports("skipped") if WITHOUT in str(report.longrepr)]
        line = f"--without-postgres: {len(skipped)} tests against PostgreSQL did NOT run."
        terminalreporter.write_line(line, yellow=True, bold=True)


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of this process's own database on the run's server: what others have open there keeps no row of it."""
    run = getattr(pytestconfig, "workerinput", {}).get("testrunuid", uuid.uuid4().hex)
    try:
        lease = Lease(run)
    except PostgresMissingError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    import psycopg

    name = f"tests_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(lease.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield lease.url.rpartition("/")[0] + f"/{name}"
    lease.close()


@dataclass(frozen=True)
class Schema:
    """A test's own part of the server's database. `url` opens it; `sql` runs a statement in it, as another program would."""

    server: str
    name: str

    @property
    def url(self) -> str:
        return f"{self.server}?options=-csearch_path%3D{self.name}"

    def sql(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def schema(postgres: str) -> Iterator[Schema]:
    """An empty schema, dropped with the test."""
    made = Schema(postgres, f"test_{uuid.uuid4().hex[:16]}")
    made.sql(f"CREATE SCHEMA {made.name}")
    yield made
    made.sql(f"SET lock_timeout = 10000; DROP SCHEMA {made.name} CASCADE")


@pytest.fixture
def postgres_url(schema: Schema) -> str:
    """Opens the test's own schema."""
    return schema.url
