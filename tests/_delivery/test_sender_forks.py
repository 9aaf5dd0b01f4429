"""A forked child delivers by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORKED = """
import json, os, sys, time
from lorebank._delivery.sender import Sender
from lorebank._domain.operations import Operation
from lorebank._domain.settings import OutboxSettings
from lorebank._forks import Forkable, watch_forks
from lorebank._ledger import inspection
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.values import Bounds, Draft, Route

class Server:
    def prepare(self, bank): pass
    def submit(self, bank, body): return "x"
    def close(self): pass
    def progress(self, bank, operation): return Operation(operation, "completed")

class Again(Forkable):
    def after_fork(self): sender.reset()

route, ledger, again = Route("http://server"), Ledger(sys.argv[1], moved=print), Again()
sender = Sender(ledger, Server(), route, OutboxSettings(batch_seconds=0.02), deadline=1.0, tell=print)
watch_forks(again)

def deliver(name, count):
    body = json.dumps({"content": name, "document_id": name})
    ledger.enqueue(route, [Draft("b", name, body, name)], Bounds(99, 99999, 1e6), time.time())
    sender.nudge(1)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if ledger.read(lambda c: inspection.status(c, route, None)).rows.get("completed", 0) >= count:
            return 0
        sender.wait(0.05)
    return 1

assert deliver("parent", 1) == 0
if (child := os.fork()) == 0:
    os._exit(deliver("child", 2))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, deliver("parent again", 3))
sender.stop(2)
ledger.close()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_forked_child_delivers_by_itself(url: str) -> None:
    """Both sides of a fork go on, each with a thread of its own."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, url]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (finished.stdout.strip(), finished.stderr) == ("0 0", "")
