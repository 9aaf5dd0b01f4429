"""People see and steer their memory: search, correct, invalidate, forget, requeue, on both backends."""

from __future__ import annotations

import pytest

from lorebank import MissingError
from lorebank.testing import Fault

from .conftest import Press, Reader

AISLE, WINDOW, CELLO = "Ana prefers aisle seats.", "Ana prefers window seats.", "Ana plays the cello."


def test_a_search_shows_what_is_known_and_why(reader: Reader) -> None:
    """Typed and sent by the keyboard; the focus goes to how many were found."""
    reader.told(AISLE, CELLO)
    reader.labelled("What do you want to know?").send_keys("Which seats does Ana prefer?")
    reader.follow(lambda: reader.press(Press.ENTER))
    assert reader.focused.tag_name == "h2"
    assert reader.focused.text.endswith(("memory", "memories"))
    heads = [each.text for each in reader.all("thead th")]
    assert heads[:2] == ["Score", "Memory"]
    assert len(heads) > 3
    assert AISLE in reader.find("tbody tr").text


def test_a_correction_is_made_and_undone(reader: Reader) -> None:
    """From the search on; the note that follows has the focus and offers the undo."""
    [known] = reader.told(AISLE)
    reader.open("/?q=Which+seats+does+Ana+prefer%3F")
    reader.activate("Correct")
    field = reader.labelled("What it should say")
    assert reader.focused == field
    field.clear()
    field.send_keys(WINDOW)
    reader.activate("Correct")
    assert "The memory is corrected." in reader.focused.text
    assert reader.bank.get(known).text == WINDOW
    reader.activate("Undo")
    assert "Undone" in reader.text
    assert reader.bank.get(known).text == AISLE


def test_an_undo_overwrites_nobody_s_change(reader: Reader) -> None:
    """What another program has made of the memory meanwhile stays."""
    [known] = reader.told(AISLE)
    reader.open(f"/memory?id={known}")
    field = reader.labelled("What it should say")
    field.clear()
    field.send_keys(WINDOW)
    reader.activate("Correct")
    reader.bank.update(known, content=CELLO)
    reader.activate("Undo")
    assert "changed again since then" in reader.text
    assert reader.bank.get(known).text == CELLO


def test_an_invalidation_is_made_and_taken_back(reader: Reader) -> None:
    """It is not recalled meanwhile."""
    [known, _] = reader.told(AISLE, CELLO)
    reader.open(f"/memory?id={known}")
    reader.activate("Invalidate")
    assert reader.bank.get(known).invalidated_at is not None
    assert AISLE not in [memory.text for memory in reader.bank.recall("Which seats does Ana prefer?")]
    reader.activate("Make valid again")
    assert "valid again" in reader.text
    assert reader.bank.get(known).invalidated_at is None


def test_forgetting_asks_and_is_final(reader: Reader) -> None:
    """Keeping it changes nothing; forgetting leaves nothing."""
    [known, _] = reader.told(AISLE, CELLO)
    reader.open(f"/memory?id={known}")
    reader.activate("Forget")
    assert "can't be undone" in reader.text
    reader.activate("Keep it")
    assert reader.bank.get(known).text == AISLE
    reader.activate("Forget")
    reader.activate("Forget it for good")
    assert "1 memory forgotten" in reader.text
    with pytest.raises(MissingError):
        reader.bank.get(known)


def test_a_dead_letter_is_sent_again(served: Reader) -> None:
    """The server refuses a write; once it takes writes again, the page sends it, and it is known."""
    assert served.line is not None
    served.line.fault(Fault(status=422), path="/memories$", method="POST")
    served.bank.retain(AISLE)
    served.bank.flush(timeout=30, until="completed")
    served.open("/outbox")
    assert "1 dead letter" in served.text
    assert "422" in served.find("tbody td.text").text
    served.line.heal()
    served.activate("Send again")
    assert "1 dead letter will be sent again" in served.text
    assert served.bank.flush(timeout=60, until="completed").done
    served.open("/outbox")
    assert "0 dead letters" in served.text
    served.open("/?q=Which+seats+does+Ana+prefer%3F")
    assert AISLE in served.find("tbody tr").text


def test_the_embedded_engine_has_no_dead_letters(local: Reader) -> None:
    """The page says why there is nothing to send again."""
    local.told(AISLE)
    local.activate("Outbox")
    assert "nothing waits here" in local.text
    assert local.all("main button") == []


def test_a_dead_server_leaves_the_pages_standing(served: Reader) -> None:
    """Each says what is wrong and what to do; the search keeps its query."""
    assert served.line is not None
    served.told(AISLE)
    served.line.stop()
    served.open("/?q=seats")
    assert "lorebank doctor" in served.find("[role=alert]").text
    assert served.labelled("What do you want to know?").get_attribute("value") == "seats"
    served.activate("Outbox")
    assert "0 dead letters" in served.text
    served.line.start()
