"""Sessions: what a host gets before a turn, what is kept after it, and what is refused; on every backend, in both forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, Item, Message, Session, UnavailableError, UsageError, open_bank
from lorebank._delivery.backend import OutboxBackend
from lorebank._domain.settings import ConnectionSettings, OutboxSettings, RetainSettings
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import TOOLBOOK, Event, Keep, OutageStarted, Recalled, Redacted, Retained, ToolCall
from lorebank.testing import FaultServer

Caller = Callable[..., Any]
Opener = Callable[..., Bank]
Settled = Callable[[Bank], None]
Refused = Callable[..., Any]
Kept = Callable[[Bank], list[tuple[str, str]]]
AISLE = "I always want an aisle seat."
WHICH = "Which seat do I always want?"
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


def looped(number: int) -> list[Message]:
    """A tool loop's messages, as the model sees them before its call number `number`."""
    steps = [
        [answer("", tool_calls=(ToolCall("search", {"page": n}),)), Message("tool", f"page {n} is empty", name="search")]
        for n in range(number)
    ]
    return [message for step in steps for message in step]


def said(text: str) -> list[dict[str, Any]]:
    """The lines of a document that is made of JSON arrays, one behind the other."""
    decoder, place, lines = json.JSONDecoder(), 0, list[dict[str, Any]]()
    while place < len(text):
        found, place = decoder.raw_decode(text, place)
        lines += found
        place += len(text[place:]) - len(text[place:].lstrip())
    return lines


@pytest.fixture
def events() -> list[Event]:
    """What the banks of `near_opened` have told."""
    return []


@pytest.fixture
def near_opened(near_store: tuple[Any, FaultServer | None], events: list[Event]) -> Iterator[Opener]:
    """Opens banks on the file, or on the small server in this process, and closes them with the test."""
    with ExitStack() as stack:

        def opening(bank: str = "alice", **options: Any) -> Bank:
            opened: Bank = near_store[0].open(bank, **{"on_event": events.append, **options})
            return stack.enter_context(opened)

        yield opening


@pytest.fixture
def kept(near_store: tuple[Any, FaultServer | None], call: Caller) -> Kept:
    """`kept(bank)`: role and text of what sessions have retained in a bank, in the order of its arrival."""
    server = near_store[1]

    def look(bank: Bank) -> list[tuple[str, str]]:
        if server is None:
            listed = [memory for memory in call(bank, "list", limit=1000) if memory.source == "transcript"]
            return [(str(memory.metadata["role"]), memory.text) for memory in reversed(listed)]
        report = call(bank, "flush", timeout=30, until="completed")
        assert (report.left, report.dead) == (0, 0), report.reason
        documents = server.bank(bank.scope.bank).documents
        texts = [text for name, text in documents.items() if not name.startswith("lorebank:item:")]
        return [(line["role"], line["content"]) for text in texts for line in said(text)]

    return look


@pytest.fixture
def recalls(near_store: tuple[Any, FaultServer | None], events: list[Event]) -> Callable[[], int]:
    """How often a bank was asked for memories: requests on a server, events elsewhere."""
    server = near_store[1]

    def count() -> int:
        if server is None:
            return sum(isinstance(event, Recalled) for event in events)
        return sum(request.path.endswith("/memories/recall") for request in server.requests)

    return count


def failing(near_store: tuple[Any, FaultServer | None], **options: Any) -> Bank:
    """A bank that cannot be asked; what is said is written down all the same."""
    store, server = near_store
    if server is not None:
        server.stop()
        return store.open("alice", connection={"close_timeout": 0}, **options)  # type: ignore[no-any-return]

    class Failing(MnemopiBackend):
        def recall(self, scope: Any, request: Any) -> Any:
            raise UnavailableError("busy")

    return open_bank(backend=Failing(store.url), bank="alice", **options)


# --- what was told is known later


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


# --- states and bytes


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


# --- one recall a turn


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


# --- the query

TALK = [
    user("I fly to Porto on Monday."),
    answer("Shall I book?"),
    user("Yes, in the morning."),
    answer("With which airline?"),
    user("The cheapest."),
    answer("And the seat?"),
    user("Which do I prefer?"),
]


def asked(session: Session) -> str:
    trace = session.last_recall()
    assert trace is not None
    return trace.query


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


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
def test_the_context_of_a_query_is_counted_in_user_turns(near_opened: Opener, call: Caller, turns: int) -> None:
    """`context_turns` sets it on either backend."""
    users = ["Which do I prefer?", "The cheapest.", "Yes, in the morning.", "I fly to Porto on Monday."]
    with near_opened(recall={"context_turns": turns}).session("s") as session:
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


# --- never fed back


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


# --- secrets, and the user's own gate

SECRET = "hunter2-and-more"  # noqa: S105 - made up


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


def gate(item: Item) -> Item | None:
    if "refuse" in item.content:
        return None
    if "raise" in item.content:
        raise RuntimeError("no")
    return replace(item, content=item.content.replace("amend", "AMENDED"), tags=["seen"])


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


# --- what hosts hand over


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


BAD: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": ("hello", {}),
    "nothing": (None, {}),
    "one message": (Message("user", "hello"), {}),
    "one mapping": ({"role": "user", "content": "hello"}, {}),
    "texts": (["hello"], {}),
    "pairs": ([("user", "hello")], {}),
    "no role": ([{"content": "hello"}], {}),
    "no text": ([{"role": "user"}], {}),
    "unknown role": ([{"role": "human", "content": "hello"}], {}),
    "unknown key": ([{"role": "user", "content": "hello", "mood": "good"}], {}),
    "content parts": ([{"role": "user", "content": [{"type": "text", "text": "hello"}]}], {}),
    "a number as id": ([{"role": "user", "content": "hello", "id": 5}], {}),
    "a text as time": ([{"role": "user", "content": "hello", "time": "2026-03-04T12:00:00Z"}], {}),
    "a number as name": ([{"role": "user", "content": "hello", "name": 5}], {}),
    "a text as images": ([{"role": "user", "content": "hello", "images": "two"}], {}),
    "mappings as tool calls": ([{"role": "assistant", "content": "hello", "tool_calls": [{"name": "search"}]}], {}),
    "unknown history": ([{"role": "user", "content": "hello"}], {"history": "some"}),
    "delta without a run": ([{"role": "user", "content": "hello"}], {"history": "delta"}),
    "a blank run": ([{"role": "user", "content": "hello"}], {"run_id": " "}),
    "a number as run": ([{"role": "user", "content": "hello"}], {"run_id": 5}),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_refused_before_anything_is_written(near: Bank, refused: Refused, case: str) -> None:
    """A `UsageError` that names the mistake; the session goes on as if nothing had been handed over."""
    messages, options = BAD[case]
    with near.session("s") as session:
        for verb in (session.before_turn, session.after_turn):
            with refused():
                verb(messages, **options)
        assert session.after_turn([user(AISLE)]).new == 1


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 600, 5, None, "\ud800"], ids=repr)
def test_a_session_needs_a_name(near: Bank, refused: Refused, name: Any) -> None:
    """Text of a sane length without control characters."""
    with refused():
        near.session(name)


@pytest.mark.parametrize("tools", ["recall", ["remember"], 5], ids=repr)
def test_unknown_tools_are_refused(near: Bank, refused: Refused, tools: Any) -> None:
    """A list of names of our tools."""
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


# --- lives of sessions


def test_a_session_is_a_context_manager(near_opened: Opener, kept: Kept) -> None:
    """Leaving the block closes it."""
    bank = near_opened()
    with bank.session("s") as session:
        session.before_turn([user(AISLE)])
    with pytest.raises(UsageError, match="closed"):
        session.before_turn([user(AISLE)])
    assert kept(bank) == [("user", AISLE)]


def test_a_session_is_an_async_context_manager(near_opened: Opener, kept: Kept) -> None:
    """In a running loop, also twice in two loops."""
    bank = near_opened()

    async def talk(text: str) -> Session:
        async with bank.session("s") as session:
            await session.abefore_turn([user(text)])
            await session.aafter_turn([user(text), answer("Noted.")])
        return session

    first, second = asyncio.run(talk(AISLE)), asyncio.run(talk(FACT))
    assert first is not second
    with pytest.raises(UsageError, match="closed"):
        asyncio.run(second.abefore_turn([user(AISLE)]))
    assert ("user", FACT) in kept(bank)


@pytest.mark.parametrize("verb", ["before_turn", "after_turn", "before_compaction"])
def test_a_closed_session_refuses_messages(near: Bank, call: Caller, verb: str) -> None:
    """`UsageError`, with the way to open it again."""
    session = near.session("s")
    call(session, "close")
    call(session, "close")
    with pytest.raises(UsageError, match=r"session\('s'\)"):
        call(session, verb, [user(AISLE)])


@pytest.mark.parametrize("verb", ["retain_now", "last_recall", "save", "reload_mental_models"])
def test_a_closed_session_refuses_the_other_verbs(near: Bank, call: Caller, verb: str) -> None:
    """Use after close is a `UsageError` for every verb."""
    session = near.session("s")
    call(session, "close")
    with pytest.raises(UsageError, match="closed"):
        call(session, verb)


@pytest.mark.parametrize(
    "change",
    [
        lambda session: setattr(session, "mode", "ignored"),
        lambda session: setattr(session, "retain_enabled", False),
        lambda session: session.tags.add("x"),
        lambda session: session.skip_next(),
    ],
    ids=["mode", "retain_enabled", "tags", "skip_next"],
)
def test_a_closed_session_takes_no_changes(near: Bank, change: Callable[[Session], object]) -> None:
    """A change that could never be stored is refused: a user who asks for privacy must not be told yes."""
    session = near.session("s")
    session.close()
    with pytest.raises(UsageError, match="closed"):
        change(session)


def test_a_closed_bank_ends_its_sessions(near_opened: Opener, call: Caller) -> None:
    """What is called after the opener's close is a `UsageError`; closing the session is harmless."""
    bank = near_opened()
    session = bank.session("s")
    call(session, "before_turn", [user(AISLE)])
    bank.close()
    with pytest.raises(UsageError, match="closed"):
        call(session, "before_turn", [user(AISLE)])
    with pytest.raises(UsageError, match="closed"):
        bank.session("s")
    call(session, "close")


def test_opening_twice_gives_one_session_and_the_last_close_ends_it(near_opened: Opener, call: Caller) -> None:
    """Reference-counted: two parts of a program share it without knowing of each other."""
    bank = near_opened()
    one, two = bank.session("s"), bank.session("s")
    assert one is two
    call(one, "close")
    call(two, "before_turn", [user(AISLE)])
    call(two, "close")
    with pytest.raises(UsageError, match="closed"):
        call(two, "before_turn", [user(AISLE)])
    three = bank.session("s")
    assert three is not one
    assert call(three, "after_turn", [user(AISLE)]).new == 0


def test_a_name_is_trimmed_once(near_opened: Opener) -> None:
    """Blanks around an id don't make another session."""
    bank = near_opened()
    assert bank.session(" s ") is bank.session("s")


def test_several_sessions_live_side_by_side(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """The same words in two sessions are two messages, each with its own session."""
    bank = near_opened(recall={"auto_recall": False})
    with bank.session("a") as a, bank.session("b") as b:
        for session in (a, b, a, b):
            call(session, "before_turn", [user(AISLE)])
            call(session, "after_turn", [user(AISLE), answer("Noted.")])
    assert sorted(kept(bank)) == sorted([("user", AISLE), ("assistant", "Noted.")] * 2)


def test_a_session_outlives_the_named_bank_that_opened_it(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Closing a `named` bank leaves the connections open, and so the session."""
    opener = near_opened()
    bob = opener.named("bob")
    session = bob.session("s")
    bob.close()
    with pytest.raises(UsageError):
        bob.session("s")
    call(session, "before_turn", [user(AISLE)])
    assert opener.named("bob").session("s") is session
    call(session, "close")
    call(session, "close")
    assert kept(opener.named("bob")) == [("user", AISLE)]


@pytest.mark.parametrize("scoping", ["global", "per-project", "per-project-tagged"])
def test_one_session_id_in_two_projects_is_two_sessions(
    near_opened: Opener, call: Caller, kept: Kept, settled: Settled, scoping: Any
) -> None:
    """Cursors, modes and tags are the project's own wherever projects are apart; what is kept is recalled in its scope."""
    atlas, zeus = (near_opened(project=label, scoping=scoping) for label in ("atlas", "zeus"))
    with atlas.session("s") as one, zeus.session("s") as two:
        one.mode = "read-only"
        one.save()
        call(one, "before_turn", [user("The engine of atlas is red.")])
        call(two, "before_turn", [user("The engine of zeus is blue.")])
        assert (one.mode, two.mode) == ("read-only", "read-only" if scoping == "global" else "normal")
        assert two.key == one.key if scoping == "global" else two.key != one.key
    if scoping == "global":
        return
    settled(zeus)
    with atlas.session("t") as here, zeus.session("t") as there:
        assert call(here, "before_turn", [user("Which colour has the engine?")]).memories == ""
        assert "blue" in call(there, "before_turn", [user("Which colour has the engine?")]).memories


@pytest.mark.parametrize("scoping", ["per-project", "per-project-tagged"])
def test_one_message_told_in_two_projects_is_kept_in_both(near_opened: Opener, call: Caller, kept: Kept, scoping: Any) -> None:
    """The same id, the same words, the same host ids: each project keeps its own."""
    history = [user(AISLE, id="m1"), answer("Noted.", id="m2")]
    banks = [near_opened(project=label, scoping=scoping) for label in ("atlas", "zeus")]
    for bank in banks:
        with bank.session("s") as session:
            assert call(session, "after_turn", history).new == 2
    lines = [line for name in {bank.scope.bank: bank for bank in banks}.values() for line in kept(name)]
    assert sorted(lines) == sorted([("user", AISLE), ("assistant", "Noted.")] * 2)


def test_a_sub_agent_has_tools_and_nothing_automatic(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """An alias of its parent's session recalls and keeps nothing, in any mode of the parent."""
    bank = near_opened()
    with bank.session("s", tools=("recall",)) as session:
        alias = session.alias()
        injection = call(alias, "before_turn", [user(AISLE)])
        receipt = call(alias, "after_turn", [user(AISLE), answer("Noted.")])
        assert (injection.memories, injection.result) == ("", None)
        assert "recall" in injection.system_prefix
        assert (receipt.new, receipt.reason is None) == (0, False)
        session.mode = "ignored"
        assert alias.refusal("recall") == session.refusal("recall") is not None
    assert kept(bank) == []


# --- the kill switch


def test_memory_that_is_switched_off_costs_nothing(
    near_store: Any, call: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """`LOREBANK_URL=off`: sessions are `ignored`, every call is inert, and there is no I/O at all."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    store, server = near_store
    with store.open("alice", on_failure="raise") as bank, bank.session("s", tools=("recall",)) as session:
        assert not call(session, "before_turn", [user(AISLE)])
        assert call(session, "after_turn", [user(AISLE)]).reason == "memory is off"
        assert call(session, "before_compaction", [user(AISLE)]) == ""
        assert session.mode == "ignored"
        session.mode = "normal"
        session.tags.add("x")
        session.skip_next()
        call(session, "save")
        assert session.mode == "ignored"
        assert session.refusal("recall") is not None
        assert call(session, "last_recall") is None
        assert call(session, "retain_now").left == 0
    assert server is None or not server.requests
    assert not list(tmp_path.glob("*.db"))


# --- backends of one's own


def test_a_backend_that_was_passed_has_sessions_too(near_store: Any, call: Caller, tmp_path: Any) -> None:
    """`open_bank(backend=...)` is the same bank."""
    store, server = near_store
    backend = (
        MnemopiBackend(store.url)
        if server is None
        else OutboxBackend(
            store.url, ConnectionSettings(), RetainSettings(), OutboxSettings(), ledger=f"sqlite:///{tmp_path / 'own.db'}"
        )
    )
    with open_bank(backend=backend, bank="alice") as bank, bank.session("s") as session:
        call(session, "before_turn", [user(AISLE)])
        assert call(session, "after_turn", [user(AISLE), answer("Noted.")]).new == 1
