"""Every promise of isolation holds on a file and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, file: Path) -> str:
    return f"sqlite:///{file}" if request.param == "file" else str(request.getfixturevalue("postgres_url"))
