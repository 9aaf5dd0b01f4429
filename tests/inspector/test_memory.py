"""A memory's page: what is known of it; correcting, invalidating, forgetting, and taking back what can be."""

from __future__ import annotations

from html import unescape

import pytest

from lorebank import Bank, MissingError
from lorebank.testing import Fault, FaultServer

from .conftest import Visitor, words

AISLE, WINDOW, CELLO = "Ana prefers aisle seats.", "Ana prefers window seats.", "Ana plays the cello."

SEATS = (
    "Ana prefers aisle seats on long flights.",
    "Ana booked an aisle seat for the flight to Lima.",
    "On the flight to Oslo Ana had a window seat.",
)


def correct(visitor: Visitor, known: str, text: str) -> str:
    """Corrects a memory by its page's form; gives the page that follows."""
    fields = {**visitor.form("/memory", "/memory/correct", id=known), "content": text}
    return visitor.post("/memory/correct", **fields).text


def undo(visitor: Visitor, page: str) -> str:
    """Presses the first undo of a page."""
    number = page.split('name="change" value="')[1].split('"', maxsplit=1)[0]
    return words(visitor.post("/memory/undo", change=number).text)


def test_a_page_tells_what_is_known(local: Visitor) -> None:
    """Content, metadata, tags, source, where it was said."""
    said = {"context": "travel", "session": "monday", "speaker": "Ana"}
    local.told(AISLE, tags=["trip"], metadata={"turn": "D1:3", "count": 2}, **said)
    [memory] = local.bank.list()
    page = local.read("/memory", id=memory.id)
    for told in (
        AISLE,
        "trip",
        "turn D1:3",
        "count 2",
        "travel",
        "monday",
        "Written by app (stated)",
        "Evidence 1 time",
        memory.id,
    ):
        assert told in page


def test_a_server_s_memory_has_a_page_too(served: Visitor) -> None:
    """With what a server knows of it."""
    [known] = served.told(AISLE, tags=["trip"], metadata={"turn": "D1:3"})
    page = served.read("/memory", id=known)
    for told in (AISLE, "trip", "turn D1:3", "Document", known):
        assert told in page


def test_a_correction_is_made_and_undone(visitor: Visitor) -> None:
    """The text before comes back; both are said in the page."""
    [known] = visitor.told(AISLE)
    page = correct(visitor, known, WINDOW)
    assert "The memory is corrected." in words(page)
    assert visitor.bank.get(known).text == WINDOW
    assert f"before: {AISLE}" in words(page)
    assert "Undone" in undo(visitor, page)
    assert visitor.bank.get(known).text == AISLE


def test_an_undo_can_be_undone(local: Visitor) -> None:
    """It is a change like another."""
    [known] = local.told(AISLE)
    undo(local, correct(local, known, WINDOW))
    assert "Undone" in undo(local, local.get("/memory", id=known).text)
    assert local.bank.get(known).text == WINDOW


def test_an_undo_overwrites_nobody_s_change(visitor: Visitor) -> None:
    """A memory that was changed since stays as it is, and the page says so."""
    [known] = visitor.told(AISLE)
    page = correct(visitor, known, WINDOW)
    visitor.bank.update(known, content=CELLO)
    assert "changed again since then" in undo(visitor, page)
    assert visitor.bank.get(known).text == CELLO
    assert 'action="/memory/undo"' not in visitor.get("/memory", id=known).text


def test_a_correction_overwrites_nobody_s_change(visitor: Visitor) -> None:
    """What was typed stays in the form, beside what the memory says now."""
    [known] = visitor.told(AISLE)
    fields = visitor.form("/memory", "/memory/correct", id=known)
    visitor.bank.update(known, content=CELLO)
    answer = visitor.post("/memory/correct", **{**fields, "content": WINDOW})
    assert (answer.status_code, visitor.bank.get(known).text) == (409, CELLO)
    assert "changed meanwhile" in words(answer.text)
    assert f"\n{WINDOW}</textarea>" in answer.text
    again = visitor.form("/memory", "/memory/correct", id=known)
    assert visitor.post("/memory/correct", **{**again, "content": WINDOW}).status_code == 200
    assert visitor.bank.get(known).text == WINDOW


@pytest.mark.parametrize("typed", ["", "   ", "x" * 70_000, AISLE, f"  {AISLE}\r\n"])
def test_a_correction_that_can_t_be_made_says_why(local: Visitor, typed: str) -> None:
    """And changes nothing."""
    [known] = local.told(AISLE)
    page = correct(local, known, typed)
    assert "Nothing was changed" in words(page)
    assert local.bank.get(known).text == AISLE


def test_line_ends_are_those_of_the_text(local: Visitor) -> None:
    """A form sends others."""
    [known] = local.told("Ana likes:\n- tea\n- rain")
    correct(local, known, "Ana likes:\r\n- tea\r\n- snow")
    assert local.bank.get(known).text == "Ana likes:\n- tea\n- snow"


def test_secrets_are_taken_out_of_a_correction(local: Visitor) -> None:
    """As of all that is written; the undo still fits."""
    [known] = local.told(AISLE)
    page = correct(local, known, "Ana's key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH.")
    assert "abcdefghij" not in local.bank.get(known).text
    assert "Undone" in undo(local, page)


def test_an_invalidation_is_made_and_undone(visitor: Visitor) -> None:
    """It names what is true now; an undo takes both back."""
    gone, other = visitor.told(AISLE, CELLO)
    page = visitor.post("/memory/invalidate", id=gone, replacement=other).text
    left = visitor.bank.get(gone)
    assert (left.invalidated_at is not None, left.superseded_by) == (True, other)
    assert f"Replaced by {CELLO}" in words(page)
    undo(visitor, page)
    back = visitor.bank.get(gone)
    assert (back.invalidated_at, back.superseded_by) == (None, None)


def test_an_invalidated_memory_can_be_made_valid(visitor: Visitor) -> None:
    """Whoever has invalidated it; twice changes nothing more."""
    [known] = visitor.told(AISLE)
    visitor.bank.invalidate(known)
    assert "is valid again" in words(visitor.post("/memory/revalidate", id=known).text)
    assert visitor.bank.get(known).invalidated_at is None
    assert "valid already" in words(visitor.post("/memory/revalidate", id=known).text)


def test_invalidating_twice_changes_nothing_more(visitor: Visitor) -> None:
    [known] = visitor.told(AISLE)
    visitor.post("/memory/invalidate", id=known)
    assert "invalidated already" in words(visitor.post("/memory/invalidate", id=known).text)


@pytest.mark.parametrize("replacement", ["nosuch", "self"])
def test_a_bad_replacement_changes_nothing(local: Visitor, replacement: str) -> None:
    [known] = local.told(AISLE)
    answer = local.post("/memory/invalidate", id=known, replacement=known if replacement == "self" else replacement)
    assert answer.status_code in (400, 404)
    assert local.bank.get(known).invalidated_at is None


def test_forgetting_asks_first_and_is_final(visitor: Visitor) -> None:
    """The question says what goes and that there is no undo; afterwards nothing is left, not even here."""
    [known, _] = visitor.told(AISLE, CELLO)
    page = correct(visitor, known, WINDOW)
    question = visitor.read("/memory/forget", id=known)
    assert WINDOW in question
    assert "can't be undone" in question
    assert visitor.bank.get(known).text == WINDOW
    answer = words(visitor.post("/memory/forget", id=known).text)
    assert "1 memory forgotten" in answer
    with pytest.raises(MissingError):
        visitor.bank.get(known)
    assert "not known any more" in undo(visitor, page)


def test_what_goes_with_a_memory_is_shown(local: Visitor) -> None:
    """What was derived from it."""
    first, *_ = local.told(*SEATS)
    local.bank.consolidate()
    made = [memory.text for memory in local.bank.list(types=["observation"])]
    page = local.read("/memory/forget", id=first)
    assert made
    assert "What goes with it" in page
    assert made[0][:40] in page


def test_what_a_server_can_t_do_is_said(served: Visitor) -> None:
    """An observation follows its facts: the refusal says what to do."""
    served.told(AISLE, CELLO)
    [observation, *_] = served.bank.list(types=["observation"])
    answer = served.post("/memory/invalidate", id=observation.id)
    assert (answer.status_code, "can't invalidate an observation" in words(answer.text)) == (400, True)
    assert served.get("/memory/forget", id=observation.id).status_code == 400


def test_a_memory_of_a_shared_document_is_only_invalidated(served: Visitor) -> None:
    """The page that follows says so."""
    known, _ = served.told(AISLE, CELLO, document_id="notes", update_mode="append")
    answer = words(served.post("/memory/forget", id=known).text)
    assert "invalidated, not deleted" in answer


@pytest.mark.parametrize("path", ["/memory", "/memory/forget"])
def test_an_unknown_memory_is_told(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path, id="nosuch")
    assert (answer.status_code, "forgotten meanwhile" in words(answer.text)) == (404, True)
    assert visitor.get(path).status_code == 400


@pytest.mark.parametrize("action", ["correct", "invalidate", "revalidate", "forget"])
def test_a_server_that_is_down_changes_nothing(served: Visitor, server: FaultServer, action: str) -> None:
    """The failure is told with the next step."""
    [known] = served.told(AISLE)
    server.stop()
    answer = served.post(f"/memory/{action}", id=known, content=WINDOW)
    assert (answer.status_code, "lorebank doctor" in words(answer.text)) == (503, True)


def test_what_was_typed_is_not_lost_with_the_server(served: Visitor, server: FaultServer) -> None:
    """It stands in the form, to be sent again."""
    [known] = served.told(AISLE)
    fields = {**served.form("/memory", "/memory/correct", id=known), "content": WINDOW}
    server.stop()
    answer = served.post("/memory/correct", **fields)
    assert f"\n{WINDOW}</textarea>" in answer.text
    assert [each for each in ("id", "seen") if f'name="{each}" value="{fields[each]}"' not in answer.text] == []


def test_a_correction_that_may_have_been_made_is_told_so(served: Visitor, server: FaultServer) -> None:
    """The server's answer is lost on the way: nobody knows."""
    [known] = served.told(AISLE)
    fields = {**served.form("/memory", "/memory/correct", id=known), "content": WINDOW}
    server.fault(Fault(cut=True), method="PATCH")
    page = words(served.post("/memory/correct", **fields).text)
    assert "It is not known whether it was changed" in page
    assert served.bank.get(known).text == WINDOW


def test_what_was_made_of_what_is_linked(local: Visitor) -> None:
    """An observation leads to its sources."""
    local.told(*SEATS)
    local.bank.consolidate()
    [made, *_] = local.bank.list(types=["observation"])
    page = unescape(local.get("/memory", id=made.id).text)
    assert [each for each in made.derived_from if f"/memory?id={each}" not in page] == []
    assert "Made from" in page


def test_another_bank_s_memory_has_no_page(local: Visitor, bank: Bank) -> None:
    """Ids don't lead out of the bank."""
    other = bank.named("bob").retain(AISLE).stored[0].id
    assert local.get("/memory", id=str(other)).status_code == 404
