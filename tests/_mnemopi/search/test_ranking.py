"""The order of what is found: one scale for all, who said it counts, and no setting is without effect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lorebank import Bank, Item, RankingWeights, open_bank
from lorebank._domain.memory import APPLICATION, EXTRACTION, TOOL, TRANSCRIPT, Writer

Toy = Callable[..., Any]
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SEAT = "Ana prefers the aisle seat on long flights."
CHATTER = [f"We spoke about shelf{n} and jar{n} in the morning." for n in range(60)]


def texts(bank: Bank, query: str, **options: Any) -> list[str]:
    return [memory.text for memory in bank.recall(query, **options)]


@pytest.mark.parametrize(
    ("more", "less"), [(APPLICATION, EXTRACTION), (TOOL, EXTRACTION), (APPLICATION, TRANSCRIPT), (EXTRACTION, TRANSCRIPT)]
)
def test_what_was_stated_comes_before_what_was_only_heard(bank: Bank, more: Writer, less: Writer) -> None:
    """Of two that match alike, what was told to memory on purpose is first, though the other is a year younger."""
    bank.write("The cello stands in hall one.", {"timestamp": NOON}, more)
    bank.write("The cello stands in hall two.", {"timestamp": NOON + timedelta(days=365)}, less)
    assert texts(bank, "Where does the cello stand?") == ["The cello stands in hall one.", "The cello stands in hall two."]


def test_importance_brings_in_nothing_and_erases_nothing(bank: Bank) -> None:
    """The most important and newest memory is not found where it does not match; the least important is where it does."""
    bank.retain(SEAT, importance=0.0, timestamp=NOON)
    bank.retain("The boiler was repaired.", importance=1.0, timestamp=NOON + timedelta(days=365))
    assert texts(bank, "Which seat does Ana prefer on flights?") == [SEAT]


def test_scores_of_all_banks_are_on_one_scale(url: str) -> None:
    """Whichever of two banks holds a memory, the list has the same order and the same scores."""
    told = [SEAT, "Ana took a long flight.", "Ana sold a seat.", *CHATTER]
    found = []
    for shared in (told[:1], told[1:2], told[2:], []):
        name = f"alice-{len(found)}"
        with open_bank(url, bank=name, shared=f"{name}-shared") as bank:
            bank.retain([Item(text, timestamp=NOON) for text in told if text not in shared])
            if shared and bank.shared is not None:
                bank.shared.retain([Item(text, timestamp=NOON) for text in shared])
            found.append([(m.text, m.score) for m in bank.recall("Which seat does Ana prefer on long flights?")])
    assert [text for text, _ in found[0]] == told[:3]
    assert found == [found[0]] * 4


@pytest.mark.parametrize("length", [5, 50, 500])
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_question_is_answered_in_a_prompt_of_any_length(bank: Bank, length: int, place: str) -> None:
    """The words that say nothing here, before or after it, cost it nothing."""
    bank.retain([SEAT, *CHATTER])
    asked = "Which seat does Ana prefer?"
    around = " ".join(f"padding{n}" for n in range(length - 5))
    prompt = f"{asked}\n{around}" if place == "first" else f"Prior context: {around}\n{asked}"
    assert texts(bank, prompt)[0] == SEAT


def test_last_week_is_not_whatever_came_since(bank: Bank) -> None:
    """A named time is an interval: what is newer than it has no more of it than what is older."""
    days = {"older": -20, "last week": -7, "this week": 0}
    bank.retain([Item(f"Ana practised the cello: {name}.", timestamp=NOON + timedelta(days=day)) for name, day in days.items()])
    found = bank.recall("What did Ana practise last week?", query_timestamp=NOON, explain=True)
    assert found[0].text == "Ana practised the cello: last week."
    assert [bool(memory.signals and memory.signals.get("period")) for memory in found] == [True, False, False]


QUESTIONS = (
    "When did Ana move to Berlin in March?",
    "Where does Ana live?",
    "kitten sleeps",
    "Which book does Ana like?",
    "How many books?",
)


def signals_of(bank: Bank) -> set[str]:
    """All that adds anything to any answer."""
    return {name for query in QUESTIONS for memory in bank.explain(query) for name in memory.signals or ()}


def test_no_weight_is_without_effect(url: str, toy: Toy) -> None:
    """Each has its part in some score, and none once it is 0."""
    chat = [("Ben", "When did you move to Berlin?"), ("Ana", "Yesterday I moved to Berlin."), ("Ben", "A cat sleeps.")]
    with open_bank(url, bank="alice", embedder=toy()) as bank:
        said = [Item(text, session="s", speaker=who, timestamp=NOON + timedelta(days=n)) for n, (who, text) in enumerate(chat)]
        bank.retain([*said, "Ana lives in Berlin.", 'Ana likes the book "Dune", one of ten books.', *CHATTER])
        assert bank.flush(timeout=30).done
        assert signals_of(bank) >= set(RankingWeights.model_fields)
    left = []
    for name in RankingWeights.model_fields:
        with open_bank(url, bank="alice", embedder=toy(), mnemopi={"ranking": RankingWeights(**{name: 0})}) as bank:
            left += [name] if name in signals_of(bank) else []
    assert left == []


ASKED_OF = [
    ("user", "What is the user's job?", "I bake bread for a living, that's my job."),
    ("human", "user allergies", "I'm allergic to walnuts."),
    ("Ana", "Which desk does Ana use?", "The desk by the window is mine."),
    ("user", "current job of the user", "I bake bread for a living, that's my job."),
    ("user", "aktueller job des Nutzers", "Mein Job ist Brot backen."),
]


@pytest.mark.parametrize(("speaker", "query", "told"), ASKED_OF)
def test_an_agent_asks_about_who_says_i(bank: Bank, speaker: str, query: str, told: str) -> None:
    """ "The user" and a speaker's name stand in no memory: they say whose memories are meant, and are no word to match."""
    bank.retain([Item(told, speaker=speaker), Item("That desk job sounds fun.", speaker="assistant"), *CHATTER])
    assert texts(bank, query)[0] == told
    assert texts(bank, query.replace("job", "height").replace("allergies", "height").replace("desk", "height")) == []


CHANGED = ("Our dog Rufus eats kibble, two cups a day.", "The vet put Rufus on raw food, no more kibble.")


@pytest.mark.parametrize(
    ("query", "first"),
    [("What food does Rufus get?", 1), ("diet of the user's dog Rufus", 1), ("What was Rufus fed on before?", 0)],
)
@pytest.mark.parametrize("speaker", ["user", "human"])
def test_what_a_user_says_later_holds(bank: Bank, speaker: str, query: str, first: int) -> None:
    """Two messages that share rare words are about the same: now the later one is asked for, before it the earlier one."""
    said = [Item(text, speaker=speaker, timestamp=NOON + timedelta(days=100 * n)) for n, text in enumerate(CHANGED)]
    bank.retain([*said, *CHATTER])
    assert texts(bank, query)[0] == CHANGED[first]


@pytest.mark.parametrize("query", ["Who is my doctor?", "Who was my doctor before Dr Anand?"])
def test_what_came_of_the_best_match_stands_beside_it(bank: Bank, query: str) -> None:
    """It is about the same by a word that no other memory holds, and has no word of the question."""
    told = ("My doctor is Gwendolyn Hollis.", "Hollis is closing the practice, so from May we see Dr Anand.")
    bank.retain([Item(text, speaker="user", timestamp=NOON + timedelta(days=100 * n)) for n, text in enumerate(told)])
    bank.retain([Item(text, speaker="user") for text in CHATTER])
    assert set(texts(bank, query)[:2]) == set(told)


def test_what_only_shares_a_rare_word_is_not_what_came_of_it(bank: Bank) -> None:
    """Nothing in it has changed."""
    bank.retain([Item("My doctor is Gwendolyn Hollis.", speaker="user", timestamp=NOON)])
    bank.retain([Item("A street by the name of Hollis.", speaker="user", timestamp=NOON + timedelta(days=9))])
    assert texts(bank, "Who is my doctor?") == ["My doctor is Gwendolyn Hollis."]


@pytest.mark.parametrize("query", ["When is the stand-up?", "When do we have the stand-up?", "Wann ist das Stand-up?"])
def test_when_something_is_was_told_last(bank: Bank, query: str) -> None:
    """A question for a time is one for the present, where it is not for what was."""
    told = ("The stand-up is at nine on most mornings.", "The stand-up has moved to ten.")
    bank.retain([Item(text, speaker="user", timestamp=NOON + timedelta(days=100 * n)) for n, text in enumerate(told)])
    bank.retain(CHATTER)
    assert texts(bank, query)[0] == told[1]


BEFORE = [
    ("What seat did I like before my knee operation?", "I like the aisle seat.", "With my new knee I like a window seat."),
    ("Wer war vor Frau Tran mein Zahnarzt?", "Mein Zahnarzt ist Herr Lund.", "Frau Tran ist mein Zahnarzt."),
]


@pytest.mark.parametrize(("query", "earlier", "later"), BEFORE)
def test_what_ended_something_is_not_what_was_before_it(bank: Bank, query: str, earlier: str, later: str) -> None:
    """The question names what came next: that is said in the later message, and the earlier one is asked for."""
    said = [Item(text, speaker="user", timestamp=NOON + timedelta(days=100 * n)) for n, text in enumerate((earlier, later))]
    bank.retain([*said, *CHATTER])
    assert texts(bank, query)[0] == earlier


def test_the_user_told_it_unless_the_assistant_is_asked(bank: Bank) -> None:
    """The same words of both: what somebody wants to know they have told, or they ask for what "you" said."""
    told = {"assistant": "The ferry to Kos leaves by nine.", "user": "The ferry to Kos leaves at nine."}
    bank.retain([Item(text, speaker=speaker, timestamp=NOON) for speaker, text in told.items()])
    assert texts(bank, "the ferry to Kos")[0] == told["user"]
    signals = bank.explain("When did you say leaves the ferry to Kos?").memories[0].signals or {}
    assert not signals.get("speaker")


def test_what_is_known_of_the_user_is_what_was_said_last(bank: Bank) -> None:
    """A query that names nothing in particular gets the newest memories."""
    bank.retain([Item(text, speaker="user", timestamp=NOON + timedelta(days=n)) for n, text in enumerate(("I sail.", "I knit."))])
    for query in ("What do you know about the user?", "user profile", "summary of the user", "Hintergrund des Nutzers"):
        assert texts(bank, query) == ["I knit.", "I sail."]
    bank.retain(Item("My profile has a picture of me.", speaker="user", timestamp=NOON))
    assert texts(bank, "user profile")[0] == "My profile has a picture of me."


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("Which novels does Ben know?", 'Ben knows novels, "The Long Ferry".', "Ben knows novels, dozens of them."),
        ("How many goats does Ben keep?", "Ben keeps forty goats.", "Ben keeps lovely goats."),
        ("the pottery class", "I took the pottery class.", "Someone took the pottery class."),
    ],
    ids=["a title", "a number", "one's own"],
)
def test_what_answers_goes_before_what_only_matches(bank: Bank, query: str, better: str, worse: str) -> None:
    """A title where works are asked for, a number for how many, and what somebody tells of themselves, before the same words
    without it.
    """
    bank.retain([Item(text, timestamp=NOON) for text in (better, worse, *CHATTER)])
    assert texts(bank, query)[:2] == [better, worse]


def test_the_messages_around_an_answer_help_it(bank: Bank) -> None:
    """Two messages to either side count, a third doesn't."""
    chat = ["The ferry leaves at nine.", "Ah.", "Tickets are red.", "Oh.", "Hm.", "Um.", "Tickets are blue.", "Er.", "Eh."]
    bank.retain([*(Item(text, session="s", timestamp=NOON) for text in chat), *CHATTER])
    found = {memory.text: memory.signals or {} for memory in bank.explain("ferry tickets")}
    assert found["Tickets are red."]["around"] > 0
    assert found["Tickets are blue."].get("around", 0) == 0


def test_asking_writes_nothing(bank: Bank, bytes_of: Callable[[], bytes]) -> None:
    """However often memory is read, no counter is kept: readers never wait for writers."""
    known = bank.retain([SEAT, *CHATTER]).stored[0].id
    before = bytes_of()
    for _ in range(3):
        assert texts(bank, "Which seat does Ana prefer?")[0] == SEAT
        assert (bank.get(str(known)).text, bool(bank.list()), bool(bank.reflect("Ana's seat").based_on)) == (SEAT, True, True)
    assert bytes_of() == before
