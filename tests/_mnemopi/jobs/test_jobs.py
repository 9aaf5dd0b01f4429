"""Follow-up work: when it begins, that it is done once, and that a kill loses none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lorebank import Bank, UsageError, open_bank
from lorebank.testing import ScriptedCompleter

Worked = Callable[..., Bank]
Look = Callable[[str], list[Any]]


def silent() -> ScriptedCompleter:
    return ScriptedCompleter(lambda _prompt: {"facts": []})


class Gated:
    """A completer that says when it is asked, and answers when it may."""

    def __init__(self) -> None:
        self.begun, self.gate, self.count = threading.Event(), threading.Event(), 0

    def complete(self, prompt: str, **_options: Any) -> str:
        self.count += 1
        self.begun.set()
        assert self.gate.wait(30)
        return '{"facts": [{"text": "The cello is in the attic.", "message": 1, "subject": "", "relation": "", "value": ""}]}'


def test_work_begins_when_enough_is_new(url: str, worked: Worked) -> None:
    """Until then a completer is not asked, however often somebody flushes."""
    completer = silent()
    bank = worked(url, completer, after=3, consolidation=False)
    for number in range(2):
        bank.retain(f"note {number}")
        assert bank.flush().done
    assert completer.asked == []
    bank.retain("note 2")
    assert bank.flush().done
    assert len(completer.asked) == 1


@pytest.mark.parametrize(("wait", "due"), [("idle", 301), ("age", 3601)])
def test_work_begins_when_nothing_came_for_a_while_or_the_first_has_waited_long(
    url: str, worked: Worked, clock: Any, wait: str, due: int
) -> None:
    """By the clock of the backend."""
    completer = silent()
    bank = worked(url, completer, **({"idle": 300} if wait == "idle" else {"age": 3600, "idle": 86400}), consolidation=False)
    bank.retain("note 1")
    assert bank.flush().done
    clock.now += timedelta(seconds=due - 2)
    assert bank.flush().done
    assert completer.asked == []
    clock.now += timedelta(seconds=2)
    assert bank.flush().done
    assert len(completer.asked) == 1


def test_what_an_earlier_process_left_is_done_by_the_next(url: str, worked: Worked, clock: Any) -> None:
    """As soon as it uses the file, where the memories have waited long enough."""
    worked(url).retain("note 1")
    clock.now += timedelta(hours=1)
    completer = silent()
    bank = worked(url, completer, consolidation=False)
    bank.recall("anything?")
    assert bank.flush().done
    assert len(completer.asked) == 1


@pytest.mark.parametrize("follow_up", [{"extraction": False}, {"extraction": False, "consolidation": False}])
def test_what_is_switched_off_is_not_done(url: str, worked: Worked, follow_up: dict[str, bool]) -> None:
    """Nothing is asked of the completer."""
    completer = ScriptedCompleter([])
    bank = worked(url, completer, **follow_up)
    bank.retain("note 1")
    assert bank.flush(until="completed").done
    assert completer.asked == []


def test_without_a_completer_nothing_is_written_on_its_own(url: str, worked: Worked) -> None:
    """Observations come when somebody asks for them, or says that they are to come."""
    texts = [f"Ana had an aisle seat on the flight to {city}." for city in ("Lima", "Oslo", "Rome", "Turku")]
    for consolidation, there in ((None, False), (True, True)):
        bank = worked(f"{url}.{there}", consolidation=consolidation)
        bank.retain(texts)
        assert bank.flush(until="completed").done
        assert ("observation" in bank.stats().by_type) is there


def test_memory_goes_on_while_a_completer_thinks(url: str, worked: Worked, look: Look) -> None:
    """Nothing is locked; a flush that is bounded says that it waits; close does not wait for the answer, and leaves the work to
    the next.
    """
    completer = Gated()
    bank = worked(url, completer, after=1, consolidation=False)
    bank.retain("Up there in the attic is grandma's cello, under a blanket.")
    assert completer.begun.wait(10)
    bank.retain("The harp is in the hall.")
    assert bank.recall("Where is the harp?")[0].text == "The harp is in the hall."
    report = bank.flush(timeout=0.05)
    assert (report.done, "goes on" in str(report.reason)) == (False, True)
    started = time.monotonic()
    bank.close()
    assert time.monotonic() - started < 10
    assert look("SELECT owner FROM jobs") == [None]
    completer.gate.set()
    again = Gated()
    again.gate.set()
    assert worked(url, again, consolidation=False).flush(until="completed").done
    assert look("SELECT count(*) FROM memories WHERE source = 'extraction'") == [1]


def elsewhere(bank: Bank, until: Any) -> bool:
    """Whether `flush` says at last that another process does the work: on a busy machine it may still be looking."""
    return any("another process" in str(bank.flush(timeout=0.5, until=until).reason) for _ in range(40))


def test_two_at_once_ask_a_completer_once(place: str, worked: Worked) -> None:
    """One holds the lease, the other leaves it the work; when that one dies, its lease runs out."""
    first, second = Gated(), Gated()
    one, two = worked(place, first, after=1, consolidation=False), worked(place, second, after=1, consolidation=False)
    one.retain("Up there in the attic is grandma's cello, under a blanket.")
    assert first.begun.wait(10)
    two.recall("the cello?")
    assert elsewhere(two, "accepted")
    first.gate.set()
    assert one.flush().done
    assert (first.count, second.count) == (1, 0)
    assert one.stats().by_source == {"app": 1, "extraction": 1}


KILLED = """
import os, sys
from lorebank import FollowUp, MnemopiSettings, open_bank
class Dying:
    def complete(self, prompt, *, schema=None, max_tokens):
        print("asked", flush=True)
        sys.stdin.readline()
bank = open_bank(sys.argv[1], bank="alice", completer=Dying(), mnemopi={"follow_up": {"after": 1, "consolidation": False}})
bank.retain("Up there in the attic is grandma's cello, under a blanket.")
bank.flush()
"""


def test_a_kill_while_a_completer_thinks_loses_nothing(url: str, worked: Worked, look: Look, clock: Any) -> None:
    """The memory is there; the next process waits for the lease to run out, and does the work."""
    command = [sys.executable, "-c", KILLED, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGKILL)
    [(leased,)] = [look("SELECT leased FROM jobs WHERE owner IS NOT NULL")]
    completer = Gated()
    completer.gate.set()
    clock.now = clock.now.fromtimestamp(leased / 1e6, clock.now.tzinfo) - timedelta(seconds=1)
    bank = worked(url, completer, consolidation=False)
    assert elsewhere(bank, "completed")
    assert completer.count == 0
    clock.now += timedelta(seconds=2)
    assert bank.flush(until="completed").done
    assert (completer.count, bank.stats().by_source) == (1, {"app": 1, "extraction": 1})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_its_own_work(url: str) -> None:
    """The parent's thread does not come along."""
    code = """
import os, sys
from lorebank import open_bank
from lorebank.testing import ScriptedCompleter
completer = ScriptedCompleter(lambda prompt: {"facts": []})
bank = open_bank(sys.argv[1], bank="alice", completer=completer, mnemopi={"follow_up": {"after": 1, "consolidation": False}})
bank.retain("note 1")
assert bank.flush().done
child = os.fork()
bank.retain(f"note of {bool(child)}")
assert bank.flush().done
bank.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code, url], timeout=60, check=False).returncode == 0


def test_settings_are_checked(url: str) -> None:
    """An unknown name or a number out of range is refused at construction."""
    for wrong in ({"after": 0}, {"idle": -1}, {"often": True}, {"tokens_per_day": -1}):
        with pytest.raises(UsageError):
            open_bank(url, mnemopi={"follow_up": wrong})
