"""A disk that is full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from lorebank._ledger.ledger import Ledger
from lorebank._ledger.values import Bounds, Draft, Route

ROUTE, OTHER_KEY = Route("http://server", "key"), Route("http://server", "other")
BOUNDS = Bounds(rows=20_000, bytes=1_000_000_000, age=1000.0)
NOW = 1_700_000_000.0
CONTENT = "the cello is under the stairs"


def written(document: str, text: str, *, append: bool = False) -> Draft:
    body = {"content": text, "document_id": document, "update_mode": "append" if append else "replace"}
    solo = not document.startswith("lorebank:item:")
    return Draft("alice", document, json.dumps(body), text, solo, "same" if append else None, None, not append)


FULL = """
import json, resource, signal, sys
from lorebank import UnavailableError
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.values import Bounds, Draft, Route
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger, told, kept = Ledger(sys.argv[1], moved=print), 0, 0
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
for n in range(40):
    drafts = [Draft("b", f"d{n}-{part}", "x" * 10_000, str(n)) for part in range(3)]
    try:
        kept += len(ledger.enqueue(Route("http://server"), drafts, Bounds(9999, 99999999, 1.0), 1.0))
    except UnavailableError as error:
        told += "can't be written" in str(error)
print(json.dumps([told, kept]))
"""


@pytest.mark.skipif(os.name == "nt", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_refuses_and_halves_nothing(ledger: Ledger, place: Path) -> None:
    """Each write is there as a whole, or `UnavailableError` was raised and nothing of it is there."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, f"sqlite:///{place}"], capture_output=True, text=True, timeout=60, check=True
    )
    told, kept = json.loads(done.stdout)
    found = ledger.read(lambda c: c.execute(sql("SELECT count(*), (SELECT rows FROM totals) FROM outbox")).one())
    assert (told > 0, kept > 0, told * 3 + kept) == (True, True, 120)
    assert found == (kept, kept)
