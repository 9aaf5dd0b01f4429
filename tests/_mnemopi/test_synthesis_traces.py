"""What becomes of a completer's answers when memories are forgotten or changed, before and after they are written."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Item, open_bank
from lorebank._mnemopi.synthesis import Line, Written, written
from lorebank.testing import ScriptedCompleter

Scripted = Callable[..., tuple[Bank, ScriptedCompleter]]
Look = Callable[[str], list[Any]]
Edit = Callable[[Bank, str], object]
QUESTION = "What does Ana play?"
CELLO, HARP = "Ana plays the cello.", "Ana plays the harp."
LINES = "- She bows a cello.\n- She plucks a harp."

EDITS: dict[str, Edit] = {
    "forget": lambda bank, known: bank.forget(known),
    "update": lambda bank, known: bank.update(known, content="Ana plays the drum."),
    "retag": lambda bank, known: bank.update(known, tags=["x"]),
    "invalidate": lambda bank, known: bank.invalidate(known),
}


def said(*statements: tuple[str, list[int]]) -> dict[str, Any]:
    return {"statements": [{"text": text, "memories": cited} for text, cited in statements]}


def number(prompt: str, text: str) -> int:
    """The number of a memory in a prompt."""
    [found] = re.findall(rf"^\[(\d+)\] .*{re.escape(text)}$", prompt, re.MULTILINE)
    return int(found)


def both(prompt: str) -> dict[str, Any]:
    """One statement for each instrument; each cites its own memory."""
    return said(("She bows a cello.", [number(prompt, CELLO)]), ("She plucks a harp.", [number(prompt, HARP)]))


def told(bank: Bank, *texts: str) -> list[str]:
    return [each.id or "" for each in bank.retain(list(texts)).stored]


def made(bank: Bank, **fields: Any) -> Any:
    return bank.mental_models.create("music", name="Music", source_query=QUESTION, **fields)


# While the completer writes


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_memory_that_changed_meanwhile_is_not_written_from(
    scripted: Scripted, edit: Edit, bytes_of: Callable[[], bytes]
) -> None:
    """Statements that cite a memory which is gone or other when the answer comes are dropped; the rest is written."""
    bank, completer = scripted([])
    cello, harp = told(bank, CELLO, HARP)

    def edited(prompt: str) -> dict[str, Any]:
        edit(bank, cello)
        return both(prompt)

    completer.script = edited
    model = made(bank)
    assert (model.content, model.based_on) == ("- She plucks a harp.", (harp,))
    assert b"bows" not in bytes_of()


def test_nothing_left_to_write_leaves_the_model_as_it_is(scripted: Scripted) -> None:
    """A model whose only source was forgotten meanwhile stays without an answer."""
    bank, completer = scripted([])
    [cello] = told(bank, CELLO)

    def forgotten(prompt: str) -> dict[str, Any]:
        bank.forget(cello)
        return said(("She bows a cello.", [1]))

    completer.script = forgotten
    model = made(bank)
    assert (model.content, model.based_on) == ("", ())


def test_a_refresh_that_loses_a_source_writes_the_rest(scripted: Scripted) -> None:
    """The present answer loses its line at once, the new one never has it."""
    bank, completer = scripted(both)
    cello, harp = told(bank, CELLO, HARP)
    made(bank)

    def forgotten(prompt: str) -> dict[str, Any]:
        bank.forget(cello)
        assert bank.mental_models.get("music").content == "- She plucks a harp."
        return said(*((f"{each['text']} Well.", each["memories"]) for each in both(prompt)["statements"]))

    completer.script = forgotten
    model = bank.mental_models.refresh("music")
    assert (model.content, model.based_on) == ("- She plucks a harp. Well.", (harp,))
    assert [revision.content for revision in bank.mental_models.history("music")] == ["- She plucks a harp."]


@pytest.mark.parametrize("verb", ["create", "refresh", "reflect"])
def test_no_lock_is_held_while_the_completer_writes(url: str, file: Path, verb: str) -> None:
    """Another thread and another connection to the file write meanwhile, at once, and no reader blocks a purge."""
    completer = ScriptedCompleter(both)
    with open_bank(url, bank="alice", completer=completer, mnemopi={"busy_timeout": 1}) as bank:
        told(bank, CELLO, HARP)
        if verb == "refresh":
            made(bank)
        done: list[int] = []

        def writing(prompt: str) -> dict[str, Any]:
            thread = threading.Thread(target=lambda: done.append(len(bank.retain("Ben rows.").stored)))
            thread.start()
            thread.join(30)
            connection = sqlite3.connect(file, timeout=0)
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
            connection.close()
            assert bank.purge() is None
            return both(prompt)

        completer.script = writing
        calls = {
            "create": lambda: made(bank),
            "refresh": lambda: bank.mental_models.refresh("music"),
            "reflect": lambda: bank.reflect(QUESTION),
        }
        calls[verb]()
        assert done == [1]


# Afterwards


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_line_goes_with_its_memory_and_nobody_is_asked(scripted: Scripted, edit: Edit) -> None:
    """What other memories said stays until the next refresh."""
    bank, completer = scripted(both)
    cello, harp = told(bank, CELLO, HARP)
    made(bank)
    edit(bank, cello)
    model = bank.mental_models.get("music")
    assert (model.content, model.based_on, len(completer.asked)) == ("- She plucks a harp.", (harp,), 1)


def test_forgetting_leaves_no_trace(scripted: Scripted, bytes_of: Callable[[], bytes]) -> None:
    """Neither the answer nor its history nor any byte of the file holds what was written from a forgotten memory."""
    bank, completer = scripted(both)
    cello, _ = told(bank, CELLO, HARP)
    made(bank)
    completer.script = lambda prompt: said(("She bows a violoncello.", both(prompt)["statements"][0]["memories"]))
    bank.mental_models.refresh("music")
    assert len(bank.mental_models.history("music")) == 1
    assert bank.forget(cello).purged
    assert (bank.mental_models.get("music").content, bank.mental_models.history("music")) == ("", ())
    assert not any(word in bytes_of() for word in (b"bows", b"cello", cello.encode()))


def test_an_update_and_then_forgetting_leaves_no_trace(scripted: Scripted, bytes_of: Callable[[], bytes]) -> None:
    """History keeps what was said before an update, as long as the memory is there."""
    bank, _ = scripted(both)
    cello, _ = told(bank, CELLO, HARP)
    made(bank)
    bank.update(cello, content="Ana plays the drum.")
    assert [revision.content for revision in bank.mental_models.history("music")] == [LINES]
    bank.forget(cello)
    assert bank.mental_models.history("music") == ()
    assert b"bows" not in bytes_of()


def test_a_line_that_repeats_a_memory_without_citing_it_goes_with_it(scripted: Scripted, bytes_of: Callable[[], bytes]) -> None:
    """Completers cite carelessly: what only an uncited memory explains is of that memory, too."""
    bank, _ = scripted(lambda prompt: said(("She has a harp.", [number(prompt, CELLO)]), ("She bows.", [number(prompt, CELLO)])))
    cello, harp = told(bank, CELLO, HARP)
    model = made(bank)
    assert (model.content, model.based_on) == ("- She has a harp.\n- She bows.", (cello,))
    bank.forget(harp)
    assert bank.mental_models.get("music").content == "- She bows."
    assert b"harp" not in bytes_of()


def test_a_line_kept_from_a_former_answer_keeps_its_sources(scripted: Scripted, bytes_of: Callable[[], bytes]) -> None:
    """A delta that cites another memory for an old line does not save it from being forgotten."""
    bank, completer = scripted(lambda prompt: said(("She owns a Stradivari.", [1])))
    [cello] = told(bank, CELLO)
    made(bank)
    told(bank, HARP)
    completer.script = lambda prompt: said(("She owns a Stradivari.", [number(prompt, HARP)]))
    assert bank.mental_models.refresh("music").content == "- She owns a Stradivari."
    bank.forget(cello)
    assert bank.mental_models.get("music").content == ""
    assert b"Stradivari" not in bytes_of()


@pytest.mark.parametrize("change", [{"importance": 0.9}, {"metadata": {"a": 1}}], ids=repr)
def test_what_does_not_change_the_text_changes_no_line(scripted: Scripted, change: dict[str, Any]) -> None:
    """Importance and metadata say nothing that was written down."""
    bank, _ = scripted(both)
    cello, _ = told(bank, CELLO, HARP)
    made(bank)
    bank.update(cello, **change)
    assert (bank.mental_models.get("music").content, bank.mental_models.history("music")) == (LINES, ())


def test_a_document_written_again_with_the_same_text_changes_no_line(scripted: Scripted) -> None:
    """Only the lines of what is no longer there go."""
    bank, _ = scripted(both)
    bank.retain([Item(text, document_id="d") for text in (CELLO, HARP)])
    made(bank)
    bank.retain([Item(CELLO, document_id="d", update_mode="replace"), Item(HARP, document_id="d", update_mode="replace")])
    assert bank.mental_models.get("music").content == LINES
    bank.retain(Item(HARP, document_id="d", update_mode="replace"))
    assert bank.mental_models.get("music").content == "- She plucks a harp."


def test_forgetting_reaches_the_models_of_other_banks(scripted: Scripted) -> None:
    """A model written from the shared bank loses the line, whoever forgets."""
    bank, _ = scripted(both, shared="team")
    assert bank.shared is not None
    told(bank, HARP)
    [cello] = told(bank.shared, CELLO)
    assert made(bank).content == LINES
    bank.shared.forget(cello)
    assert bank.mental_models.get("music").content == "- She plucks a harp."


def test_clearing_a_bank_leaves_no_answer(scripted: Scripted, look: Look) -> None:
    """Models go with their bank."""
    bank, _ = scripted(both)
    told(bank, CELLO, HARP)
    made(bank)
    bank.clear(confirm="alice")
    assert (look("SELECT * FROM mental_models"), look("SELECT * FROM mental_model_revisions")) == ([], [])


# Answers of ranked memories


def test_ranked_answers_of_before_lose_single_lines(url: str, scripted: Scripted) -> None:
    """A model that was written without a completer is of one memory a line."""
    with open_bank(url, bank="alice") as plain:
        cello, harp = told(plain, CELLO, HARP)
        made(plain)
    bank, completer = scripted([])
    bank.forget(cello)
    model = bank.mental_models.get("music")
    assert (model.content, model.based_on, completer.asked) == (f"- {HARP}", (harp,), [])


def test_without_the_completer_a_bank_ranks_again(url: str, scripted: Scripted) -> None:
    """A bank that is opened without one writes from ranked memories, also what a completer wrote."""
    bank, _ = scripted(both)
    cello, harp = told(bank, CELLO, HARP)
    made(bank)
    with open_bank(url, bank="alice") as plain:
        assert set(plain.mental_models.get("music").based_on) == {cello, harp}
        plain.forget(cello)
        assert plain.mental_models.get("music").content == f"- {HARP}"


# The record


def test_a_record_is_read_as_it_was_written() -> None:
    """Lines, citations, echoes and versions survive the database."""
    answer = Written((Line("- a", ("x", "y"), ("z",)), Line("- b", ("y",))), {"x": "1", "y": "2", "z": "3"})
    assert written(answer.content, answer.record()) == answer


def test_a_record_names_its_sources_as_the_older_reader_reads_them() -> None:
    """Every id that a line owes something to is a key."""
    from lorebank._mnemopi.edits import based_on

    answer = Written((Line("- a", ("x",), ("z",)), Line("- b", ("y",))), {})
    assert set(based_on(answer.record())) == {"x", "y", "z"}


@pytest.mark.parametrize(
    ("content", "record", "sources"),
    [
        ("", None, []),
        ("By hand.\nTwo lines.", None, [(), ()]),
        ("- a\n- b", '["x", "y"]', [("x",), ("y",)]),
        ("- a\n- b", '["x"]', [("x",), ("x",)]),
    ],
)
def test_older_records_are_read(content: str, record: str | None, sources: list[Any]) -> None:
    """A list is one memory a line; where the numbers don't fit, each line may be of each memory."""
    assert [line.cited for line in written(content, record).lines] == sources
