"""Schema versions: numbered steps that only ever grow.

A file records the version of each component it holds. Opening brings an older one up to date, step by step, in one
transaction; a newer one is refused, since this release can't know what it would break.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, insert, select, update

from lorebank._database.engine import Database
from lorebank.errors import UnsupportedError

_VERSIONS = Table(
    "lorebank_schema", MetaData(), Column("component", String, primary_key=True), Column("version", Integer, nullable=False)
)

Step = Sequence[str]
"""The statements of one step."""


def migrate(database: Database, component: str, steps: Sequence[Step]) -> None:
    """Brings a component's tables to version `len(steps)`."""
    with database.read() as connection:
        if _version(connection, component) == len(steps):
            return
    with database.write() as connection:
        _VERSIONS.create(connection, checkfirst=True)
        found = _version(connection, component)
        if found > len(steps):
            raise UnsupportedError(
                f"`{database.name}` was written by a newer lorebank "
                f"({component} schema {found}; known here: {len(steps)}): upgrade lorebank"
            )
        for step in steps[found:]:
            for statement in step:
                connection.exec_driver_sql(statement)
        if not found:
            connection.execute(insert(_VERSIONS).values(component=component, version=len(steps)))
        else:
            connection.execute(update(_VERSIONS).where(_VERSIONS.c.component == component).values(version=len(steps)))


def _version(connection: Connection, component: str) -> int:
    """The component's version in this file; 0 when it has none."""
    if not connection.dialect.has_table(connection, _VERSIONS.name):
        return 0
    return connection.scalar(select(_VERSIONS.c.version).where(_VERSIONS.c.component == component)) or 0
