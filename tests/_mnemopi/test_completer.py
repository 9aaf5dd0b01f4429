"""A bank with a completer: which objects are one, reflections, pickling, and the scripted one for users' tests."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, GarbledError, Item, UnavailableError, UnsupportedError, UsageError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import Completer
from lorebank.testing import Asked, ScriptedCompleter

Scripted = Callable[..., tuple[Bank, ScriptedCompleter]]
CELLO, HARP = "Ana plays the cello.", "Ana plays the harp."


class Fixed:
    """A completer of another make."""

    def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None, max_tokens: int) -> str:
        return '{"statements": [{"text": "Ana plays", "memories": [1]}]}'


class Named(Fixed):
    def complete(self, prompt: str, **options: Any) -> str:
        return super().complete(prompt, **options)


class Curt:
    def complete(self, prompt: str) -> str:
        return ""


class Later:
    async def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None, max_tokens: int) -> str:
        return ""


class Mute(Fixed):
    def complete(self, prompt: str, **options: Any) -> Any:
        return None


class Still:
    complete = "text"


def said(*statements: tuple[str, list[int]]) -> dict[str, Any]:
    return {"statements": [{"text": text, "memories": cited} for text, cited in statements]}


# Opening


@pytest.mark.parametrize("completer", [Fixed(), Named(), ScriptedCompleter([])], ids=lambda each: type(each).__name__)
def test_any_object_of_the_shape_is_a_completer(url: str, completer: Completer) -> None:
    """The shape decides, not the class."""
    assert isinstance(completer, Completer)
    with open_bank(url, completer=completer) as bank:
        assert bank.list() == ()


@pytest.mark.parametrize(
    "completer",
    [object(), Fixed, Curt(), Later(), Still(), "gpt", str.upper, 0],
    ids=["object", "class", "curt", "async", "no-function", "name", "function", "number"],
)
def test_anything_else_is_refused_at_construction(url: str, file: Any, completer: Any) -> None:
    """The error says what a completer is."""
    with pytest.raises(UsageError, match=r"`completer.*complete"):
        open_bank(url, completer=completer)
    with pytest.raises(UsageError, match=r"`completer.*complete"):
        MnemopiBackend(url, completer=completer)
    assert not file.exists()


def test_a_server_and_a_given_backend_take_no_completer(url: str) -> None:
    """A server has a model of its own; a backend that was passed has its own completer."""
    with pytest.raises(UnsupportedError, match="Hindsight takes no `completer`"):
        open_bank("https://hindsight.example", completer=Fixed())
    with pytest.raises(UnsupportedError, match="`completer`"):
        open_bank(backend=MnemopiBackend(url), completer=Fixed())
    with open_bank(backend=MnemopiBackend(url, completer=Fixed()), bank="alice") as bank:
        bank.retain(CELLO)
        assert bank.reflect("What does Ana play?").text == "Ana plays."


def test_the_kill_switch_wins_over_a_completer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is off asks nobody."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    completer = ScriptedCompleter([])
    with open_bank(completer=completer) as bank, pytest.raises(UnavailableError):
        bank.reflect("What does Ana play?")
    assert completer.asked == []


# Reflecting


def test_a_reflection_is_the_statements_with_the_memories_they_cite(scripted: Scripted) -> None:
    """Uncited and forged statements are dropped; `based_on` are the cited memories, best first."""
    bank, completer = scripted([said(("Ana bows", [1]), ("Made up.", []), ("Forged.", [9]), ("She does!", [1]))])
    bank.retain([CELLO, HARP])
    best = bank.recall("What does Ana play?")[0]
    answer = bank.reflect("What does Ana play?", context="on Sundays")
    assert (answer.text, [memory.id for memory in answer.based_on], answer.structured) == ("Ana bows. She does!", [best.id], None)
    [asked] = completer.asked
    assert asked.max_tokens == 1024
    assert all(text in asked.prompt for text in (CELLO, HARP, "What does Ana play?", "on Sundays"))


def test_nothing_recalled_asks_nobody(scripted: Scripted) -> None:
    """There is nothing to reflect on."""
    bank, completer = scripted([])
    answer = bank.reflect("What does Ana play?", response_schema={"type": "object"})
    assert (answer.text, answer.based_on, answer.structured) == ("No relevant information found to reflect on.", (), None)
    assert completer.asked == []


def test_no_statement_that_holds_is_nothing_relevant(scripted: Scripted) -> None:
    """What cites nothing is not told."""
    bank, _ = scripted([said(("Made up.", []))])
    bank.retain(CELLO)
    answer = bank.reflect("What does Ana play?")
    assert (answer.text, answer.based_on) == ("No relevant information found to reflect on.", ())


def test_a_response_schema_gives_a_structured_answer(scripted: Scripted) -> None:
    """The completer gets the caller's schema; the answer is its JSON, drawn from all that was recalled."""
    schema = {"type": "object", "properties": {"plays": {"type": "string"}}}
    bank, completer = scripted([{"plays": "Céllo"}])
    [cello] = bank.retain(CELLO).stored
    answer = bank.reflect("What does Ana play?", response_schema=schema)
    assert (answer.structured, answer.text) == ({"plays": "Céllo"}, '{"plays": "Céllo"}')
    assert [memory.id for memory in answer.based_on] == [cello.id]
    assert completer.asked[0].schema == schema


@pytest.mark.parametrize("schema", [None, {"type": "object"}], ids=["statements", "schema"])
def test_a_completer_that_fails_fails_the_verb(scripted: Scripted, schema: Any) -> None:
    """`UnavailableError` where it raises, `GarbledError` where no second answer is an object either."""
    bank, completer = scripted([RuntimeError("down"), "[]", "no"])
    bank.retain(CELLO)
    with pytest.raises(UnavailableError, match="the completer failed"):
        bank.reflect("What does Ana play?", response_schema=schema)
    with pytest.raises(GarbledError, match="asked twice"):
        bank.reflect("What does Ana play?", response_schema=schema)
    assert len(completer.asked) == 3


def test_what_is_no_text_is_garbled(url: str) -> None:
    """A completer gives text."""
    with open_bank(url, completer=Mute()) as bank:
        bank.retain(CELLO)
        with pytest.raises(GarbledError, match="no text but NoneType"):
            bank.reflect("What does Ana play?")


def test_without_a_completer_a_schema_is_unsupported(bank: Bank) -> None:
    """Ranked memories follow no schema."""
    bank.retain(CELLO)
    with pytest.raises(UnsupportedError, match="response_schema"):
        bank.reflect("What does Ana play?", response_schema={"type": "object"})
    assert bank.reflect("What does Ana play?").text.startswith("Based on recalled memories:")


MOVES = [
    Item("I live in Berlin.", timestamp=datetime(2026, 1, 10, tzinfo=UTC)),
    Item("I moved to Lisbon.", timestamp=datetime(2026, 6, 1, tzinfo=UTC)),
]


def test_without_a_completer_what_held_before_comes_after_what_holds_now(bank: Bank) -> None:
    """Under a heading of its own."""
    bank.retain(MOVES)
    now, _, before = bank.reflect("Where do I live?").text.partition("What held before:")
    assert ("Lisbon" in now, "Berlin" in now, "Berlin" in before) == (True, False, True)


def test_a_completer_hears_what_was_replaced_and_what_to_do_where_memories_contradict(scripted: Scripted) -> None:
    """The number of what took its place stands with a memory; contradictions that dates don't settle are to be named."""
    bank, completer = scripted(lambda _prompt: said(("Ana lives in Lisbon.", [1])))
    bank.retain(MOVES)
    bank.reflect("Where do I live?")
    [asked] = [each for each in completer.asked if "Answer this question" in each.prompt]  # others are follow-up work's
    assert re.search(r"\(2026-01-10, replaced by \[\d\]\) I live in Berlin", asked.prompt)
    assert "say that they contradict each other" in asked.prompt


async def test_the_twins_reflect_and_refresh_with_the_completer(scripted: Scripted) -> None:
    """Blocking and awaitable forms share one body."""
    bank, _ = scripted(lambda prompt: said(("Ana plays.", [1])))
    await bank.aretain(CELLO)
    assert (await bank.areflect("What does Ana play?")).text == "Ana plays."
    await bank.mental_models.acreate("music", name="Music", source_query="What does Ana play?")
    assert (await bank.mental_models.arefresh("music")).content == "- Ana plays."


# Pickling


def test_a_bank_is_pickled_with_its_completer(url: str) -> None:
    """The copy reflects as the bank does."""
    with open_bank(url, bank="alice", completer=Fixed()) as bank:
        bank.retain(CELLO)
        with pickle.loads(pickle.dumps(bank)) as copy:  # noqa: S301 - our own bytes
            assert copy.reflect("What does Ana play?").text == "Ana plays."


def test_a_completer_that_cannot_be_pickled_is_named(url: str) -> None:
    """The error says what to do instead."""
    with (
        open_bank(url, completer=ScriptedCompleter(lambda prompt: "")) as bank,
        pytest.raises(UsageError, match="ScriptedCompleter"),
    ):
        pickle.dumps(bank)


# The scripted completer


def test_a_script_is_a_list_or_a_function() -> None:
    """Text as it is, mappings as JSON, exceptions raised; what was asked is kept."""
    completer = ScriptedCompleter(["one", {"two": "é"}, KeyError("three")])
    assert (completer.complete("a", max_tokens=1), completer.complete("b", schema={}, max_tokens=2)) == ("one", '{"two": "é"}')
    with pytest.raises(KeyError):
        completer.complete("c", max_tokens=3)
    with pytest.raises(IndexError, match="3 answers"):
        completer.complete("d", max_tokens=4)
    assert completer.asked == [Asked("a", None, 1), Asked("b", {}, 2), Asked("c", None, 3), Asked("d", None, 4)]
    assert ScriptedCompleter(str.upper).complete("hello", max_tokens=5) == "HELLO"
