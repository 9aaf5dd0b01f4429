"""Users, projects and sessions side by side in one process: nothing of one ever reaches another.

`LOREBANK_ISOLATION_TURNS` is how many turns a test takes on a file, each one mixed recall; on a server it takes a sixth of them.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Injection, Message, Seed, open_bank
from lorebank._domain.session import Mode
from lorebank.testing import FaultServer

TURNS = int(os.environ.get("LOREBANK_ISOLATION_TURNS", "360"))
THREADS = 64
SESSIONS = ("talk", "talk-2", "main")
SEED = Seed("secrets", "Secrets", "Which secret colour is it?", 400)
ASKED = "Which secret colour is it, and what was said before?"


@dataclass(frozen=True)
class Home:
    """One owner's place: a user, or a user's project; `name` stands in everything that belongs to it."""

    bank: Bank
    name: str


def secret(name: str, what: str) -> str:
    """All owners speak of the same things in the same words; only the owner differs."""
    return f"The secret colour of owner-{name} is blue, as {what} said."


def owners(text: str) -> set[str]:
    """Whom a text speaks of."""
    return {word.removeprefix("owner-").strip(".,;:?!\"'") for word in text.split() if word.startswith("owner-")}


class Place:
    """Homes on one file or one server, each with facts of its own."""

    def __init__(self, url: str, folder: Path, stack: ExitStack, server: FaultServer | None) -> None:
        self.server, self.turns = server, TURNS if url.startswith("sqlite") else TURNS // 6
        options: dict[str, Any] = {
            "mental_models": {"seeds": (SEED,), "first_wait": 20.0},
            "recall": {"limit": 50, "max_tokens": 20_000, "deadline": 60.0, "keep_traces": 1},
            "retain": {"every_n_turns": 5},
            "connection": {"close_timeout": 30},
        }
        if server is not None:
            options |= {"ledger": f"sqlite:///{folder / 'outbox.db'}", "outbox": {"batch_seconds": 0.05}}
        plain = stack.enter_context(open_bank(url, bank="ana", **options))
        atlas = stack.enter_context(open_bank(url, bank="carl", project="atlas", scoping="per-project", **options))
        zeus = stack.enter_context(open_bank(url, bank="carl", project="zeus", scoping="per-project", **options))
        self.homes = [
            Home(plain, "ana"),
            Home(plain.named("ben"), "ben"),
            Home(plain.named("ana-atlas"), "ana-atlas"),
            Home(atlas, "atlas"),
            Home(zeus, "zeus"),
            Home(atlas.named("dora"), "dora-atlas"),
        ]
        for home in self.homes:
            home.bank.retain([secret(home.name, f"witness {n}") for n in range(3)])
        for bank in (plain, atlas, zeus):
            assert bank.flush(timeout=60, until="completed").left == 0

    def kept(self, home: Home) -> list[tuple[str, tuple[str, ...], str | None]]:
        """Text, tags and session of all that a home holds."""
        if self.server is None:
            found = home.bank.list(limit=100_000, state="all")
            return [(memory.text, memory.tags, memory.session) for memory in found]
        view = self.server.bank(home.bank.scope.bank)
        return [
            (text, view.tags[name], name.split(":")[1] if name.count(":") == 2 else None) for name, text in view.documents.items()
        ]


@pytest.fixture(params=["mnemopi", pytest.param("mnemopi+postgres", marks=pytest.mark.postgres), "hindsight"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        if request.param == "mnemopi":
            yield Place(f"sqlite:///{tmp_path / 'memory.db'}", tmp_path, stack, None)
        elif request.param == "mnemopi+postgres":
            yield Place(request.getfixturevalue("postgres_url"), tmp_path, stack, None)
        else:
            server = stack.enter_context(FaultServer())
            yield Place(server.url, tmp_path, stack, server)


def foreign(home: Home, given: Injection) -> set[str]:
    """Whom a turn was told of, beside its owner."""
    result = given.result
    assert result is not None
    assert result.state in ("found", "nothing"), result
    texts = [given.memories, given.system_prefix, *(memory.text for memory in result)]
    return {name for text in texts for name in owners(text)} - {home.name}


def test_turns_of_many_users_never_meet(place: Place) -> None:
    """64 threads, mixed users, projects and sessions of the same names: each turn sees and keeps its owner's alone."""
    chance = random.Random(7)
    shares = [(chance.choice(place.homes), chance.choice(SESSIONS), number) for number in range(place.turns)]
    told = list[tuple[str, str]]()

    def take(share: tuple[Home, str, int]) -> list[str]:
        home, name, number = share
        wrong = list[str]()
        with home.bank.session(name) as session:
            run = [Message("user", f"{ASKED} Number {number} of owner-{home.name} asks.")]
            given = session.before_turn(run, history="delta", run_id=f"r{number}")
            wrong += [f"{home.name} was told of {other}" for other in foreign(home, given)]
            run.append(Message("assistant", f"Turn {number} is answered for owner-{home.name} without any further news."))
            receipt = session.after_turn(run, history="delta", run_id=f"r{number}")
            wrong += [] if receipt.new == 1 else [f"{home.name} lost turn {number}: {receipt}"]
            trace = session.last_recall()
            wrong += [] if trace is None or owners(trace.query) <= {home.name} else [f"{home.name} saw a foreign trace"]
            told.append((home.name, run[0].text))
        return wrong

    with ThreadPoolExecutor(THREADS) as pool:
        assert [wrong for wrongs in pool.map(take, shares) for wrong in wrongs] == []
    for home in place.homes:
        assert home.bank.flush(timeout=60, until="completed").left == 0
        texts = [text for text, _, _ in place.kept(home)]
        assert {name for text in texts for name in owners(text)} == {home.name}
        whole = "\n".join(texts)
        assert [text for name, text in told if name == home.name and whole.count(text) != 1] == []


def test_choices_of_many_sessions_never_meet(place: Place) -> None:
    """Modes, switches, tags and skips that change all the time: each session has its owner's, and does what they say."""
    modes: tuple[Mode, ...] = ("normal", "read-only", "ignored", "tools-only")
    places = [(home, name) for home in place.homes for name in SESSIONS]
    each = max(place.turns // len(places) // 2, 3)

    def live(task: tuple[int, tuple[Home, str]]) -> list[str]:
        seed, (home, name) = task
        chance, wrong = random.Random(seed), list[str]()
        tag = f"{home.name}/{name}"
        for number in range(each):
            with home.bank.session(name) as session:
                mode = chance.choice(modes)
                session.mode = mode
                session.tags.add(tag)
                skipped = chance.random() < 0.2
                if skipped:
                    session.skip_next()
                marker = f"{'kept' if mode == 'normal' and not skipped else 'secret'} {home.name} {name} {number}"
                run = [Message("user", f"Remember this {marker} of owner-{home.name} here.")]
                given = session.before_turn(run, history="delta", run_id=f"r{number}")
                session.after_turn(run, history="delta", run_id=f"r{number}")
                if (given.result is not None) != (mode in ("normal", "read-only")) or session.mode != mode:
                    wrong.append(f"{tag} is {session.mode} instead of {mode}")
                if set(session.tags) != {tag}:
                    wrong.append(f"{tag} has the tags {set(session.tags)}")
                if (session.refusal("recall") is None) != (mode != "ignored"):
                    wrong.append(f"{tag} in {mode}: {session.refusal('recall')}")
        return wrong

    with ThreadPoolExecutor(THREADS) as pool:
        assert [wrong for wrongs in pool.map(live, enumerate(places)) for wrong in wrongs] == []
    for home in place.homes:
        assert home.bank.flush(timeout=60, until="completed").left == 0
        for text, tags, name in place.kept(home):
            assert "Remember this secret" not in text
            if "Remember this kept" in text:
                assert set(tags) == {f"{home.name}/{name}"}


def test_histories_of_the_same_words_and_ids_never_meet(place: Place) -> None:
    """The very same messages with the same host ids, in every home and every session at once: each keeps its own once."""
    history = [Message("user" if n % 2 == 0 else "assistant", f"Sentence {n} that everybody says.", id=f"m{n}") for n in range(8)]
    places = [(home, name) for home in place.homes for name in SESSIONS]
    barrier = threading.Barrier(len(places))

    def live(task: tuple[Home, str]) -> list[int]:
        home, name = task
        barrier.wait(60)
        with home.bank.session(name) as session:
            return [session.after_turn(history[: 2 * n]).new for n in (1, 2, 3, 4)]

    with ThreadPoolExecutor(len(places)) as pool:
        counts = list(pool.map(live, places))
    assert counts == [[2, 2, 2, 2]] * len(places)
    for home in place.homes:
        assert home.bank.flush(timeout=60, until="completed").left == 0
        whole = "\n".join(text for text, _, _ in place.kept(home))
        assert {whole.count(message.text) for message in history} == {len(SESSIONS)}


def test_cached_models_never_meet(place: Place) -> None:
    """Mental models of all homes are read at once by 64 threads: each prefix speaks of its owner alone, and does speak."""
    chance = random.Random(3)
    shares = [chance.choice(place.homes) for _ in range(max(place.turns // 2, THREADS))]

    def read(home: Home) -> tuple[str, set[str]]:
        with home.bank.session(chance.choice(SESSIONS)) as session:
            session.mode = "read-only"
            return home.name, owners(session.before_turn([Message("user", "?")]).system_prefix)

    with ThreadPoolExecutor(THREADS) as pool:
        seen = list(pool.map(read, shares))
    assert [(name, found) for name, found in seen if not found <= {name}] == []
    assert {name for name, found in seen if found} == {home.name for home in place.homes}


def test_forgetting_one_session_leaves_its_namesakes(place: Place) -> None:
    """The same session id in other homes keeps its words, its traces and its choices."""
    one, *others = place.homes
    for home in place.homes:
        with home.bank.session("talk") as session:
            session.tags.add("x")
            session.before_turn([Message("user", f"{ASKED} This is owner-{home.name} again.")])
    for home in place.homes:
        assert home.bank.flush(timeout=60, until="completed").left == 0
    one.bank.forget(session="talk")
    for home in others:
        assert any("again" in text for text, _, _ in place.kept(home))
        with home.bank.session("talk") as session:
            trace = session.last_recall()
            assert trace is not None
            assert owners(trace.query) == {home.name}
            assert set(session.tags) == {"x"}
    assert not any("again" in text for text, _, _ in place.kept(one))
