"""What the handles of one `open_bank` share: lanes, listeners, the ledger's place, the end of the program."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, UnsupportedError, UsageError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import Event, Listener, MemoryTools, RecallRequest, Scope, Skipped

SERVER = "http://127.0.0.1:9"


class Hung(MnemopiBackend):
    """Recalls wait until they are let go."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.free = threading.Event()

    def recall(self, scope: Scope, request: RecallRequest) -> Any:
        assert self.free.wait(60)
        return super().recall(scope, request)


@pytest.fixture
def hung(url: str) -> Iterator[Bank]:
    backend = Hung(url)
    with open_bank(backend=backend, bank="alice") as bank:
        yield bank
        backend.free.set()


async def test_recalls_that_hang_keep_no_write_waiting(hung: Bank) -> None:
    """Every thread of the remote lane is taken: writes, the outbox and the retain tool go on beside."""
    recalls = [asyncio.create_task(hung.arecall("cello")) for _ in range(20)]
    async with asyncio.timeout(30):
        await asyncio.sleep(0)
        assert len((await hung.aretain("Ana plays the cello.")).stored) == 1
        assert (await hung.outbox.astatus()).waiting == 0
        assert (await MemoryTools(hung).aretain([{"content": "Ben drums."}])).text == "1 memory stored."
        hung.connections.backend.free.set()  # type: ignore[attr-defined]
        assert {len(result) for result in await asyncio.gather(*recalls)} == {1}


async def test_a_bank_closes_beside_recalls_that_hang(hung: Bank) -> None:
    """Closing waits for no thread of theirs."""
    recalls = [asyncio.create_task(hung.arecall("cello")) for _ in range(20)]
    backend: Any = hung.connections.backend
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await hung.aclose()
    backend.free.set()
    await asyncio.gather(*recalls, return_exceptions=True)


class Telling(MnemopiBackend):
    """Tells an event by itself."""

    tell: Listener

    def announce(self, tell: Listener) -> None:
        self.tell = tell


def test_a_backend_can_tell_what_happens_on_its_own(url: str) -> None:
    """It is given the listeners when the bank is opened, and those of the copy in a copy."""
    events: list[Event] = []
    backend = Telling(url)
    with open_bank(backend=backend, on_event=events.append) as bank:
        backend.tell(Skipped("default", "send", "UnavailableError"))
        assert events == [Skipped("default", "send", "UnavailableError")]
        with pickle.loads(pickle.dumps(bank)) as twin:  # noqa: S301 - our own bytes
            twin.connections.backend.tell(Skipped("default", "send", "UnavailableError"))
            assert len(events) == 1


# The ledger's place


@pytest.mark.parametrize(
    ("ledger", "kind"),
    [("postgresql+psycopg://db", UnsupportedError), ("ledger.db", UsageError), ("sqlite:x", UsageError), (5, UsageError)],
)
def test_a_ledger_is_an_sqlite_file(ledger: Any, kind: type[UsageError]) -> None:
    """Anything else is refused at construction, PostgreSQL as what is not there yet."""
    with pytest.raises(kind) as told:
        open_bank(SERVER, ledger=ledger)
    assert type(told.value) is kind


@pytest.mark.parametrize("options", [{"url": "sqlite:///x.db"}, {"backend": True}], ids=["file", "backend"])
def test_a_ledger_is_for_servers(options: dict[str, Any], url: str, tmp_path: Path) -> None:
    """Mnemopi has no use for one, a backend that was passed has its own."""
    given = {"backend": MnemopiBackend(url)} if "backend" in options else options
    with pytest.raises(UnsupportedError, match="ledger"):
        open_bank(**given, ledger=f"sqlite:///{tmp_path / 'l.db'}")


def test_a_server_opens_without_being_asked(tmp_path: Path) -> None:
    """Neither a socket nor a ledger is needed before the first verb."""
    with open_bank(SERVER, ledger=f"sqlite:///{tmp_path / 'l.db'}") as bank:
        assert (bank.backend, bank.name) == ("hindsight", "default")
    assert not (tmp_path / "l.db").exists()


@pytest.mark.parametrize("name", ["completer", "embedder"])
def test_what_this_release_does_not_take_is_refused(name: str) -> None:
    """On a server too."""
    options: dict[str, Any] = {name: object()}
    with pytest.raises(UnsupportedError, match=name):
        open_bank(SERVER, **options)


# The end of the program

EXIT = """
import sys
from lorebank import open_bank
from lorebank._mnemopi.backend import MnemopiBackend
class Served(MnemopiBackend):
    name = sys.argv[2]
    def close(self, timeout):
        print("closed within", timeout)
        super().close(timeout)
        raise RuntimeError("never seen")
bank = open_bank(backend=Served(sys.argv[1]), connection={"close_timeout": 0.5})
bank.retain("Ana sings.")
"""


@pytest.mark.parametrize(("name", "told"), [("hindsight", "closed within 0.5\n"), ("mnemopi", "")])
def test_a_script_that_forgets_to_close_still_delivers(url: str, name: str, told: str) -> None:
    """Banks on a server are closed when the interpreter ends, silently; an embedded one has nothing to deliver."""
    done = subprocess.run([sys.executable, "-c", EXIT, url, name], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
