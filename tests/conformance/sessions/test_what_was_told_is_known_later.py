"""Sessions: what was told is known later; states and bytes; one recall a turn; the query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lorebank import Bank, Message, UnavailableError
from lorebank.seams import Event, OutageStarted

from .rig import AISLE, ASKED, FACT, TALK, WHICH, Caller, Kept, Opener, Settled, answer, asked, failing, looped, user


def test_what_one_session_was_told_another_recalls(bank: Bank, call: Caller, settled: Settled) -> None:
    """The main promise: told in session 3, known in session 12, with a `<memories>` block for the model."""
    with bank.session("three") as three:
        call(three, "before_turn", [user(AISLE)])
        receipt = call(three, "after_turn", [user(AISLE), answer("Noted, thank you!")])
        assert (receipt.new, receipt.reason) == (1, None)
    settled(bank)
    with bank.session("twelve") as twelve:
        injection = call(twelve, "before_turn", [user(WHICH)])
    assert injection.result.state == "found"
    assert AISLE in injection.memories
    assert injection.memories.startswith("<memories>\n")
    assert injection.memories.endswith("\n</memories>")
    assert injection.position == "in-user"


def test_what_the_model_sees_anyway_is_not_recalled(bank: Bank, call: Caller, settled: Settled) -> None:
    """Memories made from messages of the list that is handed over stay out; another session gets them."""
    history = [user(AISLE), answer("Noted, an aisle seat it is.")]
    with bank.session("one") as one, bank.session("two") as two:
        call(one, "before_turn", history[:1])
        call(one, "after_turn", history)
        one.retain_now()
        settled(bank)
        again = call(one, "before_turn", [*history, user(WHICH)])
        assert "aisle" not in again.memories
        assert "aisle" in call(two, "before_turn", [user(WHICH)]).memories


def test_a_compacted_history_gets_back_what_it_has_lost(bank: Bank, call: Caller, settled: Settled) -> None:
    """Once the message is no longer handed over, its memory is recalled in the very same session."""
    history = [user(AISLE), answer("Noted."), user("Let us talk about chess openings."), answer("The Sicilian is sharp.")]
    with bank.session("one") as one:
        call(one, "after_turn", history)
        one.retain_now()
        settled(bank)
        later = call(one, "before_turn", [*history[2:], user(WHICH)])
        assert AISLE in later.memories


def test_before_turn_alone_keeps_the_users_words(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Whatever happens to the run next, what the user said is there."""
    bank = near_opened()
    with bank.session("s") as session:
        call(session, "before_turn", [user(AISLE)])
    assert kept(bank) == [("user", AISLE)]


def test_a_message_is_kept_once_however_often_it_is_handed_over(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Before and after each of three turns the whole history is handed over; each message is kept once, in its order."""
    bank, history = near_opened(), list[Message]()
    with bank.session("s") as session:
        for number in range(3):
            history.append(user(f"Question number {number}?"))
            call(session, "before_turn", history)
            history.append(answer(f"Answer number {number}."))
            call(session, "after_turn", history)
    turns = [[("user", f"Question number {n}?"), ("assistant", f"Answer number {n}.")] for n in range(3)]
    assert kept(bank) == [line for turn in turns for line in turn]


def test_a_host_that_hands_over_only_what_is_new_keeps_all(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Deltas with run ids: the same words said in two runs are two messages, a run handed over again is none."""
    bank = near_opened(recall={"auto_recall": False})
    with bank.session("s") as session:
        for run in ("r1", "r2", "r2"):
            call(session, "before_turn", [user("Yes, please.")], history="delta", run_id=run)
            call(session, "after_turn", [user("Yes, please."), answer("Done it.")], history="delta", run_id=run)
    assert kept(bank) == [("user", "Yes, please."), ("assistant", "Done it.")] * 2


def test_nothing_known_is_told_from_found(near_opened: Opener, call: Caller) -> None:
    """An empty bank gives no block and the state `nothing`."""
    with near_opened().session("s") as session:
        injection = call(session, "before_turn", [user(WHICH)])
    assert (injection.result.state, injection.memories, injection.result.memories) == ("nothing", "", ())


def test_an_unavailable_memory_never_breaks_a_turn(near_store: Any, call: Caller) -> None:
    """The turn goes on with the state `unavailable`, and the words are kept."""
    events = list[Event]()
    with failing(near_store, on_event=events.append) as bank, bank.session("s") as session:
        injection = call(session, "before_turn", [user(WHICH)])
        assert (injection.result.state, injection.memories) == ("unavailable", "")
        assert call(session, "after_turn", [user(WHICH), answer("I can't say.")]).reason is None
        outages = [event for event in events if isinstance(event, OutageStarted) and event.part == "recall"]
        assert len(outages) == 1


def test_an_unavailable_memory_is_told_to_the_model_where_asked_for(near_store: Any, call: Caller) -> None:
    """`tell_model=True`: a block that says that memory could not be asked, never that nothing is known."""
    with failing(near_store, recall={"tell_model": True}) as bank, bank.session("s") as session:
        block = call(session, "before_turn", [user(WHICH)]).memories
    assert block.startswith("<memories>")
    assert "unavailable" in block


def test_an_application_that_wants_to_know_gets_the_error(near_store: Any, call: Caller) -> None:
    """`on_failure="raise"`: the turn raises, and the user's words are kept all the same."""
    with failing(near_store, on_failure="raise") as bank, bank.session("s") as session:
        with pytest.raises(UnavailableError):
            call(session, "before_turn", [user(WHICH)])
        assert call(session, "after_turn", [user(WHICH)]).new == 0


def test_the_same_turn_asked_for_again_has_the_same_bytes(near_opened: Opener, call: Caller, settled: Settled) -> None:
    """A tool loop sees one block and one prefix, byte for byte, though memory has learned more meanwhile."""
    bank = near_opened()
    call(bank, "retain", FACT)
    settled(bank)
    with bank.session("s", tools=("retain", "recall")) as session:
        first = call(session, "before_turn", [user(ASKED)])
        call(bank, "retain", "Ana prefers aisle seats on long flights to Porto, too.")
        settled(bank)
        second = call(session, "before_turn", [user(ASKED), *looped(2)])
    assert FACT in first.memories
    assert (second.memories, second.system_prefix) == (first.memories, first.system_prefix)


def test_an_unchanged_set_has_the_same_bytes_in_every_session(near_opened: Opener, call: Caller, settled: Settled) -> None:
    """No clock, no score, no id of the session is in a block or a prefix."""
    bank = near_opened(retain={"auto_retain": False})
    call(bank, "retain", FACT)
    settled(bank)
    given = []
    for name in ("one", "two"):
        with bank.session(name, tools=("recall",)) as session:
            given.append(call(session, "before_turn", [user(ASKED)]))
    assert given[0].memories == given[1].memories != ""
    assert given[0].system_prefix == given[1].system_prefix != ""


@pytest.mark.parametrize("history", ["full", "delta"])
def test_a_turn_asks_once_however_many_model_calls(
    near_opened: Opener, call: Caller, recalls: Callable[[], int], history: str
) -> None:
    """Four model calls of one run, each with what the tools have brought so far: one recall. The next turn asks again."""
    bank = near_opened()
    with bank.session("s") as session:
        for number in range(4):
            call(session, "before_turn", [user(ASKED), *looped(number)], history=history, run_id="r1")
        assert recalls() == 1
        call(session, "after_turn", [user(ASKED), *looped(3), answer("Nothing found.")], history=history, run_id="r1")
        before = [] if history == "delta" else [user(ASKED), *looped(3), answer("Nothing found.")]
        call(session, "before_turn", [*before, user("And on short ones?")], history=history, run_id="r2")
        assert recalls() == 2


def test_a_run_that_hands_over_piece_by_piece_asks_once(near_opened: Opener, call: Caller, recalls: Callable[[], int]) -> None:
    """A host of deltas may hand over a run's tool results without its user message: it is the same turn."""
    with near_opened().session("s") as session:
        call(session, "before_turn", [user(ASKED)], history="delta", run_id="r1")
        call(session, "before_turn", looped(1), history="delta", run_id="r1")
        call(session, "before_turn", looped(2)[2:], history="delta", run_id="r1")
    assert recalls() == 1


def test_the_same_words_in_the_next_turn_are_a_new_turn(near_opened: Opener, call: Caller, recalls: Callable[[], int]) -> None:
    """Who asks the same question twice gets two recalls."""
    history = [user(ASKED), answer("Aisle seats."), user(ASKED)]
    with near_opened().session("s") as session:
        call(session, "before_turn", history[:1])
        call(session, "after_turn", history[:2])
        call(session, "before_turn", history)
    assert recalls() == 2


@pytest.mark.parametrize(("when", "count"), [("every-turn", 3), ("first-turn", 1)])
def test_recall_may_be_kept_to_the_first_turn(
    near_opened: Opener, call: Caller, recalls: Callable[[], int], when: str, count: int
) -> None:
    """`first-turn` asks once in a session, and later turns are simply without a result."""
    bank, history = near_opened(recall={"recall_when": when}), list[Message]()
    with bank.session("s") as session:
        for number in range(3):
            history += [user(f"Question number {number}?")]
            injection = call(session, "before_turn", history)
            history += [answer(f"Answer number {number}.")]
            call(session, "after_turn", history)
    assert recalls() == count
    assert (injection.result is None) == (when == "first-turn")


def test_auto_recall_can_be_switched_off(near_opened: Opener, call: Caller, recalls: Callable[[], int], kept: Kept) -> None:
    """Nothing is asked, all is still kept."""
    bank = near_opened(recall={"auto_recall": False})
    with bank.session("s") as session:
        injection = call(session, "before_turn", [user(ASKED)])
        call(session, "after_turn", [user(ASKED), answer("Aisle seats.")])
    assert (recalls(), injection.memories, injection.result) == (0, "", None)
    assert kept(bank) == [("user", ASKED), ("assistant", "Aisle seats.")]


def test_auto_retain_can_be_switched_off(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Recall goes on, nothing is kept, and the receipt says why."""
    bank = near_opened(retain={"auto_retain": False})
    with bank.session("s") as session:
        assert call(session, "before_turn", [user(ASKED)]).result is not None
        receipt = call(session, "after_turn", [user(ASKED), answer("Aisle seats.")])
    assert receipt.reason is not None
    assert (receipt.new, receipt.passed, len(receipt.receipt)) == (1, 1, 0)
    assert kept(bank) == []


@pytest.mark.backends("hindsight")
def test_a_server_is_asked_with_the_newest_message_alone(near_opened: Opener, call: Caller) -> None:
    """`context_turns` is 1 on Hindsight: none before the newest."""
    with near_opened().session("s") as session:
        call(session, "before_turn", TALK)
        assert asked(session) == "Which do I prefer?"


@pytest.mark.backends("mnemopi")
def test_mnemopi_is_asked_with_three_turns(near_opened: Opener, call: Caller) -> None:
    """`context_turns` is 3 on Mnemopi: the newest text first and whole, then what was said before it."""
    with near_opened().session("s") as session:
        call(session, "before_turn", TALK)
        query = asked(session)
    assert query.startswith("Which do I prefer?")
    assert {"The cheapest.", "Yes, in the morning."} <= set(query.split("\n"))
    assert "Porto" not in query


def test_the_context_of_a_query_is_counted_in_user_turns(near_opened: Opener, call: Caller) -> None:
    """`context_turns` sets it on either backend."""
    users = ["Which do I prefer?", "The cheapest.", "Yes, in the morning.", "I fly to Porto on Monday."]
    for turns in (1, 2, 3, 4):
        with near_opened(recall={"context_turns": turns}).session(f"s{turns}") as session:
            call(session, "before_turn", TALK)
            lines = asked(session).split("\n")
        assert [text for text in users if text in lines] == users[:turns]


def test_a_host_of_deltas_has_its_context_too(near_opened: Opener, call: Caller) -> None:
    """What earlier runs have handed over counts as context."""
    with near_opened(recall={"context_turns": 2}).session("s") as session:
        call(session, "before_turn", TALK[:1], history="delta", run_id="r1")
        call(session, "after_turn", TALK[:2], history="delta", run_id="r1")
        call(session, "before_turn", TALK[2:3], history="delta", run_id="r2")
        lines = asked(session).split("\n")
    assert lines[0] == "Yes, in the morning."
    assert "I fly to Porto on Monday." in lines


def test_a_long_query_is_cut_and_keeps_the_newest_whole(near_opened: Opener, call: Caller) -> None:
    """Of the context only what fits, of the newest text everything that fits."""
    with near_opened(recall={"context_turns": 3, "max_query_chars": 60}).session("s") as session:
        call(session, "before_turn", [user("x" * 50), answer("A window?"), user("Which seat do I prefer on short flights?")])
        query = asked(session)
        assert query.startswith("Which seat do I prefer on short flights?")
        assert len(query) <= 60
        assert "x" * 50 not in query


def test_a_query_has_the_backends_own_bound(near_opened: Opener, call: Caller) -> None:
    """800 characters on Hindsight, 4,000 on Mnemopi."""
    bank = near_opened()
    with bank.session("s") as session:
        call(session, "before_turn", [user("seat " * 2_000)])
        length = len(asked(session))
    assert length == {"hindsight": 800, "mnemopi": 4_000}[bank.backend]


def test_our_own_blocks_and_messages_are_no_part_of_a_query(near_opened: Opener, call: Caller) -> None:
    """A host that stores the injected text asks with the user's words alone."""
    block = "<memories>\n- Ana plays the harp.\n</memories>"
    messages = [user("<mental_models>\n# harp\n</mental_models>", injected=True), user(f"{block}\n\nWhich seat?")]
    with near_opened(recall={"context_turns": 3}).session("s") as session:
        call(session, "before_turn", messages)
        assert asked(session) == "Which seat?"


def test_words_that_say_nothing_ask_nothing(near_opened: Opener, call: Caller, recalls: Callable[[], int], kept: Kept) -> None:
    """Where there is nothing to ask, nothing is asked, and nothing is kept."""
    bank, history = near_opened(), list[Message]()
    with bank.session("s") as session:
        for text in ("", "   ", "?!", "👍", "<memories>\n- Ana plays the harp.\n</memories>"):
            history.append(user(text))
            assert call(session, "before_turn", history).memories == ""
    assert recalls() == 0
    assert kept(bank) == []


def test_calls_without_messages_are_harmless(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """An empty history asks and keeps nothing."""
    bank = near_opened()
    with bank.session("s") as session:
        assert call(session, "before_turn", []).memories == ""
        assert call(session, "after_turn", []).new == 0
    assert kept(bank) == []
