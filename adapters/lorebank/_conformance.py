"""What any backend promises, as checks that run against one: each opens banks of its own, tells them something and looks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from lorebank._bank import Bank
from lorebank._domain.memory import FACTS, Memory
from lorebank._domain.message import Message
from lorebank._domain.ports import Backend
from lorebank._open import open_bank
from lorebank.errors import LorebankError, MissingError, UnsupportedError, UsageError

AISLE, TRAIN, CELLO = "Ana prefers aisle seats.", "The night train to Porto leaves at nine.", "Ana plays the cello."


@dataclass(frozen=True, slots=True)
class Promise:
    """What one check found: the promise in words, whether the backend keeps it, and what happened instead."""

    text: str
    state: Literal["kept", "broken", "unsupported"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.text}" + (f" ({self.reason})" if self.reason else "")


class _BrokenError(Exception):
    """A check saw something else than what was promised."""


def _expect(met: object, found: str) -> None:
    if not met:
        raise _BrokenError(found)


@dataclass(slots=True)
class _Rig:
    """One backend under check, and the banks that were opened on it."""

    backend: Backend
    wait: float
    prefix: str
    opened: list[Bank]

    def bank(self, name: str, **options: Any) -> Bank:
        bank = open_bank(backend=self.backend, bank=f"{self.prefix}-{name}", **options)
        self.opened.append(bank)
        return bank

    def told(self, *texts: str, name: str = "ana", **fields: Any) -> Bank:
        """A bank that was told these texts, one by one, and knows them now."""
        bank = self.bank(name)
        for text in texts:
            bank.retain(text, **fields)
        self.settle(bank)
        return bank

    def settle(self, bank: Bank) -> None:
        report = bank.flush(timeout=self.wait, until="completed")
        _expect(not report.left, f"after {self.wait:g} s {report.left} writes are left: {report.reason}")

    def close(self) -> None:
        for bank in self.opened:
            with suppress(LorebankError):
                bank.clear(confirm=bank.scope.bank)
        self.backend.close(2)


def _texts(memories: Iterable[Memory]) -> list[str]:
    return [memory.text for memory in memories]


def _listed(bank: Bank, **how: Any) -> list[str]:
    return _texts(bank.list(types=FACTS, **how))


def _only(bank: Bank, text: str) -> Memory:
    """The one memory of a text, as a list has it."""
    found = [memory for memory in bank.list(types=FACTS, state="all") if memory.text == text]
    _expect(len(found) == 1, f"{len(found)} memories of {text!r}")
    return found[0]


def _lacks(bank: Bank, memory_id: str) -> bool:
    try:
        bank.get(memory_id)
    except MissingError:
        return True
    return False


def found_by_words(rig: _Rig) -> None:
    """What was told is found by its words."""
    bank = rig.told(AISLE, TRAIN)
    for query, text in (("Which seats does Ana prefer?", AISLE), ("When does the night train leave?", TRAIN)):
        result = bank.recall(query)
        _expect(result.state == "found" and _texts(result)[0] == text, f"{query!r} gave {_texts(result)}")


def as_it_was_told(rig: _Rig) -> None:
    """A memory comes back as it was told: text in any script, tags, metadata."""
    text = "Zoë liebt Müsli 🥣 und 東京."
    bank = rig.told(text, tags=["food", "küche"], metadata={"turn": "D1:3"})
    memory = bank.get(_only(bank, text).id)
    _expect(memory.text == text, f"the text is {memory.text!r}")
    _expect({"food", "küche"} <= set(memory.tags), f"the tags are {memory.tags}")
    _expect(memory.metadata.get("turn") == "D1:3", f"the metadata is {dict(memory.metadata)}")


def receipt_for_each(rig: _Rig) -> None:
    """A receipt accounts for each item, with an id for what was taken."""
    receipt = rig.bank("ana").retain([AISLE, TRAIN])
    _expect(len(receipt) == 2, f"two items gave a receipt of {len(receipt)}")
    taken = (*receipt.stored, *receipt.queued)
    _expect(len(taken) == 2 and all(outcome.id for outcome in taken), f"taken: {taken}")


def told_twice(rig: _Rig) -> None:
    """What is told twice is recalled once."""
    found = _texts(rig.told(AISLE, AISLE).recall("Which seats does Ana prefer?"))
    _expect(found.count(AISLE) == 1, f"recalled: {found}")


def unknown_bank(rig: _Rig) -> None:
    """A bank that nobody has written to knows nothing, and is no error."""
    bank = rig.bank("nobody")
    _expect(bank.recall("Which seats?").state == "nothing", "a recall found something")
    _expect(not bank.list(), "a list has something")


def banks_apart(rig: _Rig) -> None:
    """No bank shows what another was told: not in a recall, a list, or by its id."""
    ana, ben = rig.told(AISLE), rig.told(TRAIN, name="ben")
    _expect(AISLE not in _texts(ben.recall(AISLE)), "a recall shows a memory of another bank")
    _expect(AISLE not in _listed(ben), "a list shows a memory of another bank")
    _expect(_lacks(ben, _only(ana, AISLE).id), "`get` gives a memory of another bank")


def projects_apart(rig: _Rig) -> None:
    """A project shows its own memories and those of no project, and none of another project."""
    atlas, zeus, outside = rig.bank("ana", project="atlas"), rig.bank("ana", project="zeus"), rig.bank("ana")
    for bank, text in ((atlas, "Deploy to Oslo."), (zeus, "Deploy to Rome."), (outside, "Deploy on Monday.")):
        bank.retain(text)
    rig.settle(atlas)
    found = sorted(_texts(atlas.recall("Where and when to deploy?")))
    _expect(found == ["Deploy on Monday.", "Deploy to Oslo."], f"recalled: {found}")


def bounds(rig: _Rig) -> None:
    """`limit` and `max_tokens` bound a recall."""
    bank = rig.told(*(f"Ana visited city number {n}." for n in range(6)))
    query = "Which city has Ana visited?"
    _expect(len(bank.recall(query, limit=2)) == 2, "`limit=2` did not give two memories")
    few = _texts(bank.recall(query, limit=6, max_tokens=16))
    _expect(1 <= len(few) <= 2, f"`max_tokens=16` gave {len(few)} memories of 6 tokens")


def types_narrow(rig: _Rig) -> None:
    """`types` narrows a recall."""
    bank = rig.told(AISLE)
    for kind in FACTS:
        found = [memory.type for memory in bank.recall(AISLE, types=[kind])]
        _expect(set(found) <= {kind}, f"the type `{kind}` gave {found}")
    _expect(AISLE in _texts(bank.recall(AISLE, types=FACTS)), "with both types of what is told, nothing was found")


def tags_narrow(rig: _Rig) -> None:
    """`tags` narrow a recall, and nothing untagged comes through a strict match."""
    bank = rig.bank("ana")
    bank.retain([{"content": AISLE, "tags": ["trip"]}, {"content": "Ana sells seats.", "tags": ["work"]}, "Ana has seats."])
    rig.settle(bank)
    found = _texts(bank.recall("Ana seats", tags=["trip"]))
    _expect(found == [AISLE], f"the tag `trip` gave {found}")
    both = _texts(bank.recall("Ana seats", tags=["trip", "work"], tags_match="all_strict"))
    _expect(not both, f"both tags at once gave {both}")


def unknown_id(rig: _Rig) -> None:
    """An unknown id is a `MissingError`."""
    bank = rig.told(AISLE)
    for verb, act in (("get", bank.get), ("forget", bank.forget)):
        try:
            act("no-such-memory")
        except MissingError:
            continue
        raise _BrokenError(f"`{verb}` raised nothing")


def pages(rig: _Rig) -> None:
    """A list comes in pages, each memory once."""
    told = [f"Ana visited city number {n}." for n in range(5)]
    bank = rig.told(*told)
    listed = [_listed(bank, limit=2, offset=at) for at in (0, 2, 4)]
    _expect([len(page) for page in listed] == [2, 2, 1], f"pages of {[len(page) for page in listed]}")
    _expect(sorted(text for page in listed for text in page) == told, f"listed: {listed}")


def updated(rig: _Rig) -> None:
    """An update takes the place of the text."""
    bank = rig.told("The dentist is Dr Fermi.")
    bank.update(_only(bank, "The dentist is Dr Fermi.").id, content="The dentist is Dr Okafor.")
    rig.settle(bank)
    found = _texts(bank.recall("Who is the dentist?"))
    _expect(found == ["The dentist is Dr Okafor."], f"recalled: {found}")


def invalidated(rig: _Rig) -> None:
    """What is invalidated is not recalled, and kept."""
    bank = rig.told(AISLE, CELLO)
    bank.invalidate(_only(bank, AISLE).id)
    _expect(AISLE not in _texts(bank.recall("Which seats does Ana prefer?")), "it was recalled")
    kept = _listed(bank, state="invalidated")
    _expect(kept == [AISLE], f"kept as invalidated: {kept}")


def revalidated(rig: _Rig) -> None:
    """What is made valid again after it was invalidated is recalled, and nothing replaces it."""
    bank = rig.told(AISLE, CELLO)
    memory_id = _only(bank, AISLE).id
    bank.invalidate(memory_id, replacement=_only(bank, CELLO).id)
    back = bank.revalidate(memory_id)
    _expect((back.invalidated_at, back.superseded_by) == (None, None), f"it came back as {back}")
    rig.settle(bank)
    _expect(AISLE in _texts(bank.recall("Which seats does Ana prefer?")), "it was not recalled")
    _expect(not _listed(bank, state="invalidated"), "it is still listed as invalidated")


def forgotten(rig: _Rig) -> None:
    """What is forgotten is gone from recalls, lists and by its id; a dry run removes nothing."""
    bank = rig.told(AISLE, CELLO)
    memory_id = _only(bank, AISLE).id
    bank.forget(memory_id, dry_run=True)
    _expect(not _lacks(bank, memory_id), "the dry run removed it")
    bank.forget(memory_id)
    _expect(_lacks(bank, memory_id), "`get` still gives it")
    _expect(_listed(bank) == [CELLO], f"listed: {_listed(bank)}")
    _expect(AISLE not in _texts(bank.recall("Which seats does Ana prefer?")), "it was recalled")


def cleared(rig: _Rig) -> None:
    """`clear` empties one bank and leaves the others."""
    ana, ben = rig.told(AISLE, CELLO), rig.told(TRAIN, name="ben")
    ana.clear(confirm=ana.scope.bank)
    left = _texts(ana.list(state="all"))
    _expect(not left, f"left: {left}")
    _expect(_listed(ben) == [TRAIN], f"the other bank has {_listed(ben)}")


def many_threads(rig: _Rig) -> None:
    """What many threads tell at once is all kept."""
    bank, told = rig.bank("ana"), [f"Ana visited city number {n}." for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bank.retain, told))
    rig.settle(bank)
    kept = _listed(bank, limit=100)
    _expect(sorted(kept) == sorted(told), f"{len(told)} were told, {len(kept)} are kept")


def turn_kept_once(rig: _Rig) -> None:
    """A session keeps each message once, also where the history is handed over again."""
    bank = rig.bank("ana", on_failure="raise")
    history = [Message("user", "I always take aisle seats."), Message("assistant", "I will book the aisle for you.")]
    for _ in range(2):
        with bank.session("monday") as session:
            session.after_turn(history)
    rig.settle(bank)
    kept = " ".join(_listed(bank))
    _expect([kept.count("take aisle seats"), kept.count("book the aisle")] == [1, 1], f"kept: {kept}")


def next_session_knows(rig: _Rig) -> None:
    """What was said in one session is recalled in the next."""
    bank = rig.bank("ana", on_failure="raise")
    with bank.session("monday") as session:
        session.after_turn([Message("user", "I always take aisle seats."), Message("assistant", "Noted.")])
    rig.settle(bank)
    with bank.session("tuesday") as session:
        injection = session.before_turn([Message("user", "Which seats do I always take?")])
    _expect("aisle seats" in injection.memories, f"recalled: {injection.memories or 'nothing'}")


CHECKS: Mapping[str, Callable[[_Rig], None]] = {
    check.__name__: check
    for check in (
        *(found_by_words, as_it_was_told, receipt_for_each, told_twice, unknown_bank, banks_apart, projects_apart, bounds),
        *(types_narrow, tags_narrow, unknown_id, pages, updated, invalidated, revalidated, forgotten, cleared),
        *(many_threads, turn_kept_once, next_session_knows),
    )
}


def check_backend(make: Callable[[], Backend], *, only: Sequence[str] = (), wait: float = 30) -> tuple[Promise, ...]:
    """What a backend keeps of what any backend promises. `make` gives one, anew for each check; `only` names some checks.

    Each check has banks of its own, whose names begin with `conformance-`, and clears them. A verb that the backend lacks
    (`UnsupportedError`) makes a promise `unsupported`; whatever else goes wrong makes it `broken`. `wait` is how many seconds
    writes may take until they are known.

    >>> [promise.text for promise in check_backend(MyBackend) if promise.state == "broken"]
    []
    """
    if unknown := [name for name in only if name not in CHECKS]:
        raise UsageError(f"there is no check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    return tuple(_checked(make, CHECKS[name], wait) for name in only or CHECKS)


def _checked(make: Callable[[], Backend], check: Callable[[_Rig], None], wait: float) -> Promise:
    text = (check.__doc__ or "").strip().removesuffix(".")
    rig = _Rig(make(), wait, f"conformance-{uuid.uuid4().hex[:8]}", [])
    try:
        try:
            check(rig)
        finally:
            rig.close()
    except UnsupportedError as error:
        return Promise(text, "unsupported", str(error))
    except _BrokenError as error:
        return Promise(text, "broken", str(error))
    except Exception as error:  # noqa: BLE001 - a backend of somebody's may raise anything: that is what is told
        return Promise(text, "broken", f"{type(error).__name__}: {error}")
    return Promise(text, "kept")
