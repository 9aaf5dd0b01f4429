"""A bank in several processes: after a fork, and sent to workers."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from lorebank import Bank

FORKED = """
import asyncio, multiprocessing, os, sys
from lorebank import open_bank
bank = open_bank(sys.argv[1], bank="alice")
bank.retain("before the fork")
if sys.argv[2] == "async":
    asyncio.run(bank.aretain("before the fork, awaited"))

def live():
    bank.retain("child, blocking")
    asyncio.run(bank.aretain("child, awaited"))
    assert {"before the fork", "child, blocking", "child, awaited"} <= {memory.text for memory in bank.list()}
    bank.close()

if sys.argv[3] == "os":
    if (child := os.fork()) == 0:
        try:
            live()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
else:
    process = multiprocessing.get_context("fork").Process(target=live)
    process.start()
    process.join()
    code = process.exitcode
bank.retain("parent, blocking")
asyncio.run(bank.aretain("parent, awaited"))
print(code, len(bank.list()), bank.check().ok)
bank.close()
"""


OUTLIVED = """
import os, sys
from lorebank import open_bank
bank = open_bank(sys.argv[1], bank="alice")
bank.retain("parent, before")
go, told = os.pipe()
if (child := os.fork()) == 0:
    bank.retain("child, while the parent lives")
    os.read(go, 1)
    bank.retain("child, after the parent closed")
    os._exit(0)
bank.close()
os.write(told, b"x")
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
again = open_bank(sys.argv[1], bank="alice")
print(code, sorted(memory.text for memory in again.list()))
again.close()
"""

WHILE_WRITING = """
import os, sys, threading
from lorebank import open_bank
bank = open_bank(sys.argv[1], bank="alice", mnemopi={"busy_timeout": 10})
bank.retain("parent, before")
stop = threading.Event()
def write(name):
    count = 0
    while not stop.is_set():
        bank.retain(f"{name} {count}")
        count += 1
writers = [threading.Thread(target=write, args=(f"writer {n}",)) for n in range(4)]
for writer in writers:
    writer.start()
codes = []
for turn in range(10):
    if (child := os.fork()) == 0:
        os._exit(len(bank.retain(f"child {turn}").stored) - 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
for writer in writers:
    writer.join()
found = {memory.text for memory in bank.list(limit=100_000)}
print(set(codes), sum(f"child {turn}" in found for turn in range(10)), bank.check().ok)
bank.close()
"""


def script(code: str, *arguments: str) -> str:
    """What a program of its own prints; it must end well and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize(("before", "how", "expected"), [("sync", "os", "0 5 True"), ("sync", "multiprocessing", "0 5 True")])
def test_a_bank_works_on_both_sides_of_a_fork(url: str, before: str, how: str, expected: str) -> None:
    """Parent and child go on with the same bank, blocking and awaited; nothing is lost or damaged."""
    assert script(FORKED, url, before, how) == expected


@pytest.mark.parametrize("how", ["os", "multiprocessing"])
def test_a_bank_whose_threads_run_works_after_a_fork(url: str, how: str) -> None:
    """The parent's threads don't come along; the child builds its own."""
    code = f"import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n{FORKED}"
    assert script(code, url, "async", how) == "0 6 True"


def test_a_child_that_outlives_its_parent_s_bank_loses_nothing(url: str) -> None:
    """The parent's close takes no log away from the child: what the child was told later is there."""
    told = ["child, after the parent closed", "child, while the parent lives", "parent, before"]
    assert script(OUTLIVED, url) == f"0 {told}"


def test_a_fork_in_the_midst_of_writing_leaves_both_sides_writing(url: str) -> None:
    """Ten forks while four threads write: each child writes at once, and all of it is there."""
    assert script(WHILE_WRITING, url) == "{0} 10 True"


def test_a_bank_travels_to_other_processes(bank: Bank) -> None:
    """Bound verbs can be sent to worker processes, which write to the same file."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        receipts = list(pool.map(bank.retain, ["fact one", "fact two", "fact three"]))
    assert [len(receipt.stored) for receipt in receipts] == [1, 1, 1]
    assert sorted(memory.text for memory in bank.list()) == ["fact one", "fact three", "fact two"]


CLOSING = """
import os, sys, threading, time
from lorebank import open_bank
from lorebank._database.sqlite import LiveFile

bank = open_bank(sys.argv[1], bank="alice")
bank.retain("before the fork")
database = bank._connections.backend.database
begun, closed, dispose = threading.Event(), [], LiveFile.dispose

def slowly(live):
    if threading.current_thread() is not threading.main_thread():
        begun.set()
        while not database._uses._paused:
            time.sleep(0.001)
        closed.append(True)
    dispose(live)

LiveFile.dispose = slowly
thread = threading.Thread(target=database.close)
thread.start()
begun.wait()
if (child := os.fork()) == 0:
    os._exit(0 if closed else 1)
thread.join()
print(os.waitpid(child, 0)[1])
"""


def test_a_fork_waits_for_a_thread_that_closes_the_database(file: Path) -> None:
    """A child that is forked in the midst of it would inherit SQLite's lock, and wait for ever."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSING, f"sqlite:///{file}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0\n"
