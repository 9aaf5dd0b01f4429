"""Sessions: never fed back; secrets, and the user's own gate; what hosts hand over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, Item, Message
from lorebank.seams import TOOLBOOK, Event, Keep, Redacted, Retained, ToolCall

from .rig import AISLE, ASKED, BAD, FACT, SECRET, Caller, Kept, Opener, Refused, Settled, answer, gate, user


def test_what_we_put_in_never_comes_back(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Injected messages, system messages and blocks inside the user's text are not kept; the user's words around them are."""
    bank = near_opened()
    messages = [
        Message("system", "You are helpful. <mental_models>\n# x\n</mental_models>"),
        user("<memories>\n- Ana plays the harp.\n</memories>", injected=True),
        user("Before. <Memories foo='1'>\n- Ana plays the harp.\n</MEMORIES> After."),
        answer("Sure."),
    ]
    with bank.session("s") as session:
        call(session, "before_turn", messages[:3])
        call(session, "after_turn", messages)
    assert kept(bank) == [("user", "Before.  After."), ("assistant", "Sure.")]


def test_the_output_of_our_own_tools_never_comes_back(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Not even where all tool results are kept, failed ones too, and not as the call of the tool."""
    bank = near_opened(retain={"keep": Keep(tool_results="all")})
    calls = tuple(ToolCall(tool, {"query": "harp"}) for tool in TOOLBOOK)
    messages = [user("What do I play?"), answer("Let me look.", tool_calls=(*calls, ToolCall("search", {"q": "cello"})))]
    for tool in TOOLBOOK:
        messages.append(Message("tool", "Found 1 relevant memory: Ana plays the harp.", name=tool))
        messages.append(Message("tool", "the harp is unavailable", name=tool, failed=True))
    messages += [Message("tool", "cello found", name="search"), answer("You play it.")]
    with bank.session("s") as session:
        call(session, "after_turn", messages)
    assert [text for _, text in kept(bank)] == [
        "What do I play?",
        'Let me look.\nsearch("q": "cello")',
        "search: cello found",
        "You play it.",
    ]


@pytest.mark.parametrize("history", ["full", "delta"])
def test_an_answer_made_of_memories_is_counted_and_not_kept(
    near_opened: Opener, call: Caller, settled: Settled, kept: Kept, history: str
) -> None:
    """The guard takes the echo, the cursor passes it, and the receipt counts it."""
    bank = near_opened()
    call(bank, "retain", FACT)
    settled(bank)
    with bank.session("s") as session:
        call(session, "before_turn", [user(ASKED)], history=history, run_id="r")
        receipt = call(session, "after_turn", [user(ASKED), answer(FACT)], history=history, run_id="r")
        assert (receipt.new, receipt.passed, receipt.echoes) == (1, 1, 1)
        again = call(session, "after_turn", [user(ASKED), answer(FACT)], history=history, run_id="r")
        assert (again.new, again.echoes) == (0, 0)
    assert kept(bank) == [("user", ASKED)]


def test_an_echo_handed_over_alone_is_one(near_opened: Opener, call: Caller, settled: Settled, kept: Kept) -> None:
    """A host of deltas may hand over the answer without the question it has handed over before."""
    bank = near_opened()
    call(bank, "retain", FACT)
    settled(bank)
    with bank.session("s") as session:
        call(session, "before_turn", [user(ASKED)], history="delta", run_id="r")
        assert call(session, "after_turn", [answer(FACT)], history="delta", run_id="r").echoes == 1
    assert kept(bank) == [("user", ASKED)]


def test_an_answer_with_news_in_it_is_kept(near_opened: Opener, call: Caller, settled: Settled, kept: Kept) -> None:
    """Less than 80 % of its words stand in what was recalled."""
    bank = near_opened()
    call(bank, "retain", FACT)
    settled(bank)
    news = "Ana prefers aisle seats; I have booked 14C to Porto for Monday at nine."
    with bank.session("s") as session:
        call(session, "before_turn", [user(ASKED)])
        assert call(session, "after_turn", [user(ASKED), answer(news)]).echoes == 0
    assert kept(bank) == [("user", ASKED), ("assistant", news)]


def test_the_users_own_words_are_always_kept(near_opened: Opener, call: Caller, settled: Settled, kept: Kept) -> None:
    """Also where all of them stand in what was recalled."""
    bank, known = near_opened(), "Ana prefers aisle seats on long flights to Porto."
    call(bank, "retain", known)
    settled(bank)
    with bank.session("s") as session:
        assert known in call(session, "before_turn", [user(FACT)]).memories
        assert call(session, "after_turn", [user(FACT), answer("I know that.")]).echoes == 0
    assert kept(bank) == [("user", FACT), ("assistant", "I know that.")]


def test_secrets_are_taken_out_and_counted_once(near_opened: Opener, call: Caller, kept: Kept, events: list[Event]) -> None:
    """Before anything is written; one event for one secret, though the message is handed over again and again."""
    bank = near_opened()
    history = [user(f"My password={SECRET} for the portal."), answer("I will not repeat it."), user("Thanks a lot.")]
    with bank.session("s") as session:
        call(session, "before_turn", history[:1])
        call(session, "after_turn", history[:2])
        call(session, "before_turn", history)
    assert kept(bank)[0] == ("user", "My password=[redacted] for the portal.")
    assert sum(event.count for event in events if isinstance(event, Redacted)) == 1


def test_secrets_of_a_run_are_counted_once(near_opened: Opener, call: Caller, events: list[Event]) -> None:
    """A host of deltas hands the user's message over before and after its run."""
    bank = near_opened()
    with bank.session("s") as session:
        secret = user(f"My password={SECRET} for the portal.")
        call(session, "before_turn", [secret], history="delta", run_id="r")
        receipt = call(session, "after_turn", [secret, answer("I will not repeat it.")], history="delta", run_id="r")
    assert receipt.receipt.redactions == 0
    assert sum(event.count for event in events if isinstance(event, Redacted)) == 1


def test_secrets_of_long_ago_are_not_counted_again(near_opened: Opener, call: Caller, events: list[Event]) -> None:
    """A session that is opened anew with its old history counts what is new."""
    bank = near_opened()
    history = [user(f"My password={SECRET} for the portal."), answer("I will not repeat it."), user("Thanks a lot.")]
    with bank.session("s") as session:
        call(session, "after_turn", history[:2])
    with bank.session("s") as session:
        receipt = call(session, "after_turn", history)
    assert (receipt.new, receipt.receipt.redactions) == (1, 0)
    assert sum(event.count for event in events if isinstance(event, Redacted)) == 1


def test_no_secret_is_in_a_trace_or_an_event(near_opened: Opener, call: Caller, events: list[Event]) -> None:
    """Events are ids and counts; a trace that is kept goes through the same gate."""
    bank = near_opened(recall={"keep_traces": 3})
    with bank.session("s") as session:
        call(session, "before_turn", [user(f"My password={SECRET} for the portal.")])
    assert SECRET not in repr(events)
    with bank.session("s") as session:
        assert SECRET not in repr(call(session, "last_recall"))


def test_the_users_gate_amends_and_refuses(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """`before_enqueue` sees each message: what it refuses, or raises on, is not kept and never resurfaces."""
    bank = near_opened(retain={"before_enqueue": gate})
    history = [user("please amend this"), answer("please refuse this"), user("please raise on this"), answer("a plain answer")]
    with bank.session("s") as session:
        receipt = call(session, "after_turn", history)
        assert [outcome.reason for outcome in receipt.receipt.rejected] == [
            "refused by before_enqueue",
            "refused by before_enqueue: RuntimeError",
        ]
        again = call(session, "after_turn", history)
        assert (again.new, len(again.receipt)) == (0, 0)
    with bank.session("s") as session:
        anew = call(session, "after_turn", history)
        assert (anew.new, len(anew.receipt)) == (0, 0)
    assert kept(bank) == [("user", "please AMENDED this"), ("assistant", "a plain answer")]


def test_what_the_gate_refuses_of_a_user_is_told(near_opened: Opener, call: Caller, events: list[Event]) -> None:
    """A refusal is counted in an event or in the run's receipt, also where `before_turn` came first."""
    bank = near_opened(retain={"before_enqueue": gate})
    with bank.session("s") as session:
        call(session, "before_turn", [user("please refuse this")])
        receipt = call(session, "after_turn", [user("please refuse this"), answer("a plain answer")])
    told = sum(event.rejected for event in events if isinstance(event, Retained))
    assert told + len(receipt.receipt.rejected) >= 1


def test_the_gate_sees_a_message_once(near_opened: Opener, call: Caller) -> None:
    """It may have effects of its own: it is not asked again about what was kept."""
    seen = list[str]()

    def noting(item: Item) -> Item:
        seen.append(item.content)
        return item

    with near_opened(retain={"before_enqueue": noting}).session("s") as session:
        call(session, "before_turn", [user("One.")], history="delta", run_id="r")
        call(session, "after_turn", [user("One."), answer("Two.")], history="delta", run_id="r")
    assert sorted(seen) == ["One.", "Two."]


def test_messages_may_be_mappings(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """As chat APIs have them: `role` and `content` (or `text`), with an id if there is one."""
    bank = near_opened()
    history = [{"role": "user", "content": AISLE, "id": "m1"}, {"role": "assistant", "text": "Noted."}]
    with bank.session("s") as session:
        call(session, "before_turn", history[:1])
        assert call(session, "after_turn", history).new == 1
    assert kept(bank) == [("user", AISLE), ("assistant", "Noted.")]


def test_messages_may_be_any_iterable(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """A tuple or a generator is as good as a list."""
    bank = near_opened()
    with bank.session("s") as session:
        call(session, "before_turn", (user(AISLE),))
        call(session, "after_turn", (message for message in [user(AISLE), answer("Noted.")]))
    assert kept(bank) == [("user", AISLE), ("assistant", "Noted.")]


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_refused_before_anything_is_written(near: Bank, refused: Refused, case: str) -> None:
    """A `UsageError` that names the mistake; the session goes on as if nothing had been handed over."""
    messages, options = BAD[case]
    with near.session("s") as session:
        for verb in (session.before_turn, session.after_turn):
            with refused():
                verb(messages, **options)
        assert session.after_turn([user(AISLE)]).new == 1


def test_a_session_needs_a_name(near: Bank, refused: Refused) -> None:
    """Text of a sane length without control characters."""
    names: tuple[Any, ...] = ("", "  ", "a\nb", "x" * 600, 5, None, "\ud800")
    for name in names:
        with refused():
            near.session(name)


def test_unknown_tools_are_refused(near: Bank, refused: Refused) -> None:
    """A list of names of our tools."""
    lists: tuple[Any, ...] = ("recall", ["remember"], 5)
    for tools in lists:
        with refused():
            near.session("s", tools=tools)


def test_a_name_that_no_database_can_store_loses_no_message(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Odd names of speakers and odd characters in texts are made storable; the words are kept."""
    bank = near_opened()
    history = [user("Hello \ud800 there\0.", name="Ana \ud800\0" + "x" * 600), answer("Hi."), user("Good bye.")]
    with bank.session("s") as session:
        call(session, "before_turn", history[:1])
        call(session, "after_turn", history)
    roles = [role for role, _ in kept(bank)]
    assert roles == ["user", "assistant", "user"]


def test_times_of_the_host_are_kept(near_opened: Opener, call: Caller, settled: Settled) -> None:
    """A message's own time becomes the memory's; a naive one is read in the `timezone` setting."""
    bank = near_opened(retain={"timezone": "Asia/Tokyo"})
    with bank.session("s") as session:
        naive, aware = datetime(2026, 3, 4, 9), datetime(2026, 3, 4, 1, tzinfo=UTC)  # noqa: DTZ001 - the naive one is the case
        call(session, "after_turn", [user(AISLE, time=naive), answer("Noted it down.", time=aware)])
        session.retain_now()
        settled(bank)
        times = {memory.mentioned_at for memory in call(bank, "list")}
    assert datetime(2026, 3, 4, 0, tzinfo=UTC) in times
