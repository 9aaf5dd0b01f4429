"""A bank in several processes: after a fork, and sent to workers."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

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


def script(code: str, *arguments: str) -> str:
    """What a program of its own prints; it must end well and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
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


def test_a_bank_travels_to_other_processes(bank: Bank) -> None:
    """Bound verbs can be sent to worker processes, which write to the same file."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        receipts = list(pool.map(bank.retain, ["fact one", "fact two", "fact three"]))
    assert [len(receipt.stored) for receipt in receipts] == [1, 1, 1]
    assert sorted(memory.text for memory in bank.list()) == ["fact one", "fact three", "fact two"]
