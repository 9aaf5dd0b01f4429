"""Recall by meaning: the whole bank, nothing but the bank, nothing off the topic, and by words when the embedder fails."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lorebank import Bank, RankingWeights, open_bank
from lorebank.seams import OutageEnded, OutageStarted

Look = Callable[[str], list[Any]]
Opened = Callable[..., Bank]
Toy = Callable[..., Any]
CAT = "A cat sleeps."
SAID = {"kitten physician": "Cat, doctor.", "automobile baby": "Car, infant.", "feline automobile": "Cat, car."}
NOTES = [f"note{n} tells of matter{n} and thing{n}" for n in range(300)]


def texts(bank: Bank, query: str, **options: Any) -> list[str]:
    return [memory.text for memory in bank.recall(query, **options)]


def test_what_shares_no_word_is_found_by_its_meaning(opened: Opened, toy: Toy) -> None:
    """The oldest of many memories too; nothing else comes with it."""
    bank = opened(toy())
    bank.retain([CAT, *NOTES])
    bank.flush()
    assert texts(bank, "kitten") == [CAT]
    assert texts(bank, "feline sleeps")[0] == CAT


MANY = [f"note{n} tells of matter{n}" for n in range(3_000)]


def test_the_oldest_of_thousands_is_found_by_its_meaning(opened: Opened, toy: Toy) -> None:
    """The whole bank is compared, not what is newest."""
    bank = opened(toy("toy-256", 256))
    bank.retain([CAT, *MANY])
    assert bank.flush(timeout=30).done
    assert texts(bank, "kitten") == [CAT]


def test_an_embedder_to_which_everything_is_alike_is_understood(opened: Opened, toy: Toy) -> None:
    """Where the cosines of unrelated texts are near 0.9, what is near stands out all the same, and nothing else does."""
    embedder = toy("lopsided-256", 256)
    own = embedder._vector
    embedder._vector = lambda text: own(text) + 3.5 * len(text.split()) ** 0.5
    vectors = np.array(embedder.embed([*SAID.values(), *MANY[:50], "unheard unseen"], kind="query"))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (vectors[:-1] @ vectors[-1]).min() > 0.8
    bank = opened(embedder)
    bank.retain([*MANY[:1_500], *SAID.values(), *MANY[1_500:]])
    assert bank.flush(timeout=30).done
    assert {query: texts(bank, query)[:1] for query in SAID} == {query: [text] for query, text in SAID.items()}
    assert [query for n in range(20) if texts(bank, query := f"unheard{n} unseen{n}")] == []


def test_a_query_is_embedded_as_one(opened: Opened, toy: Toy) -> None:
    """And no memory as a query: models that tell the two apart are told."""
    bank = opened(embedder := toy())
    bank.retain(CAT)
    bank.flush()
    assert texts(bank, "kitten sleeps") == [CAT]
    assert (embedder.asked["query"], CAT in embedder.asked["passage"]) == (["kitten sleeps"], True)
    assert "kitten sleeps" not in embedder.asked["passage"]


def test_without_an_embedder_it_is_not_found(bank: Bank) -> None:
    """The other test's memories and question, by words alone."""
    bank.retain([CAT, *NOTES])
    assert texts(bank, "kitten") == []


def test_a_question_about_nothing_here_finds_nothing(opened: Opened, toy: Toy) -> None:
    """However near the nearest memory is by chance."""
    bank = opened(toy())
    bank.retain([CAT, *NOTES])
    bank.flush()
    assert [query for n in range(50) if texts(bank, query := f"unheard{n} unseen{n}")] == []


def test_the_only_memory_of_a_bank_is_not_near_by_being_alone(opened: Opened, toy: Toy) -> None:
    """It is compared with common sentences."""
    bank = opened(toy())
    bank.retain(CAT)
    bank.flush()
    assert texts(bank, "kitten sleeps") == [CAT]
    assert texts(bank, "unheard unseen") == []


def test_meaning_orders_what_words_can_not(opened: Opened, toy: Toy) -> None:
    """Between two memories that match in one word alike, the one of the other word's meaning comes first."""
    bank = opened(toy(), mnemopi={"ranking": RankingWeights(recency=0)})
    bank.retain(["The doctor comes on Monday.", "The plumber comes on Monday."])
    bank.flush()
    assert texts(bank, "physician on Monday")[0] == "The doctor comes on Monday."


def test_explain_shows_the_signal(opened: Opened, toy: Toy) -> None:
    """What meaning added stands beside the other signals."""
    bank = opened(toy())
    bank.retain([CAT, *NOTES])
    bank.flush()
    memory = bank.recall("kitten sleeps", explain=True)[0]
    assert memory.signals is not None
    assert memory.signals["meaning"] > 0
    assert sum(memory.signals.values()) == pytest.approx(memory.score)


def test_filters_hold_for_what_is_found_by_meaning(opened: Opened, toy: Toy) -> None:
    """Tags, and what was invalidated."""
    bank = opened(toy())
    bank.retain(NOTES)
    known = bank.retain(CAT, tags=["pets"]).stored[0].id
    bank.flush()
    assert texts(bank, "kitten", tags=["pets"]) == [CAT]
    assert texts(bank, "kitten", tags=["cars"]) == []
    assert texts(bank, "kitten", types=["experience"]) == []
    bank.invalidate(known)
    assert texts(bank, "kitten") == []


def test_banks_are_apart(opened: Opened, toy: Toy) -> None:
    """Neither the memories nor what is usual in another bank reaches this one."""
    alice = opened(toy())
    bob = alice.named("bob")
    alice.retain([CAT, *NOTES[:80]])
    bob.retain(NOTES[80:200])
    alice.flush()
    before = alice.recall("kitten", explain=True)
    assert texts(bob, "kitten") == []
    bob.retain([f"A kitten named {n} sleeps." for n in range(100)])
    alice.flush()
    assert [each.score for each in alice.recall("kitten", explain=True)] == [each.score for each in before]
    assert all("kitten" in text for text in texts(bob, "feline"))


# Freshness


def test_what_was_forgotten_does_not_come_back(opened: Opened, toy: Toy, url: str) -> None:
    """Forgotten here or through another connection, changed, cleared: recall follows at once."""
    bank = opened(toy())
    other = open_bank(url, bank="alice", embedder=toy())
    ids = [bank.retain(text).stored[0].id for text in (CAT, "A kitten eats.", "One feline plays.")]
    bank.retain(NOTES)
    bank.flush()
    assert set(texts(bank, "feline kitten")[:3]) == {CAT, "A kitten eats.", "One feline plays."}
    bank.forget(ids[0])
    assert CAT not in texts(bank, "feline kitten")
    other.forget(ids[1])
    assert texts(bank, "cat") == ["One feline plays."]
    other.update(ids[2], content="One dog plays.")
    other.flush()
    assert texts(bank, "cat") == []
    assert texts(other, "cat") == []
    bank.retain(CAT)
    bank.flush()
    assert texts(other, "kitten") == [CAT]
    other.clear(confirm="alice")
    assert texts(bank, "kitten") == []
    other.close()


def test_what_another_connection_writes_is_found(opened: Opened, toy: Toy, url: str) -> None:
    """Whoever makes the vectors."""
    bank = opened(toy())
    bank.retain(NOTES)
    bank.flush()
    assert texts(bank, "kitten") == []
    with open_bank(url, bank="alice", embedder=toy()) as other:
        other.retain(CAT)
        other.flush()
    assert texts(bank, "kitten") == [CAT]


def test_what_another_process_writes_without_an_embedder_is_embedded(opened: Opened, toy: Toy, url: str) -> None:
    """A recall that sees memories without vectors has them made."""
    bank = opened(toy())
    bank.retain(NOTES)
    bank.flush()
    with open_bank(url, bank="alice") as plain:
        plain.retain(CAT)
    until = time.monotonic() + 20
    while texts(bank, "kitten") != [CAT]:
        assert time.monotonic() < until
        threading.Event().wait(0.05)


def test_another_file_under_the_name_is_another_bank(toy: Toy, url: str, file: Any) -> None:
    """What is remembered of a file goes with it."""
    with open_bank(url, bank="alice", embedder=toy()) as bank:
        bank.retain([CAT, *NOTES])
        bank.flush()
        assert texts(bank, "kitten") == [CAT]
        for part in file.parent.glob("memory.db*"):
            part.unlink()
        bank.retain(["One dog plays.", *NOTES])
        bank.flush()
        assert texts(bank, "kitten") == []
        assert texts(bank, "dog")[0] == "One dog plays."


def test_threads_that_write_forget_and_recall_agree(opened: Opened, toy: Toy) -> None:
    """No recall fails, and none gives what was forgotten before it began."""
    bank = opened(toy())
    bank.retain(NOTES)
    failed: list[str] = []

    def live(name: str) -> None:
        for n in range(15):
            known = bank.retain(f"kitten {name}{n} sleeps").stored[0].id
            if n % 3 == 0:
                bank.flush(timeout=30)
            bank.forget(known)
            if any(f"{name}{n}" in text for text in texts(bank, f"feline {name}{n}")):
                failed.append(f"{name}{n}")

    threads = [threading.Thread(target=live, args=(name,)) for name in ("a", "b", "c")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    assert bank.check().problems == ()


# Switching


def test_another_embedder_builds_beside(opened: Opened, toy: Toy, look: Look) -> None:
    """Both models' vectors are kept; each finds by its own, and by words where it has none yet."""
    first = opened(toy())
    first.retain([CAT, *NOTES])
    first.flush()
    slow = toy("other", 48)
    slow.gate.clear()
    second = opened(slow)
    assert texts(second, "cat") == [CAT]
    assert texts(second, "kitten") == []
    slow.gate.set()
    second.flush()
    assert texts(second, "kitten") == texts(first, "kitten") == [CAT]
    assert look("SELECT count(*), count(DISTINCT model) FROM vectors") == [(602, 2)]


# Troubles of the query


def test_a_query_whose_embedder_raises_goes_on_by_words(opened: Opened, toy: Toy, told: Any) -> None:
    """It is told once, and the end of it, too."""
    bank = opened(embedder := toy())
    bank.retain([CAT, *NOTES])
    bank.flush()
    embedder.error = RuntimeError("gone")
    assert texts(bank, "cat") == [CAT]
    assert texts(bank, "cat") == [CAT]
    started = told.wait_for(OutageStarted)
    assert (started.part, started.bank, started.reason) == ("query", "alice", "RuntimeError: gone")
    assert len(told.events) == 1
    embedder.error = None
    until = time.monotonic() + 20
    while texts(bank, "kitten") != [CAT]:
        assert time.monotonic() < until
        threading.Event().wait(0.05)
    assert told.wait_for(OutageEnded).part == "query"


def test_a_query_whose_embedder_hangs_goes_on_by_words(opened: Opened, toy: Toy, told: Any) -> None:
    """After `query_timeout`, and at once as long as the trouble is fresh."""
    bank = opened(embedder := toy(), mnemopi={"query_timeout": 0.1})
    bank.retain([CAT, *NOTES])
    bank.flush()
    hung = threading.Event()
    embedder.embed = lambda texts, *, kind: hung.wait(30) and []
    started = time.monotonic()
    assert texts(bank, "cat") == [CAT]
    assert 0.1 <= time.monotonic() - started < 5
    assert "0.1 s" in told.wait_for(OutageStarted).reason
    started = time.monotonic()
    assert texts(bank, "cat") == [CAT]
    assert time.monotonic() - started < 0.1
    hung.set()


def test_a_query_without_meaning_goes_on_by_words(opened: Opened, toy: Toy) -> None:
    """A vector of zeros is near nothing."""
    bank = opened(embedder := toy())
    bank.retain([CAT, *NOTES])
    bank.flush()
    embedder._vector = lambda text: toy()._vector("")
    assert texts(bank, "cat") == [CAT]


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="the extra `embeddings` is not installed")
def test_wordllama_finds_other_words(opened: Opened) -> None:
    """The built-in embedder, whole: other words of the same meaning, and nothing off the topic."""
    bank = opened("wordllama")
    bank.retain([f"On day {n} we met in room {n * 7} and talked about chapter {n * 3}." for n in range(100)])
    bank.retain(["I'm allergic to peanuts.", "He works as a physician at the hospital.", "The invoice was paid twice."])
    bank.flush()
    assert texts(bank, "which nuts can't I have?") == ["I'm allergic to peanuts."]
    assert texts(bank, "what does the doctor do?") == ["He works as a physician at the hospital."]
    assert texts(bank, "Fourier transform of a Gaussian") == []
