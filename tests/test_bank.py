"""`Bank` and `open_bank`: loops, threads, forks, pickles, closing, the kill switch, times, bounds."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster, BlockingError

from lorebank import Bank, Item, UnavailableError, UsageError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import Event, MemoryTools, Redacted

FACT = "Ana plays the cello."


def texts(bank: Bank) -> list[str]:
    return sorted(memory.text for memory in bank.list())


def script(code: str, *arguments: str) -> str:
    """What a program of its own prints; it must end well and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("lorebank")]


# Loops and threads


def test_a_second_loop_works_like_the_first(bank: Bank) -> None:
    """`asyncio.run` twice, with blocking calls before, between and after."""
    bank.retain("fact one")
    asyncio.run(bank.aretain("fact two"))
    bank.retain("fact three")
    asyncio.run(bank.aretain("fact four"))
    assert len(asyncio.run(bank.alist())) == len(bank.list()) == 4


async def test_a_blocking_call_inside_a_running_loop_works(bank: Bank) -> None:
    """As in a notebook: blocking and awaited calls take turns in one loop."""
    bank.retain("fact one")
    await bank.aretain("fact two")
    assert texts(bank) == ["fact one", "fact two"]
    assert len(await bank.alist()) == 2


def test_many_threads_share_a_bank(bank: Bank) -> None:
    """16 threads write and read at once; nothing is lost, each finds its own."""

    def live(number: int) -> list[str]:
        bank.retain(f"note{number} was taken")
        return [memory.text for memory in bank.recall(f"note{number}")]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(live, range(64)))
    assert found == [[f"note{number} was taken"] for number in range(64)]
    assert len(bank.list()) == 64


def test_several_loops_at_once_share_a_bank(bank: Bank) -> None:
    """A loop in each of six threads, each with calls in flight at once."""

    async def live(number: int) -> int:
        await asyncio.gather(*(bank.aretain(f"note {number} {part}") for part in range(5)))
        return len(await bank.arecall(f"note {number}", limit=100))

    with ThreadPoolExecutor(6) as pool:
        assert all(found >= 5 for found in pool.map(lambda number: asyncio.run(live(number)), range(6)))
    assert len(bank.list()) == 30


async def test_many_calls_of_one_loop_run_together(bank: Bank) -> None:
    """More calls than threads in the pool: all are done."""
    await asyncio.gather(*(bank.aretain(f"note {number}") for number in range(60)))
    assert len(await bank.alist()) == 60


@pytest.fixture
async def blockbuster() -> AsyncIterator[BlockBuster]:
    """Raises in the loop's thread on whatever would block it."""
    buster = BlockBuster()
    buster.activate()
    yield buster
    buster.deactivate()


async def test_awaited_verbs_never_block_the_loop(bank: Bank, blockbuster: BlockBuster) -> None:
    """No file, database or lock is waited for in the loop's thread; what does block is caught."""
    known = (await bank.aretain([FACT, "Ben plays the harp."])).stored[0].id
    assert (await bank.arecall("cello")).state == "found"
    await bank.areflect("cello")
    await bank.aget(str(known))
    await bank.aupdate(str(known), content="Ana plays the drum.")
    await bank.ainvalidate(str(known))
    await bank.mental_models.aensure()
    await MemoryTools(bank).arecall("harp")
    await asyncio.gather(bank.astats(), bank.ahealth(), bank.acheck(), bank.aexplain("harp"), bank.alist())
    await bank.aforget(str(known))
    await bank.aflush()
    await bank.aclose()
    with pytest.raises(BlockingError):
        time.sleep(0.001)  # noqa: ASYNC251 - shows that the detector is on


async def test_a_cancelled_await_returns_at_once_and_the_write_goes_on(url: str) -> None:
    """The caller is free although the verb is still at work; what was begun is finished."""
    begun, free = threading.Event(), threading.Event()

    def gate(item: Item) -> Item:
        begun.set()
        assert free.wait(30)
        return item

    async with open_bank(url, retain={"before_enqueue": gate}) as bank:
        task = asyncio.create_task(bank.aretain(FACT))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not free.is_set()
        free.set()
        async with asyncio.timeout(30):
            while not (found := await bank.alist()):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        assert [memory.text for memory in found] == [FACT]


# Copies


def test_a_pickled_bank_is_the_same_bank(url: str) -> None:
    """Settings travel, listeners and connections don't."""
    events: list[Event] = []
    with open_bank(url, bank="alice", project="Atlas", shared="team", on_event=events.append, recall={"limit": 3}) as bank:
        bank.retain(["Note one.", "Note two.", "Note three.", "Note four."])
        with pickle.loads(pickle.dumps(bank)) as twin:  # noqa: S301 - our own bytes
            assert (twin.scope, twin.name, len(twin.recall("note"))) == (bank.scope, "alice", 3)
            twin.retain("password=hunter2hunter2")
            assert events == []
        assert len(bank.list()) == 5


def test_a_deep_copy_is_the_bank_itself(bank: Bank) -> None:
    """Frameworks copy what they are given: a copy shares the connections and nothing breaks."""
    assert copy.deepcopy({"bank": [bank]}) == {"bank": [bank]}
    assert copy.copy(bank).retain(FACT).stored[0].id == bank.list()[0].id


def test_a_bank_with_a_clock_of_its_own_is_not_pickled(url: str) -> None:
    """What can't travel says so."""
    with (
        open_bank(backend=MnemopiBackend(url, clock=lambda: datetime.now(UTC))) as bank,
        pytest.raises(UsageError, match="clock"),
    ):
        pickle.dumps(bank)


# Opening and closing


def test_named_banks_share_the_connections_and_nothing_else(bank: Bank) -> None:
    """Same file, same settings, other memories; names are checked."""
    bob = bank.named("bob")
    bank.retain("alice's")
    bob.retain("bob's")
    assert (texts(bank), texts(bob), texts(bob.named("alice"))) == (["alice's"], ["bob's"], ["alice's"])
    assert (bob.connections is bank.connections, bob.name, repr(bob)) == (True, "bob", "<Bank 'bob' on mnemopi>")


async def test_banks_are_context_managers_of_both_kinds(url: str) -> None:
    """Leaving closes; what was written is there for the next."""
    with open_bank(url) as first:
        first.retain(FACT)
    async with open_bank(url) as second:
        assert [memory.text for memory in await second.alist()] == [FACT]
    for closed in (first, second):
        with pytest.raises(UsageError, match="closed"):
            closed.list()
        with pytest.raises(UsageError, match="closed"):
            await closed.alist()
        with pytest.raises(UsageError, match="closed"):
            closed.named("bob")


async def test_closing_ends_the_banks_threads(url: str) -> None:
    """Closing twice, or calling a closed bank, leaves no thread behind."""
    before = workers()
    bank = open_bank(url)
    await bank.aretain(FACT)
    await bank.aclose()
    await bank.aclose()
    with pytest.raises(UsageError, match="closed"):
        await bank.alist()
    started = [thread for thread in workers() if thread not in before]
    for thread in started:
        await asyncio.to_thread(thread.join, 2)
    assert [thread.name for thread in started if thread.is_alive()] == []


@pytest.mark.parametrize(
    "options",
    [
        {"bank": ""},
        {"bank": None},
        {"scoping": "per-team"},
        {"scoping": "per-project"},
        {"on_failure": "ignore"},
        {"recall": {"limt": 3}},
        {"recall": {"limit": 0}},
        {"retain": {"timezone": "Mars/Base"}},
        {"mnemopi": {"floor": 2}},
        {"mnemopi": {"synchronous": "off"}},
        {"recall": 5},
        {"shared": "a/b"},
        {"project": ""},
        {"completer": object()},
        {"embedder": object()},
        {"ledger": "sqlite:///x"},
    ],
    ids=lambda options: repr(options)[:20],
)
def test_bad_options_are_refused_at_construction(url: str, file: Path, options: dict[str, Any]) -> None:
    """A wrong setting is a `UsageError` before anything is opened."""
    with pytest.raises(UsageError):
        open_bank(url, **options)
    assert not file.exists()


def test_a_url_and_a_backend_are_not_mixed(url: str) -> None:
    """One or the other."""
    with pytest.raises(UsageError, match="not both"):
        open_bank(url, backend=MnemopiBackend(url))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The default file."""
    return tmp_path / "data" / "lorebank" / "memory.db"


def test_the_default_file_is_in_the_users_data_folder(data: Path) -> None:
    """Without a URL the main job runs with nothing set up; the bank is `default`."""
    with open_bank() as bank:
        bank.retain(FACT)
        assert bank.name == "default"
    assert data.is_file()


def test_the_environments_url_counts_where_none_is_passed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, file: Path, data: Path
) -> None:
    """An argument wins over `LOREBANK_URL`, which wins over `HINDSIGHT_API_URL`, which only names servers."""
    monkeypatch.setenv("HINDSIGHT_API_URL", f"sqlite:///{tmp_path / 'odd.db'}")
    with pytest.raises(UsageError, match="HINDSIGHT_API_URL"):
        open_bank()
    monkeypatch.setenv("HINDSIGHT_API_URL", "https://hindsight.example")
    with open_bank() as server:
        assert server.backend == "hindsight"
    monkeypatch.setenv("LOREBANK_URL", f"sqlite:///{tmp_path / 'env.db'}")
    for bank in (open_bank(), open_bank(url)):
        with bank:
            bank.retain(FACT)
    assert ((tmp_path / "env.db").is_file(), file.is_file(), data.exists()) == (True, True, False)


OFF = """
import os, sys
import lorebank._mnemopi.backend, lorebank.testing, asyncio
from lorebank import UnavailableError, open_bank
seen = []
def audit(event, arguments):
    if event.startswith(("sqlite3.", "socket.connect", "socket.getaddrinfo", "os.mkdir", "subprocess.")):
        seen.append(event)
    if event == "open" and str(arguments[0]).startswith(sys.argv[2]):
        seen.append(event)
sys.addaudithook(audit)
for options in ({}, {"url": sys.argv[1]}, {"url": "https://hindsight.example"}):
    with open_bank(options.get("url"), bank="alice", shared="team") as bank:
        for verb, arguments in (("retain", ["x y"]), ("recall", ["x"]), ("reflect", ["x"]), ("get", ["x"]), ("list", []),
                                ("forget", ["x"]), ("stats", []), ("check", []), ("purge", [])):
            try:
                getattr(bank, verb)(*arguments)
            except UnavailableError as error:
                assert "memory is off" in str(error)
            else:
                seen.append(verb)
        try:
            bank.mental_models.list()
        except UnavailableError:
            pass
        else:
            seen.append("models")
        assert not bank.health().ok
        assert bank.flush().done
print(seen)
"""


def test_the_kill_switch_does_no_io_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str) -> None:
    """`LOREBANK_URL=off` wins over every argument: no file, no socket; every verb says that memory is off."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    assert script(OFF, url, str(tmp_path)) == "[]"
    assert list(tmp_path.iterdir()) == []


def test_the_kill_switch_wins_over_a_backend(monkeypatch: pytest.MonkeyPatch, url: str, file: Path) -> None:
    """Not even a backend that was passed is used; bad input is still the caller's mistake."""
    monkeypatch.setenv("LOREBANK_URL", " OFF ")
    with open_bank(backend=MnemopiBackend(url)) as bank:
        with pytest.raises(UnavailableError, match="off"):
            bank.retain(FACT)
        with pytest.raises(UsageError):
            bank.retain("")
    assert not file.exists()


# Times, events, settings


@pytest.fixture
def berlin(url: str) -> Iterator[Bank]:
    with open_bank(url, retain={"timezone": "Europe/Berlin"}) as bank:
        yield bank


def test_naive_times_are_read_in_the_timezone_setting(berlin: Bank) -> None:
    """Summer and winter time of the zone; aware times keep their own."""
    naive = {"summer": datetime(2026, 7, 1, 12), "winter": datetime(2026, 1, 1, 12)}  # noqa: DTZ001 - meant
    for name, moment in naive.items():
        berlin.retain(f"in {name}", timestamp=moment, valid_until=moment.replace(year=2100))
    berlin.retain("aware", timestamp=datetime(2026, 4, 1, 12, tzinfo=UTC))
    found = {memory.text: memory for memory in berlin.list()}
    assert found["in summer"].mentioned_at == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert found["in winter"].mentioned_at == datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert found["in winter"].valid_until == datetime(2100, 1, 1, 11, tzinfo=UTC)
    assert found["aware"].mentioned_at == datetime(2026, 4, 1, 12, tzinfo=UTC)


def test_a_naive_query_moment_and_its_days_are_the_users(berlin: Bank) -> None:
    """00:30 in Berlin is the new day there, though not yet in UTC: "today" is the user's today."""
    berlin.retain("Ana practised the violin.", timestamp=datetime(2026, 7, 2, 8))  # noqa: DTZ001 - meant
    berlin.retain("Ana practised the trumpet.", timestamp=datetime(2026, 7, 1, 8))  # noqa: DTZ001 - meant
    now = datetime(2026, 7, 2, 0, 30)  # noqa: DTZ001 - meant
    assert berlin.recall("What did Ana practise yesterday?", query_timestamp=now)[0].text == "Ana practised the trumpet."
    assert berlin.recall("What did Ana practise today?", query_timestamp=now)[0].text == "Ana practised the violin."


def test_a_write_that_loses_secrets_tells_the_listener(url: str) -> None:
    """The event counts them; a listener that fails breaks nothing."""
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        raise ValueError("the listener's own fault")

    with open_bank(url, bank="alice", on_event=listen) as bank:
        assert bank.retain("password=hunter2hunter2 opens it").redactions == 1
    assert events == [Redacted("alice", 1)]


def test_the_redactor_may_be_switched_off(url: str) -> None:
    """What the user decides counts."""
    with open_bank(url, retain={"redactor": None}) as bank:
        assert bank.get(bank.retain("password=hunter2hunter2").stored[0].id).text == "password=hunter2hunter2"


def test_recall_settings_are_the_calls_defaults(url: str) -> None:
    """Limit, bound, types and score come from the bank's settings where the call names none."""
    with open_bank(url, recall={"limit": 2, "types": ["episode"], "min_score": 0.0}) as bank:
        bank.retain([{"content": f"The cello {n}.", "type": "experience" if n else "world"} for n in range(4)])
        assert [memory.type for memory in bank.recall("cello")] == ["experience", "experience"]
        assert len(bank.recall("cello", limit=9, types=["world", "experience"])) == 4
        assert bank.recall("cello", min_score=1e6).state == "nothing"
