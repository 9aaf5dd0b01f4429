"""The timeline: all memories by day, page by page, and nothing twice."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from lorebank import Item
from lorebank.inspector.timeline import SIZE
from lorebank.testing import FaultServer

from .conftest import Opener, Visitor, words

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)


def texts(page: str) -> list[str]:
    return [unescape(found) for found in re.findall(r'<a href="/memory\?id=[^"]+" dir="auto">([^<]*)</a>', page)]


def pages(visitor: Visitor) -> list[list[str]]:
    """All pages, by their links."""
    found, path = [], "/timeline"
    while path:
        page = visitor.get(path).text
        found.append(texts(page))
        older = re.search(r'<a href="([^"]+)" rel="next">', page)
        path = unescape(older[1]) if older else ""
    return found


def test_memories_stand_under_their_days(visitor: Visitor) -> None:
    """The newest first."""
    visitor.bank.retain([Item("The first.", timestamp=DAY), Item("The second.", timestamp=DAY + timedelta(days=1))])
    visitor.bank.flush(timeout=30, until="completed")
    page = visitor.get("/timeline").text
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["Monday, 02 March 2026", "Sunday, 01 March 2026"]
    assert list(dict.fromkeys(texts(page))) == ["The second.", "The first."]  # a server adds observations of the same words


def test_pages_follow_each_other(local: Visitor) -> None:
    """Each memory once, also where many were said at the same moment."""
    items = [Item(f"Number {n}.", timestamp=DAY + timedelta(minutes=n // 70)) for n in range(3 * SIZE)]
    local.bank.retain(items)
    found = pages(local)
    assert [len(page) for page in found] == [SIZE, SIZE, SIZE]
    assert sorted(text for page in found for text in page) == sorted(item.content for item in items)


def test_a_page_stays_where_it_is_while_new_memories_come(local: Visitor) -> None:
    """The next page begins where this one ended."""
    local.bank.retain([Item(f"Number {n:03}.", timestamp=DAY + timedelta(minutes=n)) for n in range(SIZE + 3)])
    page = local.get("/timeline").text
    older = unescape(re.search(r'<a href="([^"]+)" rel="next">', page)[1])  # type: ignore[index]
    local.bank.retain([Item("Later.", timestamp=DAY + timedelta(days=9))])
    assert texts(local.get(older).text) == ["Number 002.", "Number 001.", "Number 000."]


def test_a_day_is_where_it_begins(visitor: Visitor) -> None:
    """That day's memories are the first."""
    visitor.bank.retain([Item(f"Day {n}.", timestamp=DAY + timedelta(days=n)) for n in range(4)])
    visitor.bank.flush(timeout=30, until="completed")
    found = texts(visitor.get("/timeline", day="2026-03-02").text)
    assert list(dict.fromkeys(found)) == ["Day 1.", "Day 0."]


def test_states_and_types_narrow(visitor: Visitor) -> None:
    """Invalidated memories are shown on request, and say so."""
    gone, kept = visitor.told("Ana prefers aisle seats.", "Ana plays the cello.")
    visitor.bank.invalidate(gone, replacement=kept)
    assert "aisle" not in visitor.read("/timeline")
    invalidated = visitor.read("/timeline", state="invalidated")
    assert ("aisle" in invalidated, "invalidated" in invalidated, "cello" in invalidated) == (True, True, False)
    both = visitor.read("/timeline", state="all", type="world")
    assert ("aisle" in both, "cello" in both) == (True, True)


@pytest.mark.parametrize(
    "values", [{"before": "soon"}, {"day": "2026-13-77"}, {"skip": "-1"}, {"skip": "9" * 30}, {"day": "9999-12-31"}]
)
def test_an_address_that_was_tampered_with_is_no_failure(local: Visitor, values: dict[str, str]) -> None:
    local.told("Ana plays the cello.")
    assert local.get("/timeline", **values).status_code == 200


def test_an_empty_bank_says_so(visitor: Visitor) -> None:
    assert "No memories" in visitor.read("/timeline")


def test_a_dead_server_is_told(served: Visitor, server: FaultServer) -> None:
    server.stop()
    answer = served.get("/timeline")
    assert (answer.status_code, "lorebank doctor" in words(answer.text)) == (503, True)


def test_a_project_sees_its_own_memories_only(opened: Opener) -> None:
    """As everything that is opened for a project does."""
    atlas = opened(project="atlas")
    atlas.told("Atlas ships in May.")
    opened(project="zeus").told("Zeus ships in June.")
    page = atlas.read("/timeline")
    assert ("Atlas ships" in page, "Zeus ships" in page) == (True, False)
