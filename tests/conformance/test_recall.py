"""`recall`, `explain` and `reflect`: what is found, within which bounds, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank

Caller = Callable[..., Any]
Opener = Callable[..., Bank]
Told = Callable[..., list[str]]
Settled = Callable[[Bank], None]
Refused = Callable[..., Any]
FACTS = ("world", "experience")


def texts(result: Any) -> list[str]:
    return [memory.text for memory in result]


def test_the_best_answer_comes_first(bank: Bank, call: Caller, told: Told) -> None:
    """Scores fall from the first to the last memory of a result."""
    told(bank, ["Ana prefers aisle seats on long flights.", "Ana plays the cello.", "Long flights tire Ben."])
    result = call(bank, "recall", "Which seats does Ana prefer on long flights?")
    assert (result.state, result[0].text) == ("found", "Ana prefers aisle seats on long flights.")
    scores = [memory.score for memory in result]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)


def test_an_irrelevant_query_finds_nothing(bank: Bank, call: Caller, told: Told) -> None:
    """Memory that knows nothing of it says `nothing`, and is falsy."""
    told(bank, "Ana prefers aisle seats.")
    result = call(bank, "recall", "quantum chromodynamics lattice")
    assert (result.state, result.memories, bool(result), len(result)) == ("nothing", (), False, 0)


def test_an_empty_bank_finds_nothing(bank: Bank, call: Caller) -> None:
    """Reading a bank that was never written to is no error."""
    assert call(bank, "recall", "anything at all").state == "nothing"
    assert call(bank, "list") == ()


def test_limit_bounds_the_number_of_memories(bank: Bank, call: Caller, told: Told) -> None:
    """At most `limit` memories come back; the setting counts where the call says nothing."""
    told(bank, [f"Ana owns cello number {n}." for n in range(12)])
    assert len(call(bank, "recall", "Ana's cello", limit=3)) == 3
    assert len(call(bank, "recall", "Ana's cello", limit=1)) == 1
    assert len(call(bank, "recall", "Ana's cello")) == 8


@pytest.mark.backends("mnemopi")
def test_max_tokens_bounds_the_text(bank: Bank, call: Caller, told: Told) -> None:
    """Memories come whole as long as they fit together: here two of 9 tokens each in 18."""
    told(bank, [f"Ana owns the red cello number {n}0." for n in range(5)])
    result = call(bank, "recall", "Ana's red cello", max_tokens=18)
    assert [(len(memory.text), memory.truncated) for memory in result] == [(33, False), (33, False)]


@pytest.mark.backends("mnemopi")
def test_where_not_even_the_best_fits_its_beginning_does(bank: Bank, call: Caller, told: Told) -> None:
    """An excerpt is marked as such, ends in an ellipsis and keeps to the bound; `get` has the whole text."""
    text = "The cello of Ana " + "is made of old spruce and maple wood " * 20
    told(bank, text)
    (memory,) = call(bank, "recall", "Ana's cello", max_tokens=10)
    assert (memory.truncated, memory.text) == (True, "The cello of Ana is made of old spruce…")
    assert call(bank, "get", memory.id).text == text


@pytest.mark.backends("hindsight")
def test_a_server_s_memories_come_whole_within_both_counts(bank: Bank, call: Caller, told: Told) -> None:
    """`max_tokens` holds by the server's count and by lorebank's (9 tokens each here); what does not fit is left out."""
    told(bank, [f"Ana owns the red cello number {n}0." for n in range(5)])
    for bound, most in ((1, 0), (18, 2), (36, 4), (1000, 5)):
        result = call(bank, "recall", "Ana's red cello", max_tokens=bound)
        assert {(len(memory.text), memory.truncated) for memory in result} <= {(33, False)}
        assert (most + 1) // 2 <= len(result) <= most


def test_a_token_counter_of_the_users_own_is_used(opened: Opener, call: Caller, told: Told) -> None:
    """`count_tokens` decides what a token is."""
    bank = opened(bank="alice", recall={"count_tokens": lambda text: 10 * len(text.split())})
    told(bank, ["Ana owns one cello.", "Ana sold one cello.", "Ana lost one cello."])
    assert len(call(bank, "recall", "Ana's cello", max_tokens=80)) == 2


@pytest.mark.backends("mnemopi")
def test_types_narrow_the_result(bank: Bank, call: Caller, told: Told) -> None:
    """Only the named types are read; observations only when they are named."""
    kinds = ["world", "experience", "observation"]
    told(bank, [{"content": f"The cello {kind}.", "type": kind} for kind in kinds])
    assert {m.type for m in call(bank, "recall", "cello", types=["experience"])} == {"experience"}
    assert {m.type for m in call(bank, "recall", "cello")} == {"world", "experience"}
    assert {m.type for m in call(bank, "recall", "cello", types=("observation",))} == {"observation"}
    assert {m.type for m in call(bank, "list", types=["fact"])} == {"world"}


@pytest.mark.backends("hindsight")
def test_a_server_s_own_types_narrow_the_result(bank: Bank, call: Caller, settled: Settled) -> None:
    """A server tells types from the text, and concludes observations by itself; those only come when they are named."""
    call(bank, "retain", ["Ana plays the cello.", "Assistant: I tuned the cello."])
    settled(bank)
    assert {m.type for m in call(bank, "recall", "cello", types=["experience"])} == {"experience"}
    assert {m.type for m in call(bank, "recall", "cello", types=["fact"])} == {"world"}
    until = time.monotonic() + 60
    while not (found := call(bank, "recall", "cello", types=("observation",))) and time.monotonic() < until:
        pass
    assert {m.type for m in found} == {"observation"}
    assert {m.type for m in call(bank, "recall", "cello")} == {"world", "experience"}
    assert {m.type for m in call(bank, "list", types=["fact"])} == {"world"}


MATCHES = {
    "any_strict": ["a", "ab", "b"],
    "any": ["a", "ab", "b", "none"],
    "all_strict": ["ab"],
    "all": ["ab", "none"],
    "exact": ["ab"],
}


def test_tags_match_as_asked(bank: Bank, call: Caller, told: Told) -> None:
    """The five ways to match tags, in recall and in list."""
    tagged = {"a": ["a"], "b": ["b"], "ab": ["a", "b"], "c": ["c"], "none": []}
    told(bank, [{"content": f"cello {name}case", "tags": tags} for name, tags in tagged.items()])
    for match, expected in MATCHES.items():
        wanted = (match, sorted(f"cello {name}case" for name in expected))
        assert (match, sorted(texts(call(bank, "recall", "cello", tags=["a", "b"], tags_match=match)))) == wanted
        assert (match, sorted(texts(call(bank, "list", types=FACTS, tags=["a", "b"], tags_match=match)))) == wanted


def test_tag_groups_combine_and_or_not(bank: Bank, call: Caller, told: Told) -> None:
    """Groups are AND-ed with each other and with `tags`."""
    tagged = {"a": ["a"], "ab": ["a", "b"], "ac": ["a", "c"], "b": ["b"]}
    told(bank, [{"content": f"cello {name}case", "tags": tags} for name, tags in tagged.items()])
    groups = [{"or": [{"tags": ["b"]}, {"tags": ["c"]}]}, {"not": {"tags": ["c"]}}]
    assert texts(call(bank, "recall", "cello", tags=["a"], tag_groups=groups)) == ["cello abcase"]
    nested = [{"and": [{"tags": ["a"]}, {"tags": ["a"], "match": "exact"}]}]
    assert texts(call(bank, "recall", "cello", tag_groups=nested)) == ["cello acase"]


def test_a_time_phrase_is_read_from_the_querys_moment(bank: Bank, call: Caller, told: Told) -> None:
    """`query_timestamp` is the now of "yesterday"."""
    days = {"violin": datetime(2026, 3, 3, 12, tzinfo=UTC), "trumpet": datetime(2026, 3, 9, 12, tzinfo=UTC)}
    told(bank, [{"content": f"Ana practised the {what}.", "timestamp": when} for what, when in days.items()])
    asked = "What did Ana practise yesterday?"
    for day, what in ((4, "violin"), (10, "trumpet")):
        found = texts(call(bank, "recall", asked, query_timestamp=datetime(2026, 3, day, 12, tzinfo=UTC)))
        wanted = f"Ana practised the {what}."
        assert (found[0] == wanted) if bank.backend == "mnemopi" else (wanted in found)  # a server ranks as it likes


def test_invalidated_memories_are_not_recalled(bank: Bank, call: Caller, told: Told) -> None:
    """What is no longer true is kept, but never recalled."""
    [old] = told(bank, "Ana lives in Oslo.")
    call(bank, "invalidate", old)
    assert call(bank, "recall", "Where does Ana live?").state == "nothing"


def test_the_same_text_is_shown_once(bank: Bank, call: Caller, told: Told) -> None:
    """Two memories with one text (here of two sessions) give one line."""
    told(bank, [{"content": "Ana plays the cello.", "session": each, "document_id": f"of-{each}"} for each in ("s1", "s2")])
    assert texts(call(bank, "recall", "Ana's cello")) == ["Ana plays the cello."]


@pytest.mark.backends("mnemopi")
def test_explain_tells_how_the_result_came_about(bank: Bank, call: Caller, told: Told) -> None:
    """`explain` is a recall with a trace and each memory's signals; a plain recall has neither."""
    told(bank, "Ana plays the cello.")
    plain, explained = call(bank, "recall", "Ana's cello"), call(bank, "explain", "Ana's cello")
    assert (plain.trace, plain[0].signals) == (None, None)
    assert set(explained.trace.terms) == {"ana", "cello"}
    assert (explained.trace.pool, explained.trace.dropped, bool(explained[0].signals)) == (1, (), True)
    assert texts(plain) == texts(explained)


@pytest.mark.backends("hindsight")
def test_explain_tells_what_a_server_says_of_its_search(bank: Bank, call: Caller, told: Told) -> None:
    """The server's scores by arm, how many it gave, and what the bounds here left out; a plain recall has none of it."""
    told(bank, ["Ana plays the cello well.", "Ana plays the cello daily."])
    plain, explained = call(bank, "recall", "Ana's cello"), call(bank, "explain", "Ana's cello")
    assert (plain.trace, plain[0].signals, explained.trace.terms) == (None, None, {})
    assert (explained.trace.pool, explained.trace.dropped, bool(explained[0].signals)) == (2, (), True)
    assert texts(plain) == texts(explained)
    cut = call(bank, "recall", "Ana's cello", limit=1, explain=True)
    assert cut.trace.dropped == (explained[1].id,)


@pytest.mark.backends("mnemopi")
def test_explain_names_what_the_token_bound_left_out(bank: Bank, call: Caller, told: Told) -> None:
    """The trace lists the ids that did not fit."""
    stored = told(bank, ["Ana plays the cello well.", "Ana plays the cello daily."])
    result = call(bank, "recall", "Ana's cello", max_tokens=7, explain=True)
    assert {result[0].id, *result.trace.dropped} == set(stored)
    assert len(result.trace.dropped) == 1


def test_min_score_keeps_only_what_reaches_it(bank: Bank, call: Caller, told: Told) -> None:
    """A bound at the best score keeps the best alone; above it, nothing. (A server's scores fade as time goes by.)"""
    told(bank, ["Ana plays the cello in Oslo.", "Ana sleeps."])
    best = call(bank, "recall", "Who plays the cello in Oslo?")[0]
    assert texts(call(bank, "recall", "Who plays the cello in Oslo?", min_score=best.score * 0.995)) == [best.text]
    assert call(bank, "recall", "Who plays the cello in Oslo?", min_score=best.score + 1).state == "nothing"


def test_reflect_answers_from_memories(bank: Bank, call: Caller, told: Told) -> None:
    """An answer names what it is based on."""
    told(bank, "Ana prefers aisle seats.")
    answer = call(bank, "reflect", "Which seat for Ana?", context="window or aisle")
    assert "Ana prefers aisle seats." in [memory.text for memory in answer.based_on]
    assert "Ana prefers aisle seats." in answer.text


def test_reflect_on_nothing_says_so(bank: Bank, call: Caller) -> None:
    """No memory gives a sentence that says it, based on nothing; on a server the sentence is its model's."""
    answer = call(bank, "reflect", "Which seat for Ana?")
    said = {"mnemopi": "No relevant information found to reflect on.", "hindsight": "Nothing is recorded about that."}
    assert (answer.text, answer.based_on) == (said[bank.backend], ())


BAD_FILTERS: list[dict[str, Any]] = [
    {"tags": []},
    {"tags": "abc"},
    {"tags": ["a"], "tags_match": "some"},
    {"tag_groups": {"tags": ["a"]}},
    {"tag_groups": [{"xor": []}]},
    {"tag_groups": [{"tags": ["a"], "resolve": "prefix"}]},
    {"budget": "huge"},
]
BAD_BOUNDS: list[dict[str, Any]] = [
    {"limit": 0},
    {"limit": -1},
    {"limit": True},
    {"limit": 1.5},
    {"limit": "8"},
    {"max_tokens": 0},
    {"max_tokens": "many"},
    {"types": ()},
    {"types": "world"},
    {"types": ["dream"]},
    {"query_timestamp": "now"},
    {"min_score": float("nan")},
    {"min_score": "best"},
]


@pytest.mark.parametrize("options", [*BAD_FILTERS, *BAD_BOUNDS], ids=lambda options: repr(options)[:40])
def test_a_bad_option_of_recall_is_refused(near: Bank, call: Caller, refused: Refused, options: dict[str, Any]) -> None:
    """A wrong option is a `UsageError`, never a wrong answer."""
    with refused():
        call(near, "recall", "cello", **options)


@pytest.mark.parametrize("options", BAD_FILTERS, ids=lambda options: repr(options)[:40])
def test_a_bad_option_of_reflect_is_refused(near: Bank, call: Caller, refused: Refused, options: dict[str, Any]) -> None:
    """`reflect` checks its filters as `recall` does."""
    with refused():
        call(near, "reflect", "cello", **options)


@pytest.mark.parametrize("query", ["", "  ", None, 5, "\ud800", "a" * 65_537], ids=lambda query: repr(query)[:20])
@pytest.mark.parametrize("verb", ["recall", "explain", "reflect"])
def test_a_bad_query_is_refused(near: Bank, call: Caller, refused: Refused, verb: str, query: object) -> None:
    """A query must be text that says something."""
    with refused("query"):
        call(near, verb, query)
