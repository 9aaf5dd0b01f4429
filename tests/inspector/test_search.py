"""Search: the memories that an agent would recall, and why."""

from __future__ import annotations

import pytest

from lorebank.testing import Fault, FaultServer

from .conftest import Visitor, words

LOCAL = ("/turns", "/session?id=x", "/outbox")
AISLE, CELLO = "Ana prefers aisle seats.", "Ana plays the cello."


def test_what_is_known_is_found_with_its_signals(visitor: Visitor) -> None:
    """The page says how many, and the scores by signal as `recall(explain=True)` gives them."""
    visitor.told(AISLE, CELLO)
    answer = visitor.get("/", q="Which seats does Ana prefer?")
    found = visitor.bank.recall("Which seats does Ana prefer?", limit=10, max_tokens=20_000, explain=True)
    assert (answer.status_code, found[0].text) == (200, AISLE)
    page = words(answer.text)
    assert f"{len(found)} memor" in page
    for name, value in (found[0].signals or {}).items():
        assert name.replace("_", " ") in page or not value
    assert f"{found[0].score:.3f}" in page or visitor.server is None  # recency moves it


def test_a_result_can_be_steered_from_where_it_is(visitor: Visitor) -> None:
    """It leads to its page, to its correction, and to what forgetting takes."""
    [known] = visitor.told(AISLE)
    page = visitor.get("/", q="Which seats does Ana prefer?").text
    for href in (
        f"/memory?id={known}",
        f"/memory?id={known}#correct",
        f"/memory?id={known}#invalidate",
        f"/memory/forget?id={known}",
    ):
        assert f'href="{href}"' in page


def test_nothing_known_is_said_plainly(visitor: Visitor) -> None:
    """It is not the same as memory that can't be asked."""
    visitor.told(AISLE)
    page = visitor.read("/", q="quantum chromodynamics lattice")
    assert ("Nothing is known about that" in page, "Try again" in page) == (True, False)


def test_the_form_keeps_what_was_typed(local: Visitor) -> None:
    """Query, type and number."""
    local.told(AISLE)
    page = local.get("/", q='seats "Ana"', type="experience", limit="25").text
    assert 'value="seats &#34;Ana&#34;"' in page
    assert "<option selected>experience</option>" in page
    assert "<option selected>25</option>" in page


def test_a_type_narrows(local: Visitor) -> None:
    local.told(AISLE)
    local.told("Ana has aisle seats today.", type="experience")
    page = local.read("/", q="Ana aisle seats", type="experience")
    assert ("today" in page, AISLE in page) == (True, False)


@pytest.mark.parametrize("values", [{"type": "nosuch"}, {"limit": "1000000"}, {"limit": "x"}, {"q": "x" * 5000}, {"q": "\x00"}])
def test_an_address_that_was_tampered_with_is_no_failure(local: Visitor, values: dict[str, str]) -> None:
    """What can't be read counts as not said, or is refused in words."""
    local.told(AISLE)
    assert local.get("/", **{"q": "seats", **values}).status_code in (200, 400)


def test_a_trace_tells_how_it_came_about(local: Visitor) -> None:
    """Terms with their weight, how many were scored, the floor."""
    local.told(AISLE, CELLO)
    page = local.read("/", q="Which seats does Ana prefer?")
    assert "Memories scored" in page
    assert "below" in page
    assert "seat" in page


def test_a_dead_server_is_told_with_the_next_step(served: Visitor, server: FaultServer) -> None:
    """The page stands, with the query in its form."""
    server.stop()
    answer = served.get("/", q="Which seats?")
    assert answer.status_code == 503
    assert "lorebank doctor" in words(answer.text)
    assert 'value="Which seats?"' in answer.text
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize(
    "path", ["/?q=seats", "/timeline", "/entities", "/models", "/model?id=x", "/turns", "/session?id=x", "/outbox"]
)
def test_no_page_breaks_where_the_server_talks_nonsense(served: Visitor, server: FaultServer, path: str) -> None:
    """What does not come from the server is shown."""
    server.fault(Fault(body=b"<html>hello</html>", content_type="text/html"))
    answer = served.get(path)
    assert answer.status_code == (200 if path in LOCAL else 502)
    assert "Timeline" in words(answer.text)
