"""Facts are tried on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lorebank import Bank, open_bank


@pytest.fixture(params=["sqlite", "postgres"])
def bank(request: pytest.FixtureRequest) -> Iterator[Bank]:
    url = request.getfixturevalue("url" if request.param == "sqlite" else "postgres_url")
    with open_bank(url, bank="alice") as opened:
        yield opened
