"""Vectors are made in the background: nothing waits for them, nothing is lost, nothing is left behind."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, UsageError, open_bank
from lorebank.seams import OutageEnded, OutageStarted

Look = Callable[[str], list[Any]]
Opened = Callable[..., Bank]
Toy = Callable[..., Any]
COUNT = "SELECT count(*) FROM vectors"


def test_every_memory_gets_one_vector(opened: Opened, toy: Toy, look: Look) -> None:
    """In batches of 64, each text once; the model is in the file with its dimensions."""
    bank = opened(embedder := toy())
    bank.retain([f"note {n} about the cello" for n in range(150)])
    assert bank.flush().done
    assert look(COUNT) == [150]
    texts = [text for text in embedder.asked["passage"] if "cello" in text]
    assert sorted(texts) == sorted(set(texts))
    assert look("SELECT name, dimensions FROM embedding_models") == [("toy-64", 64)]
    assert look("SELECT DISTINCT length(vector) FROM vectors") == [68]


def test_retain_and_recall_do_not_wait_for_the_embedder(opened: Opened, toy: Toy) -> None:
    """While the model computes, memories are written and found by their words."""
    embedder = toy()
    embedder.gate.clear()
    bank = opened(embedder)
    bank.retain("The cello is in the attic.")
    assert embedder.begun.wait(10)
    bank.retain("The harp is in the hall.")
    bank.update(bank.recall("Where is the cello?")[0].id, content="The cello is in the cellar.")
    assert bank.recall("Where is the harp?")[0].text == "The harp is in the hall."
    report = bank.flush(timeout=0.05)
    assert (report.left, report.done) == (2, False)
    assert "not all memories have their vectors" in str(report.reason)
    embedder.gate.set()
    assert bank.flush().done


def test_a_text_that_changed_while_it_was_embedded_gets_the_vector_of_the_new_one(opened: Opened, toy: Toy, look: Look) -> None:
    """The old text's vector is not kept."""
    embedder = toy()
    embedder.gate.clear()
    bank = opened(embedder)
    known = bank.retain("The cello is in the attic.").stored[0].id
    assert embedder.begun.wait(10)
    bank.update(known, content="The harp is in the hall.")
    embedder.gate.set()
    assert bank.flush().done
    assert look(COUNT) == [1]
    assert embedder.asked["passage"][-1] == "The harp is in the hall."


def test_a_named_speaker_is_part_of_what_is_embedded(opened: Opened, toy: Toy) -> None:
    """A role is none, and a text that begins with its speaker is taken as it is."""
    bank = opened(embedder := toy())
    bank.retain([{"content": "hello", "speaker": "Ana"}, {"content": "good day", "speaker": "user"}])
    bank.retain("Ben: good night", speaker="Ben")
    bank.flush()
    assert {"Ana: hello", "good day", "Ben: good night"} <= set(embedder.asked["passage"])


def test_an_update_drops_the_vector(opened: Opened, toy: Toy, look: Look) -> None:
    """A changed text gets a new one; other changes keep it."""
    bank = opened(toy())
    known = bank.retain("The cello is in the attic.").stored[0].id
    bank.flush()
    before = look("SELECT number, vector FROM vectors")
    bank.update(known, importance=0.9, tags=["a"])
    bank.flush()
    assert look("SELECT number, vector FROM vectors") == before
    bank.update(known, content="The harp is in the hall.")
    bank.flush()
    assert look(COUNT) == [1]
    assert look("SELECT number, vector FROM vectors") != before


def test_a_text_that_the_embedder_refuses_keeps_no_other_waiting(opened: Opened, toy: Toy, look: Look, told: Any) -> None:
    """It is found by its words, the flush says why it has no vector, and it gets one once the embedder takes it."""
    embedder = toy()
    embedder.refused = "harp"
    bank = opened(embedder)
    bank.retain(["The harp is in the hall.", *[f"note {n} about the cello" for n in range(150)]])
    report = bank.flush()
    assert (report.left, look(COUNT)) == (1, [150])
    assert "refuses texts (1): ValueError: this text is too long" in str(report.reason)
    assert bank.recall("Where is the harp?")[0].text == "The harp is in the hall."
    assert not any(isinstance(event, OutageStarted) and event.part == "vectors" for event in told.events)
    bank.retain("The flute is in the case.")
    assert bank.flush().left == 1
    embedder.refused = None
    assert bank.flush().done
    assert look(COUNT) == [152]


def test_an_embedder_that_refuses_everything_fails(opened: Opened, toy: Toy, look: Look) -> None:
    """It is not asked for each text: what is common is refused, too, so that none of them is at fault."""
    embedder = toy()
    embedder.refused = ""
    bank = opened(embedder)
    bank.retain([f"note {n} about the cello" for n in range(64)])
    assert bank.flush().left == 64
    assert len(embedder.asked["passage"]) < 5 * 64
    assert look(COUNT) == [0]


# What is left behind


def test_what_was_not_embedded_is_when_the_file_is_opened_again(opened: Opened, toy: Toy, url: str, look: Look) -> None:
    """Also what was written without an embedder."""
    with open_bank(url, bank="alice") as plain:
        plain.retain([f"note {n}" for n in range(70)])
    bank = opened(toy())
    assert bank.recall("note 7")
    assert bank.flush().done
    assert look(COUNT) == [70]


def test_closing_gives_the_embedder_its_time(toy: Toy, url: str, look: Look) -> None:
    """What was begun is ended within `close_timeout`."""
    with open_bank(url, bank="alice", embedder=toy()) as bank:
        bank.retain([f"note {n}" for n in range(200)])
    assert look(COUNT) == [200]


def test_closing_does_not_wait_for_an_embedder_that_hangs(toy: Toy, url: str, look: Look) -> None:
    """After `close_timeout` the bank is closed; what the embedder gives later is not written."""
    embedder = toy()
    embedder.gate.clear()
    started = time.monotonic()
    with open_bank(url, bank="alice", embedder=embedder, connection={"close_timeout": 0.2}) as bank:
        bank.retain("The cello is in the attic.")
        assert embedder.begun.wait(10)
    assert time.monotonic() - started < 5
    embedder.gate.set()
    for writer in [each for each in threading.enumerate() if each.name == "lorebank-vectors"]:
        writer.join(10)
    assert look(COUNT) == [0]


KILLED = """
import sys, time
from lorebank import open_bank
class Slow:
    name, dimensions = "toy-64", 64
    def embed(self, texts, *, kind):
        time.sleep(60)
with open_bank(sys.argv[1], bank="alice", embedder=Slow()) as bank:
    bank.retain([f"note {n} about the cello" for n in range(100)])
    print("retained", flush=True)
    time.sleep(60)
"""


def test_a_kill_between_retain_and_embedding_loses_nothing(opened: Opened, toy: Toy, url: str, look: Look) -> None:
    """The next process makes the vectors."""
    with subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "retained\n"
        process.send_signal(signal.SIGKILL)
    assert (look("SELECT count(*) FROM memories"), look(COUNT)) == ([100], [0])
    assert opened(toy()).flush().done
    assert look(COUNT) == [100]


# Forgetting


@pytest.mark.parametrize("how", ["id", "session", "clear"])
def test_a_forgotten_memory_leaves_no_vector_in_any_byte(
    opened: Opened, toy: Toy, look: Look, bytes_of: Callable[[], bytes], how: str
) -> None:
    """Neither in a row nor in a free page nor in the log, for any embedder."""
    for embedder in (toy(), toy("other", 48)):
        bank = opened(embedder)
        bank.retain([f"note {n} about the harp and {n * 7919}" for n in range(300)])
        receipt = bank.retain("The cello is in the attic.", session="s")
        bank.retain([f"later note {n} about the drum and {n * 7907}" for n in range(300)])
        assert bank.flush().done
    [known] = [outcome.id for outcome in receipt.duplicates]
    secret = look("SELECT v.vector FROM vectors v JOIN memories m ON m.key = v.key WHERE m.content LIKE '%attic%'")
    assert len(secret) == 2
    assert all(vector in bytes_of() for vector in secret)
    removal = bank.forget(known) if how == "id" else bank.forget(session="s") if how == "session" else bank.clear(confirm="alice")
    assert removal.purged is True
    assert not any(vector in bytes_of() for vector in secret)
    assert look("SELECT count(*) FROM vectors WHERE key NOT IN (SELECT key FROM memories)") == [0]


def test_many_forgotten_memories_leave_no_vector_in_any_byte(
    opened: Opened, toy: Toy, look: Look, bytes_of: Callable[[], bytes]
) -> None:
    """Pages that are merged and freed hold none either."""
    bank = opened(toy())
    for session in range(6):
        bank.retain([f"note {n} about the harp and {n * 7919 + session}" for n in range(120)], session=f"s{session}")
        bank.flush()
    gone = look("SELECT v.vector FROM vectors v JOIN memories m ON m.key = v.key WHERE m.session IN ('s1', 's3', 's4')")
    for session in ("s3", "s1", "s4"):
        bank.forget(session=session)
    held = bytes_of()
    assert len(gone) == 360
    assert sum(vector in held for vector in gone) == 0


# Troubles


def test_an_embedder_that_raises_is_left_alone_and_told(opened: Opened, toy: Toy, told: Any) -> None:
    """Recall goes on by words; a flush tries at once, and tells what is left and why."""
    embedder = toy()
    embedder.error = RuntimeError("no room on the card")
    bank = opened(embedder)
    bank.retain(["The cello is in the attic.", "The harp is in the hall."])
    started = told.wait_for(OutageStarted)
    assert (started.bank, started.part) == ("alice", "vectors")
    assert "no room on the card" in started.reason
    assert bank.recall("Where is the cello?")[0].text == "The cello is in the attic."
    report = bank.flush(timeout=10)
    assert (report.left, "no room on the card" in str(report.reason)) == (2, True)
    embedder.error = None
    assert bank.flush(timeout=10).done
    assert told.wait_for(OutageEnded).part == "vectors"


def test_vectors_of_another_length_are_no_vectors(opened: Opened, toy: Toy, told: Any, look: Look) -> None:
    """An embedder that does not keep its word is told, and nothing of it is kept."""
    embedder = toy()
    bank = opened(embedder)
    embedder._vector = lambda text: toy(dimensions=32)._vector(text)
    bank.retain("The cello is in the attic.")
    assert "64 dimensions" in told.wait_for(OutageStarted).reason
    assert look(COUNT) == [0]


def test_a_name_stands_for_one_length(opened: Opened, toy: Toy, url: str) -> None:
    """Another model under the same name is refused by the first verb."""
    opened(toy()).retain("The cello is in the attic.")
    with open_bank(url, bank="alice", embedder=toy(dimensions=32)) as bank, pytest.raises(UsageError, match="another name"):
        bank.recall("cello")


# Company


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from conftest import ToyEmbedder
from lorebank import open_bank
with open_bank(sys.argv[1], bank="alice", embedder=ToyEmbedder()) as bank:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(60):
        bank.retain(f"note {sys.argv[3]} {n} about the cello")
    print(bank.flush(timeout=60).left)
"""


def test_two_processes_share_the_work(opened: Opened, toy: Toy, url: str, look: Look) -> None:
    """Each memory has one vector in the end, and both processes find all."""
    home = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", WRITER, url, home]
    writers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in ("one", "two")
    ]
    assert [each.stdout.readline() for each in writers if each.stdout] == ["ready\n"] * 2
    assert [each.communicate("\n", timeout=120)[0] for each in writers] == ["0\n"] * 2
    assert look("SELECT count(*), count(DISTINCT key) FROM vectors") == [(120, 120)]
    assert struct.calcsize("<f") + 64 == look("SELECT max(length(vector)) FROM vectors")[0]
    assert opened(toy()).check().problems == ()


def test_sessions_get_vectors_too(opened: Opened, toy: Toy, look: Look) -> None:
    """What a session records is embedded like the rest."""
    bank = opened(toy())
    with bank.session("s") as session:
        session.after_turn(
            [{"role": "user", "content": "The cello is in the attic."}, {"role": "assistant", "content": "Noted."}]
        )
    assert bank.flush().done
    assert look("SELECT count(*) FROM memories") == look(COUNT)
