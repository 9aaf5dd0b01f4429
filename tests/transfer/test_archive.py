"""`bank.export` and `bank.import_` on Mnemopi: what is in the file, and what becomes of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Item, UnavailableError, UsageError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import Redacted, Scope, scope_by_bank, scope_by_tag


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    """An archive of these lines, with the checksum that they have."""
    body = b"".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for each in records[:-1])
    counts = {kind: sum(each["kind"] == kind for each in records) for kind in ("memory", "mental_model", "directive", "document")}
    last = {"kind": "end", "counts": counts, "sha256": hashlib.sha256(body).hexdigest()}
    path.write_bytes(body + json.dumps(last, separators=(",", ":")).encode() + b"\n")
    return path


def state(bank: Bank) -> list[Any]:
    """All that can be read of a bank, without its name."""
    memories = [replace(memory, bank=None) for memory in bank.list(state="all", limit=1000)]
    models = [(model, bank.mental_models.history(model.id)) for model in bank.mental_models.list()]
    return [memories, models, bank.documents.list(), dict(bank.tags())]


def test_a_bank_comes_back_as_it_was(told: Bank, other: Bank, path: Path) -> None:
    """Ids, order, places, times, states, duplicates' evidence, mental models with their history; recall ranks the same."""
    report = told.export(path)
    assert (report.memories, report.mental_models, report.documents, report.directives) == (10, 1, 0, 0)
    assert (report.path, report.bytes) == (str(path), path.stat().st_size)
    loaded = other.import_(path)
    assert (loaded.format, loaded.added, loaded.known, loaded.rejected, loaded.mental_models) == ("lorebank", 10, 0, 0, 1)
    assert state(other) == state(told)
    for query in ("Where does Ana live?", "aisle seats", "late flight", "Oslo", "visa", "ok"):
        before, after = told.explain(query), other.explain(query)
        assert [replace(m, bank=None) for m in before] == [replace(m, bank=None) for m in after]
    assert other.check().ok
    own = path.with_name("again.jsonl")
    other.export(own)
    assert own.read_bytes().splitlines()[1:-1] == path.read_bytes().splitlines()[1:-1]


def test_the_file_says_what_it_is_and_ends_in_its_checksum(told: Bank, path: Path) -> None:
    """The first line is the header, the last one the SHA-256 of all before it; what is not known is left out."""
    report = told.export(path)
    head, *records, last = lines(path)
    assert (head["format"], head["version"], head["bank"], head["backend"], head["memories"]) == (
        ("lorebank", 1, "alice", "mnemopi", 10)
    )
    body = path.read_bytes()
    before = body[: body.rindex(b'{"kind":"end"')]
    assert last["sha256"] == report.sha256 == hashlib.sha256(before).hexdigest()
    assert last["counts"] == {"memory": 10, "mental_model": 1, "directive": 0, "document": 0}
    assert [each["kind"] for each in records] == ["memory"] * 10 + ["mental_model"]
    assert records[0] == {
        "kind": "memory",
        "id": records[0]["id"],
        "content": "Ana prefers aisle seats.",
        "type": "world",
        "source": "app",
        "importance": 0.9,
        "veracity": "stated",
        "evidence": 2,
        "mentioned_at": records[0]["mentioned_at"],
        "tags": ["trip"],
        "metadata": {"turn": 3, "seen": [1.5, None]},
    }
    assert records[-1]["revisions"][0]["based_on"]


def test_importing_twice_adds_nothing(told: Bank, other: Bank, path: Path) -> None:
    """Also into the bank that was exported."""
    told.export(path)
    for bank in (other, told):
        other.import_(path)
        before = state(bank)
        again = bank.import_(path)
        assert (again.added, again.known, again.mental_models, again.rejected) == (0, 10, 0, 0)
        assert state(bank) == before


def test_a_statement_that_is_known_is_not_doubled(told: Bank, other: Bank, path: Path) -> None:
    """What the bank was told itself stays as it is, and what was replaced by it names it."""
    own = other.retain("Ana lives in Bern.", importance=0.2).stored[0].id
    told.export(path)
    report = other.import_(path)
    assert (report.added, report.known) == (9, 1)
    assert own is not None
    assert (other.get(own).importance, other.get(own).evidence) == (0.2, 1)
    [old] = [memory for memory in other.list(state="invalidated") if memory.text == "Ana lives in Rome."]
    assert old.superseded_by == own


def test_an_id_that_another_memory_has_is_replaced_everywhere(told: Bank, other: Bank, path: Path) -> None:
    """What replaced it, and what mental models were written from, follow; a second import knows them all."""
    told.mental_models.refresh("home")
    told.export(path)
    new = next(memory for memory in told.list() if memory.text == "Ana lives in Bern.")
    record = next(each for each in lines(path) if each.get("id") == new.id)
    taken = written(path.with_name("taken.jsonl"), [lines(path)[0], {**record, "content": "Something else."}, lines(path)[-1]])
    other.import_(taken)
    assert other.get(new.id).text == "Something else."
    assert other.import_(path).added == 10
    [moved] = [memory for memory in other.list() if memory.text == "Ana lives in Bern."]
    assert moved.id != new.id
    [old] = [memory for memory in other.list(state="invalidated") if memory.text == "Ana lives in Rome."]
    assert old.superseded_by == moved.id
    based = {"Bern" in other.get(each).text: each for each in other.mental_models.get("home").based_on}
    assert based[True] == moved.id
    assert (other.import_(path).known, other.check().ok) == (10, True)


def test_messages_of_a_session_keep_their_order_behind_those_that_are_there(told: Bank, other: Bank, path: Path) -> None:
    """Places of a session are never shared."""
    other.retain(["One.", "Two."], session="s1")
    told.export(path)
    other.import_(path)
    own = path.with_name("own.jsonl")
    other.export(own)
    places = [(each["position"], each["content"]) for each in lines(own) if each.get("session") == "s1"]
    assert places == [
        (0, "One."),
        (1, "Two."),
        (2, "Ana flew to Oslo."),
        (3, "Ben stayed in Rome."),
        (4, "The flight was late."),
    ]


def test_a_mental_model_of_the_bank_is_never_changed(told: Bank, other: Bank, path: Path) -> None:
    """One that says nothing yet takes the file's text; one that says something else is kept, and the report says so."""
    other.mental_models.create("home", name="Mine", source_query="Where does Ana live?")
    told.export(path)
    assert other.import_(path).mental_models == 1
    assert (other.mental_models.get("home").content, other.mental_models.get("home").name) == ("In Bern.", "Mine")
    other.mental_models.update("home", content="On the moon.")
    report = other.import_(path)
    assert (report.mental_models, report.rejected, report.reasons[0].id, report.reasons[0].line) == (0, 1, "home", 12)
    assert "something else" in report.reasons[0].reason
    assert other.mental_models.get("home").content == "On the moon."


def test_other_banks_of_the_file_are_not_touched(told: Bank, path: Path) -> None:
    """Neither exported nor changed, though they may hold the same ids afterwards."""
    bob, carl = told.named("bob"), told.named("carl")
    bob.retain("Ben plays the cello.")
    bob.export(path)
    assert [each["content"] for each in lines(path)[1:-1]] == ["Ben plays the cello."]
    told.mental_models.refresh("home")
    before, whole = state(bob), state(told)
    told.export(path, overwrite=True)
    assert carl.import_(path).added == 10
    assert (state(bob), state(told)) == (before, whole)
    [bern] = [memory for memory in carl.list() if memory.text == "Ana lives in Bern."]
    carl.update(bern.id, content="Ana lives in Basel.")
    carl.forget(session="s1")
    carl.forget(bern.id)
    assert state(told) == whole
    assert "Bern" not in carl.mental_models.get("home").content
    assert told.check().ok
    assert bob.check().ok


def test_secrets_are_taken_out_as_in_retain(url: str, other: Bank, path: Path) -> None:
    """From memories, metadata and mental models; importing again adds nothing, though the file has another text."""
    heard: list[Any] = []
    with open_bank(url, bank="plain", retain={"redactor": None}) as plain:
        plain.retain("The password=hunter2hunter2 is old.", metadata={"api_key": "abcdef123456"})
        plain.mental_models.create("keys", name="Keys", source_query="What is old?")
        assert "hunter2" in plain.mental_models.get("keys").content
        plain.export(path)
        assert plain.import_(path).known == 1
    other.connections.listeners = (heard.append,)
    report = other.import_(path)
    assert (report.added, report.redactions, heard) == (1, 3, [Redacted("bob", 3)])
    [memory] = other.list()
    assert (memory.text, memory.metadata) == ("The password=[redacted] is old.", {"api_key": "[redacted]"})
    assert "hunter2" not in other.mental_models.get("keys").content
    again = other.import_(path)
    assert (again.added, again.known) == (0, 1)


def test_the_users_gate_may_amend_and_refuse(told: Bank, url: str, path: Path) -> None:
    """What it refuses is rejected, with the line and the reason."""

    def gate(item: Item) -> Item | None:
        return None if "Oslo" in item.content else replace(item, tags=["seen"])

    told.export(path)
    with open_bank(url, bank="gated", retain={"before_enqueue": gate}) as gated:
        report = gated.import_(path)
        assert (report.added, report.rejected) == (9, 1)
        assert (report.reasons[0].line, report.reasons[0].reason) == (3, "refused by before_enqueue")
        assert dict(gated.tags()) == {"seen": 8}


class Stamping(MnemopiBackend):
    """Puts a project's tag on each write, as a server's scope does."""

    def scope(self, base: str, scoping: Any, label: str | None) -> Scope:
        return replace(scope_by_bank(base, "global", None), stamp=("project:atlas",))


def test_the_scopes_tags_are_added(told: Bank, url: str, path: Path) -> None:
    """An import is a write like any other."""
    told.export(path)
    with open_bank(backend=Stamping(url), bank="stamped") as stamped:
        stamped.import_(path)
        assert {"project:atlas" in memory.tags for memory in stamped.list(state="all")} == {True}
        assert stamped.import_(path).known == 10


class Tagged(MnemopiBackend):
    """Parts projects by tag within one bank, as a server's scope does."""

    def scope(self, base: str, scoping: Any, label: str | None) -> Scope:
        return scope_by_tag(base, scoping, label)


def test_projects_of_one_bank_stay_apart(url: str, path: Path) -> None:
    """What the scope may not read is neither exported nor counted, nor taken for what is imported, whatever its id."""
    with (
        open_bank(backend=Tagged(url), bank="alice", project="atlas") as atlas,
        open_bank(backend=Tagged(url), bank="alice", project="zeus") as zeus,
    ):
        atlas.retain("Ana builds a house.")
        zeus.retain("Ana keeps a secret.")
        atlas.export(path)
        assert [each.get("content") for each in lines(path)] == [None, "Ana builds a house.", None]
        assert "memories" not in lines(path)[0]
        before = state(atlas)
        plain = {key: value for key, value in lines(path)[1].items() if key != "tags"}
        report = zeus.import_(written(path, [lines(path)[0], plain, lines(path)[-1]]))
        assert (report.added, report.known) == (1, 0)
        assert sorted(memory.text for memory in zeus.list()) == ["Ana builds a house.", "Ana keeps a secret."]
        assert zeus.import_(path).known == 1
        assert state(atlas)[0] == before[0]
        assert {memory.tags for memory in zeus.list()} == {("project:zeus",)}


def test_a_project_is_a_bank_of_its_own(url: str, path: Path) -> None:
    """The handle's own bank is exported, not what it reads beside it."""
    with open_bank(url, bank="alice", project="Atlas") as project, open_bank(url, bank="alice") as base:
        base.retain("Ana lives in Lisbon.")
        project.retain("Ana builds Atlas.")
        assert project.export(path).memories == 1
        assert lines(path)[0]["bank"] == "alice::atlas"


def test_a_dry_run_writes_nothing_and_foretells(told: Bank, other: Bank, path: Path) -> None:
    """The same numbers as the import that follows, for an empty bank and one that knows a part."""
    told.export(path)
    would = other.import_(path, dry_run=True)
    assert (would.dry_run, would.added, would.mental_models) == (True, 10, 1)
    assert state(other)[:2] == [[], []]
    other.retain("Ana lives in Bern.")
    would = other.import_(path, dry_run=True)
    assert replace(other.import_(path), dry_run=True) == would


def test_an_empty_and_an_unknown_bank_are_exported_and_imported(other: Bank, path: Path) -> None:
    """A file without memories is a file."""
    assert other.export(path).memories == 0
    assert other.import_(path).added == 0


@pytest.mark.parametrize("awaited", [False, True])
def test_the_awaitable_twins_do_the_same(told: Bank, other: Bank, path: Path, awaited: bool) -> None:
    """`aexport` and `aimport_`."""

    def call(bank: Bank, verb: str, *args: Any, **kwargs: Any) -> Any:
        found = getattr(bank, f"a{verb}" if awaited else verb)(*args, **kwargs)
        return asyncio.run(found) if awaited else found

    assert call(told, "export", path).memories == 10
    assert call(other, "import_", path).added == 10


def test_progress_grows_to_its_end(told: Bank, other: Bank, path: Path) -> None:
    """On both verbs; what it raises ends the verb, and nothing is there."""
    heard: list[tuple[int, int]] = []
    told.export(path, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (11, 11)
    heard.clear()
    other.import_(path, progress=lambda done, total: heard.append((done, total)))
    assert heard == sorted(heard)
    assert heard[-1] == (2 * path.stat().st_size, 2 * path.stat().st_size)

    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        told.named("new").import_(path, progress=stop)
    assert told.named("new").list(state="all") == ()
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        told.export(path, overwrite=True, progress=stop)
    assert (path.read_bytes(), [each.name for each in path.parent.glob("*.jsonl*")]) == (before, [path.name])
    assert [each for each in path.parent.iterdir() if each.suffix == ".part"] == []


def test_a_file_that_exists_is_kept(told: Bank, path: Path) -> None:
    """Unless it is to be overwritten; the new file is the user's alone."""
    path.write_text("precious")
    with pytest.raises(UsageError, match="overwrite=True"):
        told.export(path)
    assert path.read_text() == "precious"
    told.export(path, overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


BAD: list[tuple[str, Callable[[Bank, Path], object], str]] = [
    ("no folder", lambda bank, path: bank.export(path / "none" / "m.jsonl"), "can't be used"),
    ("a folder", lambda bank, path: bank.export(path), "is a folder"),
    ("no path", lambda bank, path: bank.export(""), "path"),
    ("a number", lambda bank, path: bank.export(5), "path"),  # type: ignore[arg-type]
    ("a NUL", lambda bank, path: bank.import_("a\0b"), "path"),
    ("no file", lambda bank, path: bank.import_(path / "none.jsonl"), "can't be read"),
    ("a folder read", lambda bank, path: bank.import_(path), "can't be read"),
    ("format", lambda bank, path: bank.import_(path, format="csv"), "`format`"),  # type: ignore[arg-type]
    ("roles", lambda bank, path: bank.import_(path, roles=["bot"]), "`roles`"),
    ("no roles", lambda bank, path: bank.import_(path, roles=[]), "`roles`"),
    ("only", lambda bank, path: bank.import_(path, only=" "), "`only`"),
    ("progress", lambda bank, path: bank.export(path / "m", progress=5), "`progress`"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("verb", "match"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_arguments_are_refused(bank: Bank, tmp_path: Path, verb: Callable[[Bank, Path], object], match: str) -> None:
    """Before anything is read or written."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(UsageError, match=match):
        verb(bank, folder)
    assert list(folder.iterdir()) == []


def test_a_bank_that_is_closed_or_off_says_so(bank: Bank, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written."""
    bank.close()
    with pytest.raises(UsageError, match="closed"):
        bank.export(path)
    monkeypatch.setenv("LOREBANK_URL", "off")
    with open_bank() as off, pytest.raises(UnavailableError, match="off"):
        off.export(path)
    assert not path.exists()
