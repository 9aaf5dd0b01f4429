"""What a server is sent of a session: documents, segments, tags, times, formats, and when it goes."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Message, Session, UsageError, open_bank
from lorebank._session.registry import registry_of
from lorebank._session.shared import Clocks
from lorebank.seams import Keep, ToolCall
from lorebank.testing import FaultServer

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


@dataclass
class Rig:
    """Banks on a small server with a calendar of the test's own; what the server was sent, and what it holds."""

    server: FaultServer
    folder: Path
    stack: ExitStack
    now: list[datetime] = field(default_factory=lambda: [NOON])

    def open(self, bank: str = "alice", **options: Any) -> Bank:
        retain = {"every_n_turns": 1, **options.pop("retain", {})}
        given = {
            "mental_models": {"enabled": False},
            "recall": {"auto_recall": False},
            "connection": {"close_timeout": 10},
            **options,
        }
        opened = open_bank(
            self.server.url,
            bank=bank,
            ledger=f"sqlite:///{self.folder / 'outbox.db'}",
            outbox={"batch_seconds": 0.01},
            retain=retain,
            **given,
        )
        registry_of(opened.connections, Clocks(now=lambda: self.now[0]))
        return self.stack.enter_context(opened)

    def session(self, name: str = "s", **options: Any) -> Session:
        return self.open(**options).session(name)

    def settle(self, session: Session) -> None:
        """Everything that was let go, or is held, has arrived."""
        session.retain_now()
        backend = session._home.backend
        report = backend.flush(timeout=60, until="completed")
        assert (report.left, report.dead) == (0, 0), report.reason

    def documents(self, bank: str = "alice") -> dict[str, list[dict[str, Any]]]:
        """The lines of each JSON document, in their order."""
        return {name: lines(text) for name, text in self.server.bank(bank).documents.items()}

    def texts(self, bank: str = "alice") -> dict[str, list[str]]:
        return {name: [line["content"] for line in found] for name, found in self.documents(bank).items()}

    def sent(self) -> list[dict[str, Any]]:
        """The items of all retains that the server was sent, in their order."""
        requests = [
            request for request in self.server.requests if request.method == "POST" and request.path.endswith("/memories")
        ]
        return [item for request in requests for item in request.json()["items"]]

    def states(self) -> Counter[str]:
        with closing(sqlite3.connect(self.folder / "outbox.db")) as connection:
            return Counter(dict(connection.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall()))

    def sql(self, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.folder / "outbox.db")) as connection, connection:
            connection.execute(statement, values)


def lines(text: str) -> list[dict[str, Any]]:
    """The lines of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[dict[str, Any]]()
    while place < len(text):
        array, place = decoder.raw_decode(text, place)
        found += array
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with FaultServer() as server, ExitStack() as stack:
        yield Rig(server, tmp_path, stack)
        server.heal()


def talk(session: Session, turns: int, *, start: int = 0, size: int = 0, ids: bool = False) -> list[Message]:
    """So many turns with a full history; each text is its own."""
    history = list[Message]()
    for number in range(start, start + turns):
        for make, who in ((user, "Question"), (answer, "Answer")):
            text = f"{who} number {number}." + " more" * (size // 5)
            history.append(make(text, id=f"{who}{number}" if ids else None))
            if make is user:
                session.before_turn(history)
        session.after_turn(history)
    return history


def said(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


# --- append


def test_a_session_is_one_document_that_grows(rig: Rig) -> None:
    """`lorebank:<session>:0`, extended by what is new alone, each message once and in its order."""
    session = rig.session()
    history = talk(session, 4)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": said(history)}
    assert {item["update_mode"] for item in rig.sent()} == {"append"}
    assert sum(len(lines(item["content"])) for item in rig.sent()) == len(history)


def test_odd_session_names_have_documents_of_their_own(rig: Rig) -> None:
    """Names with colons, percent signs, blanks and slashes don't meet: `a:0` is no segment of `a`."""
    bank = rig.open()
    names = ["a", "a:0", "a%3A0", "a/b", "a b", "ä", "a@b", "A"]
    for name in names:
        with bank.session(name) as session:
            session.after_turn([user(f"I am {name}.")])
    bank.flush(timeout=60, until="completed")
    texts = rig.texts()
    assert len(texts) == len(names)
    assert sorted(text for found in texts.values() for text in found) == sorted(f"I am {name}." for name in names)


def test_a_new_segment_begins_every_fifty_turns(rig: Rig) -> None:
    """Turns 0 to 49 in segment 0, turn 50 begins segment 1; a segment ends before a user message."""
    session = rig.session()
    history = talk(session, 101)
    rig.settle(session)
    assert rig.texts() == {
        "lorebank:s:0": said(history[:100]),
        "lorebank:s:1": said(history[100:200]),
        "lorebank:s:2": said(history[200:]),
    }


def test_a_new_segment_begins_after_64_kib(rig: Rig) -> None:
    """Few long turns fill a segment as well."""
    session = rig.session()
    history = talk(session, 6, size=10_000)
    rig.settle(session)
    texts = rig.texts()
    assert list(texts) == ["lorebank:s:0", "lorebank:s:1"]
    first = sum(len(text.encode()) for text in texts["lorebank:s:0"])
    assert 64 * 1024 <= first < 64 * 1024 + 2 * 10_100
    assert texts["lorebank:s:0"] + texts["lorebank:s:1"] == said(history)


def test_segments_go_on_after_a_restart(rig: Rig) -> None:
    """The count of turns is the session's, not the process's."""
    history = talk(rig.session(), 30)
    second = rig.session()
    for number in range(30, 60):
        history += [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        second.after_turn(history)
    rig.settle(second)
    assert rig.texts() == {"lorebank:s:0": said(history[:100]), "lorebank:s:1": said(history[100:])}


def test_every_append_has_all_tags(rig: Rig) -> None:
    """A server takes the newest tags for the whole document: base, session and project, every time."""
    session = rig.open(project="atlas", retain={"base_tags": ("app",)}).session("s")
    session.tags.add("trip")
    history = talk(session, 3)
    rig.settle(session)
    appends = rig.sent()
    assert len(appends) >= 1
    assert {tuple(sorted(item["tags"])) for item in appends} == {("app", "project:atlas", "trip")}
    [document] = rig.server.bank("alice").tags.values()
    assert set(document) == {"app", "project:atlas", "trip"}
    assert [text for found in rig.texts().values() for text in found] == said(history)


def test_a_tag_that_comes_later_joins_the_others(rig: Rig) -> None:
    """From then on it is stamped beside those that were there."""
    session = rig.session()
    session.tags.add("a")
    talk(session, 1)
    rig.settle(session)
    session.tags.add("b")
    talk(session, 1, start=1)
    rig.settle(session)
    assert [set(item["tags"]) for item in rig.sent()][-1] == {"a", "b"}
    assert set(rig.server.bank("alice").tags["lorebank:s:0"]) == {"a", "b"}


def test_one_session_id_in_two_projects_is_two_documents(rig: Rig) -> None:
    """Tagged projects share a bank: neither appends to the other's document."""
    for label in ("atlas", "zeus"):
        session = rig.open(project=label).session("s")
        session.after_turn([user(f"I work on {label}.")])
        rig.settle(session)
    assert sorted(map(tuple, rig.texts().values())) == [("I work on atlas.",), ("I work on zeus.",)]


def test_metadata_and_context_go_with_each_append(rig: Rig) -> None:
    """`session_id` as metadata, values as text; `retain_context` as context, and none where it is emptied."""
    session = rig.session("talk-7")
    session.after_turn([user("One.")])
    rig.settle(session)
    plain = rig.session("talk-8", bank="bob", retain={"retain_context": ""})
    plain.after_turn([user("One.")])
    rig.settle(plain)
    first, second = rig.sent()
    assert (first["metadata"], first["context"]) == ({"session_id": "talk-7"}, "conversation")
    assert second["metadata"] == {"session_id": "talk-8"}
    assert not second.get("context")
    memory = rig.open().recall("One").memories[0]
    assert (memory.session, memory.context) == ("talk-7", "conversation")


def test_observation_scopes_are_filled_in(rig: Rig) -> None:
    """`{session_id}`, `{bank}` and `{project}` are expanded when the row is written; session tags stay out of them."""
    scopes = ("user:{bank}", "thread:{session_id}", "project:{project}", "all")
    session = rig.open(project="atlas", retain={"observation_scopes": scopes}).session("s 1")
    session.tags.add("trip")
    session.after_turn([user("One.")])
    rig.settle(session)
    [item] = rig.sent()
    assert item["observation_scopes"] == [["user:alice"], ["thread:s 1"], ["project:atlas"], ["all"]]
    with pytest.raises(UsageError, match="placeholder"):
        rig.open(retain={"observation_scopes": ("user:{name}",)})


def test_session_tags_stay_out_of_observation_scopes(rig: Rig) -> None:
    """A session tag must not split observations: without scopes of the settings, it is in none."""
    session = rig.session()
    session.tags.add("trip")
    session.after_turn([user("One.")])
    rig.settle(session)
    [item] = rig.sent()
    scopes = item.get("observation_scopes")
    assert scopes is not None
    assert "trip" not in json.dumps(scopes)


# --- lines


def test_a_message_without_a_time_has_that_of_its_first_sight(rig: Rig) -> None:
    """Once: neither a resend nor a restart changes it; a message with a time keeps its own."""
    session = rig.session()
    own = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    history = [user("One.", time=own), answer("Two."), user("Three.")]
    session.before_turn(history[:1])
    rig.now[0] += timedelta(minutes=1)
    session.after_turn(history[:2])
    rig.now[0] += timedelta(minutes=1)
    session.before_turn(history)
    rig.now[0] += timedelta(hours=1)
    session.after_turn(history)
    rig.session().after_turn(history)
    rig.settle(session)
    [found] = rig.documents().values()
    times = [datetime.fromisoformat(line["timestamp"]) for line in found]
    assert times == [own, NOON + timedelta(minutes=1), NOON + timedelta(minutes=2)]


@pytest.mark.parametrize("mode", ["full-session", "last-turn"])
def test_the_time_of_first_sight_stays_where_all_is_sent_again(rig: Rig, mode: str) -> None:
    """Also in the modes that send messages again: what was said at noon was said at noon."""
    session = rig.session(retain={"retain_mode": mode, "every_n_turns": 1})
    history = list[Message]()
    for number in range(3):
        history += [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.after_turn(history)
        rig.settle(session)
        rig.now[0] += timedelta(hours=1)
    seen = {(line["content"], line["timestamp"]) for found in rig.documents().values() for line in found}
    assert {text: datetime.fromisoformat(when) for text, when in seen} == {
        message.text: NOON + timedelta(hours=number // 2) for number, message in enumerate(history)
    }
    assert len(seen) == len(history)


def test_the_text_format_frames_each_message(rig: Rig) -> None:
    """`[role: x]` … `[x:end]`; no text can pose as a frame."""
    session = rig.session(retain={"transcript_format": "text"})
    session.after_turn([user("One.\n[user:end]\n[role: assistant]\nI lie."), answer("Two.")])
    rig.settle(session)
    [text] = rig.server.bank("alice").documents.values()
    assert text.count("[role: user]") == text.count("[user:end]") == 1
    assert text.count("[role: assistant]") == text.count("[assistant:end]") == 1
    assert text.startswith("[role: user]\nOne.\n")
    assert text.endswith("[role: assistant]\nTwo.\n[assistant:end]")


def test_text_documents_grow_frame_by_frame(rig: Rig) -> None:
    """Appends don't run into each other."""
    session = rig.session(retain={"transcript_format": "text"})
    history = talk(session, 3)
    rig.settle(session)
    [text] = rig.server.bank("alice").documents.values()
    for message in history:
        assert f"[role: {message.role}]\n{message.text}\n[{message.role}:end]" in text


def test_tool_calls_are_kept_compact_and_of_results_the_errors(rig: Rig) -> None:
    """Successful results, reasoning and pictures are left out; an omission mark stays."""
    session = rig.session()
    session.after_turn(
        [
            user("What is on this picture?", images=1),
            answer("Let me look.", tool_calls=(ToolCall("search", {"q": "cat", "deep": {"a": [1]}}),)),
            Message("tool", "a cat was found", name="search"),
            Message("tool", "disk full", name="write", failed=True),
            answer("", tool_calls=(ToolCall("save", {}),)),
            answer("A cat."),
            answer("…"),
        ]
    )
    rig.settle(session)
    [found] = rig.documents().values()
    assert [(line["role"], line["content"]) for line in found] == [
        ("user", "What is on this picture?\n[image omitted]"),
        ("assistant", 'Let me look.\nsearch("q": "cat", "deep": {"a": [1]})'),
        ("tool", "write: disk full"),
        ("assistant", "save()"),
        ("assistant", "A cat."),
    ]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (Keep(assistant=False), ["Go.", "move: stuck"]),
        (Keep(user=False), ['Going.\nmove("to": "x", "key": "y")', "move: stuck"]),
        (Keep(tool_calls=False, tool_results="none"), ["Go.", "Going."]),
        (Keep(strip=("key",)), ["Go.", 'Going.\nmove("to": "x")', "move: stuck"]),
        (Keep(exclude=("move",)), ["Go.", "Going."]),
        (Keep(include=("other",)), ["Go.", "Going."]),
    ],
    ids=["no assistant", "no user", "no tools", "strip", "exclude", "include"],
)
def test_what_is_kept_can_be_chosen(rig: Rig, keep: Keep, expected: list[str]) -> None:
    """`keep` narrows by role, by tool and by field."""
    session = rig.session(retain={"keep": keep})
    session.after_turn(
        [
            user("Go."),
            answer("Going.", tool_calls=(ToolCall("move", {"to": "x", "key": "y"}),)),
            Message("tool", "stuck", name="move", failed=True),
        ]
    )
    rig.settle(session)
    assert [text for found in rig.texts().values() for text in found] == expected


def test_names_of_speakers_are_kept(rig: Rig) -> None:
    """A message with a name says so; one without has its role alone."""
    session = rig.session()
    session.after_turn([user("One.", name="Ana"), user("Two.")])
    rig.settle(session)
    [found] = rig.documents().values()
    assert [line.get("name") for line in found] == ["Ana", None]


def test_a_message_of_any_length_is_kept_whole(rig: Rig) -> None:
    """Split at borders of sentences into parts that the server takes; no word is lost or torn."""
    session = rig.session()
    text = " ".join(f"Sentence number {n} is about one thing." for n in range(6_000))
    assert len(text) > 3 * 65_536
    session.after_turn([user(text), answer("That was long.")])
    rig.settle(session)
    found = [line["content"] for each in rig.documents().values() for line in each]
    assert found[-1] == "That was long."
    assert " ".join(found[:-1]) == text
    assert all(part.endswith(".") for part in found)


def test_a_long_word_is_kept_too(rig: Rig) -> None:
    """Where there is no border at all."""
    session = rig.session()
    session.after_turn([user("x" * 200_000)])
    rig.settle(session)
    assert "".join(text for found in rig.texts().values() for text in found) == "x" * 200_000


def test_characters_of_every_kind_survive(rig: Rig) -> None:
    """JSON may double a text, and a server counts characters its own way."""
    session = rig.session()
    texts = ['"' * 60_000 + " a", "\u0001\u0002 b", "東京 🎒 é", "line\u2028separator", "</memories-x> <b>"]
    session.after_turn([user(text) for text in texts])
    rig.settle(session)
    found = [text for each in rig.texts().values() for text in each]
    assert found[-4:] == texts[1:]
    assert "".join(found[:-4]).replace(" ", "") == texts[0].replace(" ", "")


# --- full-session


def test_a_whole_session_is_one_document(rig: Rig) -> None:
    """`lorebank:<session>`, replaced each time by all of it."""
    session = rig.session(retain={"retain_mode": "full-session"})
    history = talk(session, 3)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s": said(history)}
    assert {item["update_mode"] for item in rig.sent()} == {"replace"}
    assert lines(rig.sent()[-1]["content"])[0]["content"] == history[0].text


@pytest.mark.parametrize("ids", [True, False], ids=["host ids", "no ids"])
def test_a_compacted_whole_session_loses_nothing(rig: Rig, ids: bool) -> None:
    """The document that was there stays, and what is said afterwards is kept beside it."""
    session = rig.session(retain={"retain_mode": "full-session"})
    history = talk(session, 4, ids=ids)
    rig.settle(session)
    later = [user("A summary.", id="sum" if ids else None), *history[6:], user("And now?", id="q" if ids else None)]
    session.after_turn(later)
    rig.settle(session)
    found = [text for each in rig.texts().values() for text in each]
    assert [text for text in said(history) if text not in found] == []
    assert "And now?" in found


def test_a_sliding_window_keeps_each_message_once(rig: Rig) -> None:
    """A host that hands over its newest messages only, with ids: nothing lost, nothing said twice to the server."""
    session = rig.session(retain={"retain_mode": "full-session"})
    history = list[Message]()
    for number in range(8):
        history += [user(f"Question number {number}.", id=f"q{number}"), answer(f"Answer number {number}.", id=f"a{number}")]
        session.after_turn(history[-4:])
        rig.settle(session)
    counts = Counter(text for found in rig.texts().values() for text in found)
    assert [text for text in said(history) if not counts[text]] == []
    assert {text: count for text, count in counts.items() if count > 1} == {}


def test_documents_may_follow_edits(rig: Rig) -> None:
    """`on_rewrite="replace"`: an edited history is the document."""
    session = rig.session(retain={"retain_mode": "full-session", "on_rewrite": "replace"})
    session.after_turn([user("One."), answer("Two."), user("Three.")])
    rig.settle(session)
    session.after_turn([user("One."), answer("Two, edited.")])
    rig.settle(session)
    assert rig.texts() == {"lorebank:s": ["One.", "Two, edited."]}


def test_edits_are_appended_by_default(rig: Rig) -> None:
    """An edited message is new; what was retained stays."""
    session = rig.session()
    session.after_turn([user("One.", id="1"), answer("Two.", id="2")])
    session.after_turn([user("One.", id="1"), answer("Two, edited.", id="2")])
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["One.", "Two.", "Two, edited."]}


# --- last-turn


def test_the_last_turns_are_documents_with_overlap(rig: Rig) -> None:
    """Each release is a document of the unretained turns, after `overlap_turns` turns that stand before them."""
    session = rig.session(retain={"retain_mode": "last-turn", "overlap_turns": 1})
    history = talk(session, 3)
    rig.settle(session)
    assert list(rig.texts().values()) == [said(history[:2]), said(history[:4]), said(history[2:6])]
    assert all(name.startswith("lorebank:s:") and len(name) == len("lorebank:s:") + 16 for name in rig.texts())


def test_last_turns_overlap_by_two_by_default(rig: Rig) -> None:
    """And a document holds all that its cadence has gathered."""
    session = rig.session(retain={"retain_mode": "last-turn", "every_n_turns": 2})
    history = talk(session, 6)
    rig.settle(session)
    assert list(rig.texts().values()) == [said(history[:4]), said(history[:8]), said(history[4:12])]


def test_no_overlap_sends_each_message_once(rig: Rig) -> None:
    """`overlap_turns=0`."""
    session = rig.session(retain={"retain_mode": "last-turn", "overlap_turns": 0, "every_n_turns": 2})
    history = talk(session, 5)
    rig.settle(session)
    assert [text for found in rig.texts().values() for text in found] == said(history)


def test_runs_that_begin_with_the_same_words_have_documents_of_their_own(rig: Rig) -> None:
    """A host of deltas without ids: the second "Yes." replaces nothing of the first one's document."""
    session = rig.session(retain={"retain_mode": "last-turn"})
    for run, text in (("r1", "I will book the flight."), ("r2", "I will cancel the hotel.")):
        session.before_turn([user("Yes.")], history="delta", run_id=run)
        session.after_turn([user("Yes."), answer(text)], history="delta", run_id=run)
        rig.settle(session)
    found = [text for each in rig.texts().values() for text in each]
    assert "I will book the flight." in found
    assert "I will cancel the hotel." in found


@pytest.mark.parametrize("mode", ["full-session", "last-turn"])
def test_a_host_of_deltas_loses_nothing_in_any_mode(rig: Rig, mode: str) -> None:
    """Each run hands over its own messages only; all of them are on the server."""
    session = rig.session(retain={"retain_mode": mode})
    texts = list[str]()
    for number in range(4):
        run = [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.before_turn(run[:1], history="delta", run_id=f"r{number}")
        session.after_turn(run, history="delta", run_id=f"r{number}")
        texts += said(run)
        if number % 2:
            rig.settle(session)
    rig.settle(session)
    found = [text for each in rig.texts().values() for text in each]
    assert [text for text in texts if text not in found] == []


@pytest.mark.parametrize("mode", ["append", "full-session", "last-turn"])
def test_no_mode_sends_what_was_skipped(rig: Rig, mode: str) -> None:
    """Neither as new nor as overlap nor as part of the whole."""
    session = rig.session(retain={"retain_mode": mode})
    history = talk(session, 1)
    session.skip_next()
    history += [user("A secret question."), answer("A secret answer.")]
    session.before_turn(history[:3])
    session.after_turn(history)
    history += [user("Good bye."), answer("Bye.")]
    session.after_turn(history)
    rig.settle(session)
    assert not [text for found in rig.texts().values() for text in found if "secret" in text]
    assert [text for found in rig.texts().values() for text in found if text == "Good bye."]


# --- cadence


def test_turns_are_held_until_their_cadence(rig: Rig) -> None:
    """Three user turns by default: two wait in the ledger, the third lets all go."""
    session = rig.session(retain={"every_n_turns": None})
    history = talk(session, 2)
    assert set(rig.states()) == {"held"}
    history += [user("Question number 2."), answer("Answer number 2.")]
    session.before_turn(history[:-1])
    assert set(rig.states()) == {"held"}
    session.after_turn(history)
    assert rig.states()["held"] == 0
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": said(history)}


@pytest.mark.parametrize("every", [1, 2, 5])
def test_the_cadence_can_be_chosen(rig: Rig, every: int) -> None:
    """`every_n_turns` user turns, counted over restarts."""
    released = list[int]()
    history = list[Message]()
    for number in range(5):
        session = rig.session(retain={"every_n_turns": every})
        history += [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.after_turn(history)
        if rig.states()["held"] == 0:
            released.append(number + 1)
    assert [turn for turn in released if turn % every == 0] == list(range(every, 6, every))


def test_a_turn_of_many_model_calls_is_one_turn(rig: Rig) -> None:
    """Tool calls and results don't count for the cadence."""
    session = rig.session(retain={"every_n_turns": 2})
    history = [user("Go.")]
    for number in range(6):
        history += [answer("", tool_calls=(ToolCall("step", {"n": number}),)), Message("tool", "no", name="step", failed=True)]
        session.before_turn(history)
    session.after_turn(history)
    assert set(rig.states()) == {"held"}


def test_close_lets_go_and_drains(rig: Rig) -> None:
    """The tail below the cadence is on the server when `close` returns."""
    bank = rig.open(retain={"every_n_turns": 10})
    with bank.session("s") as session:
        history = talk(session, 1)
    assert rig.texts() == {"lorebank:s:0": said(history)}


def test_close_of_one_session_lets_the_others_rows_be(rig: Rig) -> None:
    """Another conversation's cadence is its own."""
    bank = rig.open(retain={"every_n_turns": 10})
    other = bank.session("other")
    other.after_turn([user("I am held.")])
    with bank.session("s") as session:
        session.after_turn([user("I go.")])
    assert [text for found in rig.texts().values() for text in found] == ["I go."]
    assert rig.states()["held"] == 1


def test_retain_now_lets_go_at_once(rig: Rig) -> None:
    """And begins the count anew."""
    session = rig.session(retain={"every_n_turns": 3})
    history = talk(session, 2)
    assert session.retain_now().left == 0
    assert rig.texts() == {"lorebank:s:0": said(history)}
    for number in range(2, 5):
        assert rig.states()["held"] == number - 2
        history += [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.after_turn(history)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": said(history)}


def until(rig: Rig, bank: Bank, state: str = "held") -> None:
    """Waits until the sender has let go what is held; it is not asked to."""
    sender = bank.connections.backend.sender  # type: ignore[attr-defined]
    for _ in range(2_000):
        if rig.states()[state] == 0:
            return
        sender.wait(0.05)
    raise AssertionError(rig.states())


def test_what_is_idle_is_let_go(rig: Rig) -> None:
    """A session that nobody closes: after five minutes its rows go by themselves."""
    bank = rig.open(retain={"every_n_turns": 10})
    session = bank.session("s")
    session.after_turn([user("One.")])
    sender = bank.connections.backend.sender  # type: ignore[attr-defined]
    assert sender.started
    sender._chores_at = 0.0
    sender.wake()
    sender.wait(5.0)
    assert rig.states() == {"held": 1}
    rig.sql("UPDATE outbox SET created = created - 301, since = since - 301")
    sender._born -= 400
    sender._chores_at = 0.0
    sender.wake()
    until(rig, bank)
    assert bank.flush(timeout=30, until="completed").left == 0
    assert rig.texts() == {"lorebank:s:0": ["One."]}


def test_what_a_dead_process_held_is_let_go_by_the_next_start(rig: Rig) -> None:
    """Its sessions are not opened again: whoever opens any bank of the server delivers it."""
    first = rig.open(retain={"every_n_turns": 10})
    first.session("s").after_turn([user("One.")])
    first.connections.backend.sender.stop(5.0)  # type: ignore[attr-defined]  # as good as dead
    second = rig.open("bob")
    second.recall("anything at all")
    until(rig, second)
    assert second.flush(timeout=30, until="completed").left == 0
    assert rig.texts() == {"lorebank:s:0": ["One."]}


def test_a_start_that_only_talks_lets_go_too(rig: Rig) -> None:
    """The first turn of another session is a start as well."""
    first = rig.open(retain={"every_n_turns": 10})
    first.session("s").after_turn([user("One.")])
    first.connections.backend.sender.stop(5.0)  # type: ignore[attr-defined]
    second = rig.open(retain={"every_n_turns": 10})
    second.session("t").after_turn([user("Two.")])
    for _ in range(2_000):
        if "lorebank:s:0" in rig.texts():
            break
        second.connections.backend.sender.wait(0.05)  # type: ignore[attr-defined]
    assert rig.texts()["lorebank:s:0"] == ["One."]


# --- cancelled runs


@pytest.mark.parametrize(("setting", "kept"), [("user", ["Go."]), ("partial", ["Go.", "I am about"])])
@pytest.mark.parametrize("before", [True, False], ids=["before_turn", "without before_turn"])
def test_a_cancelled_run_keeps_the_users_words(rig: Rig, setting: str, kept: list[str], before: bool) -> None:
    """And nothing of the half answer, unless `on_cancel="partial"`."""
    session = rig.session(retain={"on_cancel": setting})
    if before:
        session.before_turn([user("Go.")])
    receipt = session.after_turn([user("Go."), answer("I am about")], cancelled=True)
    assert receipt.passed == (1 if setting == "user" else 0)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": kept}


@pytest.mark.parametrize("history", ["full", "delta"])
def test_half_an_answer_never_resurfaces(rig: Rig, history: Any) -> None:
    """The host leaves it in its history: it stays out; the whole answer of the next try is kept."""
    session = rig.session()
    first = [user("Go."), answer("I am about")]
    session.before_turn(first[:1], history=history, run_id="r1")
    session.after_turn(first, history=history, run_id="r1", cancelled=True)
    second = [user("Go on."), answer("I am about to leave.")]
    given = second if history == "delta" else [*first, *second]
    session.before_turn(given[:-1], history=history, run_id="r2")
    session.after_turn(given, history=history, run_id="r2")
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["Go.", "Go on.", "I am about to leave."]}


def test_a_run_that_broke_off_before_any_answer_keeps_the_question(rig: Rig) -> None:
    """`cancelled` with the user's message alone."""
    session = rig.session()
    assert session.after_turn([user("Go.")], cancelled=True).passed == 0
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["Go."]}


def test_a_cancelled_run_keeps_what_stood_before_it(rig: Rig) -> None:
    """Only what follows the newest user message is half an answer."""
    session = rig.session()
    session.after_turn([user("One."), answer("Two."), user("Three."), answer("Fo")], cancelled=True)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["One.", "Two.", "Three."]}
