"""The database engine: how a file is opened, shared and refused."""

from __future__ import annotations

import pickle
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from lorebank import Bank, GarbledError, LorebankError, UnavailableError, UnsupportedError, UsageError, open_bank
from lorebank._database.engine import Database, DatabaseSettings
from lorebank._mnemopi.schema import STEPS

OPENERS = """
import os, sys
from lorebank import open_bank

def open_and_write(number):
    with open_bank(sys.argv[1], bank=f"bank-{number}") as bank:
        bank.retain(f"fact of process {number}")

gate, go = os.pipe()
children = []
for number in range(8):
    if (child := os.fork()) == 0:
        os.close(go)
        os.read(gate, 1)  # ends when the parent closes its end: all start at once
        try:
            open_and_write(number)
            os._exit(0)
        except BaseException as error:
            print(number, repr(error), flush=True)
            os._exit(1)
    children.append(child)
os.close(go)
sys.exit(sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children))
"""


def nothing(_database: Database) -> None:
    """A schema of no tables."""


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def query(file: Path, statement: str) -> object:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(statement).fetchone()[0]
    finally:
        connection.close()


def test_nothing_is_opened_before_the_first_verb(file: Path, url: str) -> None:
    """Opening a bank touches no file."""
    with open_bank(url):
        assert not file.exists()
    assert not file.exists()


def test_a_file_is_in_wal_mode(bank: Bank, file: Path) -> None:
    """Readers never wait for writers: the file is in WAL mode for all who open it."""
    bank.retain("Ana plays the cello.")
    assert query(file, "PRAGMA journal_mode") == "wal"


def test_only_the_user_can_read_the_files_and_new_folders(tmp_path: Path) -> None:
    """File, log and index of the log are 0600; folders that are made for them are 0700."""
    file = tmp_path / "new" / "deep" / "memory.db"
    with open_bank(f"sqlite:///{file}") as bank:
        bank.retain("Ana plays the cello.")
        assert [mode(file.with_name(f"memory.db{end}")) for end in ("", "-wal", "-shm")] == ["0o600"] * 3
    assert [mode(file.parent), mode(file.parent.parent)] == ["0o700", "0o700"]


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    """Only what is made is made private."""
    folder = tmp_path / "mine"
    folder.mkdir()
    folder.chmod(0o755)
    with open_bank(f"sqlite:///{folder / 'memory.db'}") as bank:
        bank.retain("Ana plays the cello.")
    assert mode(folder) == "0o755"


@pytest.mark.parametrize("name", ["my memory.db", "mémoire 東京.db", "100%.db", "a'b;c.db", "no-ending"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The file has exactly the name of the URL."""
    with open_bank(f"sqlite:///{tmp_path / name}") as bank:
        bank.retain("Ana plays the cello.")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [name]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("memory.db", UsageError),
        ("mysql://u:hunter2@h/x", UsageError),
        ("sqlite://", UsageError),
        ("sqlite:///", UsageError),
        ("sqlite:///:memory:", UsageError),
        ("sqlite:///file:x?uri=true", UsageError),
        ("://", UsageError),
        ("sqlite", UsageError),
        ("postgresql+asyncpg://u:hunter2@h/x", UnsupportedError),
        ("postgresql://u:hunter2@twice@h/x", UsageError),
        ("postgresql://u:a@hunter2:hunter2/x", UsageError),
        ("https://u:hunter2@hindsight.example", UsageError),
    ],
)
def test_a_bad_url_is_refused_at_construction(bad: str, error: type[LorebankError]) -> None:
    """What can't be opened is refused when the bank is made; no password shows."""
    with pytest.raises(error) as caught:
        open_bank(bad)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "place",
    ["/proc/lorebank/memory.db", "{folder}", "{folder}/file/memory.db", "{folder}/file/sub/memory.db", "{folder}/a\0b.db"],
)
def test_an_unwritable_path_says_so(tmp_path: Path, place: str) -> None:
    """A place that can't hold a file is the caller's mistake, in words; nothing is made there."""
    (tmp_path / "file").write_text("a file, no folder")
    with pytest.raises(UsageError), open_bank("sqlite:///" + place.format(folder=tmp_path)) as bank:
        bank.retain("Ana plays the cello.")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_newer_schema_is_refused_and_left_alone(file: Path, url: str) -> None:
    """A file of a newer release says so in every verb and is not changed; health reports it."""
    with open_bank(url) as bank:
        bank.retain("Ana plays the cello.")
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("UPDATE lorebank_schema SET version = version + 1")
    connection.close()
    with open_bank(url) as bank:
        for verb in (bank.list, bank.stats, lambda: bank.retain("Ben plays the harp.")):
            with pytest.raises(UnsupportedError, match="newer lorebank"):
                verb()
        assert (bank.health().ok, "newer lorebank" in bank.health().detail) == (False, True)
    assert query(file, "SELECT version FROM lorebank_schema WHERE component = 'mnemopi'") == len(STEPS) + 1
    assert query(file, "SELECT count(*) FROM memories") == 1


def test_a_file_that_is_no_database_is_garbled_and_left_alone(file: Path, url: str) -> None:
    """Foreign bytes are never written over; health reports it and raises nothing."""
    file.write_bytes(b"Dear diary, this is no database at all. " * 500)
    with open_bank(url) as bank:
        for verb in (bank.list, lambda: bank.recall("cello"), lambda: bank.retain("Ben plays the harp."), bank.check):
            with pytest.raises(GarbledError, match="no SQLite database"):
                verb()
        assert bank.health().ok is False
    assert file.read_bytes() == b"Dear diary, this is no database at all. " * 500


def test_a_damaged_file_is_garbled(file: Path, url: str) -> None:
    """Pages that were overwritten give an error, not a wrong answer."""
    with open_bank(url) as bank:
        bank.retain([f"Ana plays the cello, as told {n} times." for n in range(300)])
    content = bytearray(file.read_bytes())
    content[4096 * 2 :] = b"\xa5" * (len(content) - 4096 * 2)
    file.write_bytes(content)
    with open_bank(url) as bank, pytest.raises(GarbledError, match="damaged"):
        bank.list(limit=300)


def test_processes_may_open_a_new_file_at_once(file: Path, url: str) -> None:
    """Eight processes that open the same new file at the same moment all succeed, and the schema is made once."""
    done = subprocess.run([sys.executable, "-c", OPENERS, url], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with open_bank(url) as bank:
        assert [m.text for n in range(8) for m in bank.named(f"bank-{n}").list()] == [f"fact of process {n}" for n in range(8)]
        assert bank.check().problems == ()


def test_a_busy_file_is_unavailable_and_nothing_is_written(file: Path, url: str) -> None:
    """A writer that can't get the lock within `busy_timeout` says so; reads go on meanwhile."""
    with open_bank(url, mnemopi={"busy_timeout": 0.2}) as bank:
        bank.retain("Ana plays the cello.")
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match="busy"):
            bank.retain("Ben plays the harp.")
        assert [m.text for m in bank.list()] == ["Ana plays the cello."]
        other.execute("ROLLBACK")
        other.close()
        assert len(bank.retain("Ben plays the harp.").stored) == 1


def test_a_failed_transaction_writes_nothing(url: str) -> None:
    """All of a transaction, or nothing."""
    database = Database(DatabaseSettings(url), nothing)

    def half(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE things (name TEXT)"))
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"), database.write() as connection:
        half(connection)
    with database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 0
    database.close()


def test_a_reader_sees_one_snapshot(url: str) -> None:
    """What is committed while a reader reads is not seen by it, but by the next."""
    database = Database(DatabaseSettings(url), nothing)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE things (name TEXT)"))
    counting = text("SELECT count(*) FROM things")
    with database.read() as reader:
        assert reader.execute(counting).scalar() == 0
        with database.write() as writer:
            writer.execute(text("INSERT INTO things VALUES ('x')"))
        assert reader.execute(counting).scalar() == 0
    with database.read() as reader:
        assert reader.execute(counting).scalar() == 1
    database.close()


def test_a_foreign_database_is_left_as_it_is(file: Path, url: str) -> None:
    """A file of another program whose tables have our names is refused, and nothing of ours is left in it."""
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE memories (mine TEXT)")
    connection.commit()
    connection.close()
    with open_bank(url) as bank, pytest.raises(LorebankError, match="memories"):
        bank.retain("Ana plays the cello.")
    assert query(file, "SELECT group_concat(name) FROM sqlite_master") == "memories"


def test_a_closed_database_opens_again_on_use(url: str) -> None:
    """Closing gives the file free; the next use opens it anew."""
    database = Database(DatabaseSettings(url), nothing)
    for _ in range(2):
        with database.read() as connection:
            assert connection.execute(text("SELECT 1")).scalar() == 1
        database.close()


def test_pickling_keeps_the_settings(url: str) -> None:
    """A database in another process is the same file with the same settings."""
    database = pickle.loads(pickle.dumps(Database(DatabaseSettings(url, "full", 3), nothing)))  # noqa: S301 - our own bytes
    assert database.settings == DatabaseSettings(url, "full", 3)
    with database.read() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    database.close()


def test_a_file_that_was_moved_away_is_opened_anew(file: Path, url: str) -> None:
    """What is written goes where the name points, not into a file that nobody will look at."""
    database = Database(DatabaseSettings(url), nothing)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER)"))
    file.rename(file.with_suffix(".aside"))
    with database.write() as connection:
        connection.execute(text("CREATE TABLE u (n INTEGER)"))
    database.close()
    assert query(file, "SELECT group_concat(name) FROM sqlite_master") == "u"
