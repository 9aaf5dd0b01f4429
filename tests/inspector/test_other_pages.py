"""Entities, mental models, turns, outbox: what they tell, and what can be done there."""

from __future__ import annotations

import re
from html import unescape

import pytest

from lorebank import Message
from lorebank.inspector.graph import HEIGHT, WIDTH, drawn
from lorebank.seams import Entities, Entity, Together
from lorebank.testing import Fault, FaultServer, ScriptedCompleter

from .conftest import Opener, Visitor, words


def test_names_are_drawn_and_listed(visitor: Visitor) -> None:
    """The table says what the picture shows, and each name leads to a search."""
    visitor.told("then Ana met Boris in Lisbon.", "then Ana wrote to Boris.")
    page = visitor.get("/entities").text
    assert re.findall(r"<text [^>]*>([^<]*)</text>", page)[:2] == ["Ana", "Boris"]
    assert 'role="img"' in page
    assert '<a href="/?q=Ana">Ana</a>' in page
    assert re.search(r"Ana 2 Boris \(2\)", words(page))


def test_nobody_is_named_in_an_empty_bank(visitor: Visitor) -> None:
    assert "name nobody" in visitor.read("/entities")


def test_a_picture_fits_and_is_the_same_again() -> None:
    """Whatever the names; names that would overlap give way."""
    names = tuple(Entity(f"Name {n}", 40 - n) for n in range(36))
    pairs = tuple(Together(f"Name {n}", f"Name {n // 2}", 1 + n % 5) for n in range(1, 36))
    picture = drawn(Entities(names, pairs), 36)
    assert picture == drawn(Entities(names, pairs), 36)
    assert picture is not None
    assert len({(node.x, node.y) for node in picture.nodes}) == 36
    assert all(0 < node.x < WIDTH and 0 < node.y < HEIGHT for node in picture.nodes)
    assert len(picture.lines) == 35


@pytest.mark.parametrize(("count", "there"), [(0, False), (1, False), (2, True)])
def test_a_picture_needs_two_names(count: int, there: bool) -> None:
    """Two that stand nowhere together are drawn, too."""
    picture = drawn(Entities(tuple(Entity(str(n), 1) for n in range(count))), 9)
    assert (picture is not None) == there


def test_a_mental_model_is_shown_with_what_it_said_before(opened: Opener) -> None:
    """Its history, each revision with what changed."""
    visitor = opened()
    visitor.told("Ana prefers aisle seats.")
    models = visitor.bank.mental_models
    models.create("seats", name="Seats", source_query="Which seats does Ana prefer?")
    models.update("seats", content="Aisle.\nNever the last row.") if visitor.server is None else models.refresh("seats")
    assert "Seats" in visitor.read("/models")
    page = visitor.get("/model", id="seats").text
    assert "Which seats does Ana prefer?" in words(page)
    if visitor.server is None:
        assert "<ins>+ Never the last row.</ins>" in page
        assert "All that it said then" in words(page)


def test_a_mental_model_is_answered_anew(opened: Opener) -> None:
    """The note says whether it says something else now."""
    visitor = opened()
    visitor.told("Ana prefers aisle seats.")
    visitor.bank.mental_models.create("seats", name="Seats", source_query="Which seats does Ana prefer?")
    assert "it says the same" in words(visitor.post("/model/refresh", id="seats").text)
    visitor.told("Ana prefers window seats on night trains.")
    assert "was answered anew" in words(visitor.post("/model/refresh", id="seats").text)


def test_a_model_that_fails_is_told(local: Visitor, url: str) -> None:
    """The old answer stays."""
    from lorebank import open_bank

    from .conftest import visit

    completer = ScriptedCompleter([{"statements": [{"text": "Aisle.", "memories": [1]}]}, RuntimeError("no model")])
    with open_bank(url, bank="carol", completer=completer) as bank:
        bank.retain("Ana prefers aisle seats.")
        bank.mental_models.create("seats", name="Seats", source_query="Which seats does Ana prefer?")
        visitor = visit(bank)
        bank.retain("Ana prefers window seats on night trains.")
        assert visitor.post("/model/refresh", id="seats").status_code >= 400
        assert "Aisle." in visitor.read("/model", id="seats")


def test_an_unknown_model_is_told(visitor: Visitor) -> None:
    assert visitor.get("/model", id="nosuch").status_code == 404
    assert visitor.get("/model", id="No Such").status_code == 400
    assert "has none" in visitor.read("/models")


def test_a_turn_tells_what_was_injected_and_why(visitor: Visitor) -> None:
    """Query, memories with their scores and signals, what was left out; a memory that is gone since says so."""
    known, _ = visitor.told("Ana prefers aisle seats.", "Ana prefers window seats on night trains.")
    with visitor.bank.session("monday") as session:
        session.before_turn([Message("user", "Which seats does Ana prefer?")])
    assert re.search(r"monday normal 1 1 1", visitor.read("/turns"))
    page = visitor.read("/session", id="monday")
    assert "Which seats does Ana prefer?" in page
    assert "Ana prefers aisle seats." in page
    assert "found, in" in page
    visitor.bank.forget(known)
    visitor.bank.session("monday")
    assert "Ana prefers aisle seats." not in visitor.read("/session", id="monday")


def test_without_traces_the_page_says_how_to_keep_them(visitor: Visitor) -> None:
    assert "keep_traces" in visitor.read("/turns")
    assert "keep_traces" in visitor.read("/session", id="nosuch")
    assert "No conversation" in visitor.read("/turns")
    assert visitor.get("/session").status_code == 400


def test_traces_are_shown_while_the_server_is_down(served: Visitor, server: FaultServer) -> None:
    """They are kept here; the memories' texts are not."""
    [known] = served.told("Ana prefers aisle seats.")
    with served.bank.session("monday") as session:
        session.before_turn([Message("user", "Which seats does Ana prefer?")])
    server.stop()
    answer = served.get("/session", id="monday")
    assert answer.status_code == 200
    assert known in answer.text
    assert "lorebank doctor" in words(answer.text)
    assert "forgotten since" not in answer.text


def test_nothing_ever_waits_on_mnemopi(local: Visitor) -> None:
    """The page says so and offers nothing."""
    page = local.get("/outbox").text
    assert "nothing waits here" in words(page)
    assert "<form" not in page


def dead(served: Visitor, server: FaultServer) -> str:
    """A write that the server has refused; its id."""
    server.fault(Fault(status=422), path="/memories$", method="POST")
    served.bank.retain("Ana prefers aisle seats.")
    served.bank.flush(timeout=20, until="completed")
    [entry] = served.bank.outbox.list(state="dead")
    return entry.id


def test_a_dead_letter_is_sent_again(served: Visitor, server: FaultServer) -> None:
    """The page tells the reason; once the server takes it, it becomes a memory."""
    known = dead(served, server)
    page = served.get("/outbox").text
    assert "1 dead letter" in words(page)
    assert "422" in words(page)
    server.heal()
    assert served.form("/outbox", "/outbox/requeue")["id"] == known
    assert "1 dead letter will be sent again" in words(served.post("/outbox/requeue", id=known).text)
    assert served.bank.flush(timeout=20, until="completed").done
    assert "0 dead letters" in served.read("/outbox")
    assert "Ana prefers aisle seats." in [memory.text for memory in served.bank.list()]


def test_all_dead_letters_are_sent_again(served: Visitor, server: FaultServer) -> None:
    dead(served, server)
    server.heal()
    assert "1 dead letter will be sent again" in words(served.post("/outbox/requeue").text)


def test_deleting_a_write_asks_first(served: Visitor, server: FaultServer) -> None:
    """The question says that it is for good; a second time there is nothing to delete."""
    known = dead(served, server)
    assert "can't be brought back" in served.read("/outbox/purge", id=known)
    assert len(served.bank.outbox.list(state="dead")) == 1
    assert "The write is deleted" in words(served.post("/outbox/purge", id=known).text)
    assert served.bank.outbox.list(state="dead") == ()
    assert served.post("/outbox/purge", id=known).status_code == 404
    assert served.get("/outbox/purge", id=known).status_code == 404


def test_what_waits_is_sent_now(served: Visitor, server: FaultServer) -> None:
    """And what is left is told."""
    server.stop()
    served.bank.retain("Ana prefers aisle seats.")
    assert "1 write waits" in served.read("/outbox")
    server.start()
    assert "All is delivered" in words(served.post("/outbox/flush").text)


def test_no_page_shows_what_a_write_holds(served: Visitor, server: FaultServer) -> None:
    """The outbox tells ids, states and counts, never content."""
    known = dead(served, server)
    assert "aisle" not in served.read("/outbox") + served.read("/outbox/purge", id=known)


def test_the_next_page_of_conversations(local: Visitor) -> None:
    """Fifty at a time."""
    for number in range(52):
        session = local.bank.session(f"chat {number:02}")
        session.mode = "read-only"
        session.save()
    page = local.get("/turns").text
    assert len(re.findall(r"<th scope=\"row\">", page)) == 50
    [older] = re.findall(r'<a href="([^"]+)" rel="next">', page)
    assert len(re.findall(r"<th scope=\"row\">", local.get(unescape(older)).text)) == 2
