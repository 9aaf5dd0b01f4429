"""Projects, shared banks, required tags, equal ids: where a read ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy

from lorebank import Bank, MissingError, UsageError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import MemoryTools, Scope, scope_by_tag

Opener = Callable[..., Bank]
WORD = "cello"


@pytest.fixture
def opened(url: str) -> Iterator[Opener]:
    """Opens banks on one file."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(open_bank(None if "backend" in options else url, **options))


class ByTag(MnemopiBackend):
    """Projects as tags of one bank, as on a server: the other way to scope, on the same engine."""

    def scope(self, base: str, scoping: Any, label: str | None) -> Scope:
        return scope_by_tag(base, scoping, label, strict=True)


def told(bank: Bank, text: str, **fields: Any) -> str:
    return str(bank.retain(f"{text} {WORD}", **fields).stored[0].id)


def seen(bank: Bank) -> set[str]:
    """What a bank reads by recall, by list and by `get`, which must agree; without the common word."""
    found = {memory.text for memory in bank.recall(WORD, limit=100, max_tokens=10_000)}
    listed = bank.list(limit=1_000)
    assert found == {memory.text for memory in listed} == {bank.get(memory.id).text for memory in listed}
    return {text.removesuffix(f" {WORD}") for text in found}


def rename(url: str, old: str, new: str) -> None:
    """Gives a memory the id of another one, in another bank."""
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE memories SET id = :new WHERE id = :old"), {"new": new, "old": old})
    engine.dispose()


def test_each_scoping_reads_what_it_says(opened: Opener) -> None:
    """global: the base; per-project: the project; per-project-tagged: the project and the base."""
    banks = {
        "base": opened(bank="ana"),
        "strict": opened(bank="ana", project="atlas", scoping="per-project"),
        "tagged": opened(bank="ana", project="atlas"),
        "other": opened(bank="ana", project="zeus"),
        "user": opened(bank="ana-atlas"),
    }
    for name in ("base", "tagged", "other", "user"):
        told(banks[name], name)
    assert {name: seen(bank) for name, bank in banks.items()} == {
        "base": {"base"},
        "strict": {"tagged"},
        "tagged": {"base", "tagged"},
        "other": {"base", "other"},
        "user": {"user"},
    }
    assert banks["tagged"].scope.bank == "ana::atlas"


@pytest.mark.parametrize("bad", ["ana::atlas", "ana/atlas", "..", ".", "", " ana", "ana:", "a\nb", "x" * 193, 5], ids=repr)
def test_no_name_reaches_into_another_bank(bank: Bank, opened: Opener, bad: Any) -> None:
    """A user or a project can't be named so that it meets a project's bank."""
    with pytest.raises(UsageError):
        bank.named(bad)
    with pytest.raises(UsageError):
        opened(bank=bad)
    with pytest.raises(UsageError):
        opened(bank="ana", project=bad)
    with pytest.raises(UsageError):
        opened(bank="ana", shared=bad)


def test_spellings_of_a_name_meet_in_one_bank(opened: Opener) -> None:
    """Composed and decomposed letters are the same name; a project's case does not count."""
    told(opened(bank="zoe\u0308", project="ATLAS"), "one")
    assert seen(opened(bank="zo\u00eb", project="atlas")) == {"one"}
    assert seen(opened(bank="zoe")) == set()


def test_the_shared_bank_is_read_beside_and_its_readers_stay_apart(opened: Opener) -> None:
    """Both users read the team's bank, neither the other's; the team's bank reads none of theirs."""
    ana, ben, team = opened(bank="ana", shared="team"), opened(bank="ben", shared="team"), opened(bank="team")
    for bank, text in ((ana, "ana's"), (ben, "ben's"), (team, "team's")):
        told(bank, text)
    assert (seen(ana), seen(ben), seen(team)) == ({"ana's", "team's"}, {"ben's", "team's"}, {"team's"})
    assert seen(ana.named("cleo")) == {"team's"}


def test_only_retain_global_writes_to_the_shared_bank(opened: Opener) -> None:
    """An ordinary write stays in the own bank, in any scoping."""
    ana = opened(bank="ana", shared="team", project="atlas")
    told(ana, "own")
    MemoryTools(ana).retain([{"content": f"own too {WORD}"}])
    MemoryTools(ana).retain_global([{"content": f"for all {WORD}"}])
    assert seen(opened(bank="team")) == {"for all"}
    assert seen(opened(bank="ana", project="atlas")) == {"own", "own too"}


@pytest.mark.parametrize("verb", ["update", "invalidate", "forget"])
def test_equal_ids_in_two_banks_are_two_memories(bank: Bank, url: str, verb: str) -> None:
    """Each verb with an id that two banks hold touches the own one alone."""
    other = bank.named("bob")
    mine = told(bank, "mine")
    rename(url, told(other, "theirs"), mine)
    before = other.get(mine)
    assert (bank.get(mine).text, before.text) == ("mine cello", "theirs cello")
    getattr(bank, verb)(mine, **({"content": f"changed {WORD}"} if verb == "update" else {}))
    assert other.get(mine) == before
    assert seen(other) == {"theirs"}
    assert (bank.check().problems, other.check().problems) == ((), ())


def test_equal_ids_in_a_project_and_its_base_are_removed_one_at_a_time(opened: Opener, url: str) -> None:
    """A filter on the project's bank removes the project's memory only, whatever ids the base bank holds."""
    base, project = opened(bank="ana"), opened(bank="ana", project="atlas")
    mine = told(project, "mine", session="s")
    rename(url, told(base, "theirs"), mine)
    assert project.forget(session="s").ids == (mine,)
    assert seen(base) == {"theirs"}


@pytest.mark.parametrize("how", ["get", "update", "invalidate", "forget"])
def test_a_required_tag_guards_every_verb(opened: Opener, url: str, how: str) -> None:
    """Where a project is a tag, a memory without it is missing to every verb and untouched by it."""
    atlas, zeus = (opened(backend=ByTag(url), bank="ana", project=label) for label in ("atlas", "zeus"))
    told(atlas, "atlas's")
    foreign = told(zeus, "zeus's")
    untagged = told(opened(bank="ana"), "untagged")
    assert (seen(atlas), seen(zeus)) == ({"atlas's"}, {"zeus's"})
    for each in (foreign, untagged):
        with pytest.raises(MissingError):
            getattr(atlas, how)(each, **({"content": "stolen goods"} if how == "update" else {}))
    assert seen(opened(bank="ana")) == {"atlas's", "zeus's", "untagged"}


def test_callers_filters_narrow_a_required_tag_and_never_widen_it(opened: Opener, url: str) -> None:
    """No `tags`, match or group of the caller's reaches past the scope."""
    atlas, zeus = (opened(backend=ByTag(url), bank="ana", project=label) for label in ("atlas", "zeus"))
    told(atlas, "atlas's", tags=["x"])
    told(zeus, "zeus's", tags=["x"])
    told(opened(bank="ana"), "untagged")
    groups = [{"or": [{"tags": ["project:zeus"]}, {"tags": ["x"], "match": "any"}, {"not": {"tags": ["project:atlas"]}}]}]
    for filters in ({"tags": ["x"]}, {"tags": ["x", "project:zeus"], "tags_match": "any"}, {"tag_groups": groups}):
        assert {memory.text for memory in atlas.recall(WORD, **filters)} == {"atlas's cello"}
        assert {memory.text for memory in atlas.reflect(WORD, **filters).based_on} == {"atlas's cello"}
    assert atlas.recall(WORD, tags=["project:zeus"]).state == "nothing"
    assert atlas.list(tags=["project:zeus"]) == ()
    assert atlas.forget(tags=["project:zeus"]).ids == ()
    assert {memory.text for memory in atlas.forget(tags=["x"]) and zeus.list()} == {"zeus's cello"}


def test_an_edit_cannot_take_a_memory_out_of_its_scope(opened: Opener, url: str) -> None:
    """The project's tag stays on a memory whose tags are changed."""
    atlas = opened(backend=ByTag(url), bank="ana", project="atlas")
    known = told(atlas, "atlas's", tags=["x"])
    assert set(atlas.update(known, content=f"changed {WORD}", tags=["y"]).tags) == {"y", "project:atlas"}
    assert seen(atlas) == {"changed"}


def test_neighbours_in_a_session_obey_the_scope_and_the_filter(opened: Opener, url: str) -> None:
    """Messages right before and after a match come along only where they may be read."""
    atlas, zeus = (opened(backend=ByTag(url), bank="ana", project=label) for label in ("atlas", "zeus"))
    for n in range(6):
        (atlas if n % 2 else zeus).retain(
            f"message {n} {'about the cello' if n == 3 else ''}", session="talk", tags=["even" if n % 4 == 1 else "odd"]
        )
    found = atlas.recall("cello", limit=20, max_tokens=10_000)
    assert all("project:atlas" in memory.tags for memory in found)
    assert all("odd" in memory.tags for memory in atlas.recall("cello", tags=["odd"], limit=20))
