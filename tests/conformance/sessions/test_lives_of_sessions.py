"""Sessions: lives of sessions; the kill switch; backends of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lorebank import Bank, Session, UsageError, open_bank
from lorebank._delivery.backend import OutboxBackend
from lorebank._domain.settings import ConnectionSettings, OutboxSettings, RetainSettings
from lorebank._mnemopi.backend import MnemopiBackend

from .rig import AISLE, FACT, Caller, Kept, Opener, Settled, answer, user


def test_a_session_is_a_context_manager(near_opened: Opener, kept: Kept) -> None:
    """Leaving the block closes it."""
    bank = near_opened()
    with bank.session("s") as session:
        session.before_turn([user(AISLE)])
    with pytest.raises(UsageError, match="closed"):
        session.before_turn([user(AISLE)])
    assert kept(bank) == [("user", AISLE)]


def test_a_session_is_an_async_context_manager(near_opened: Opener, kept: Kept) -> None:
    """In a running loop, also twice in two loops."""
    bank = near_opened()

    async def talk(text: str) -> Session:
        async with bank.session("s") as session:
            await session.abefore_turn([user(text)])
            await session.aafter_turn([user(text), answer("Noted.")])
        return session

    first, second = asyncio.run(talk(AISLE)), asyncio.run(talk(FACT))
    assert first is not second
    with pytest.raises(UsageError, match="closed"):
        asyncio.run(second.abefore_turn([user(AISLE)]))
    assert ("user", FACT) in kept(bank)


def test_a_closed_session_refuses_messages(near: Bank, call: Caller) -> None:
    """`UsageError`, with the way to open it again; closing twice is harmless."""
    session = near.session("s")
    call(session, "close")
    call(session, "close")
    for verb in ("before_turn", "after_turn", "before_compaction"):
        with pytest.raises(UsageError, match=r"session\('s'\)"):
            call(session, verb, [user(AISLE)])


@pytest.mark.parametrize("verb", ["retain_now", "last_recall", "save", "reload_mental_models"])
def test_a_closed_session_refuses_the_other_verbs(near: Bank, verb: str) -> None:
    """Use after close is a `UsageError` for every verb."""
    session = near.session("s")
    session.close()
    with pytest.raises(UsageError, match="closed"):
        getattr(session, verb)()


@pytest.mark.backends("mnemopi")
@pytest.mark.parametrize(
    "change",
    [
        lambda session: setattr(session, "mode", "ignored"),
        lambda session: setattr(session, "retain_enabled", False),
        lambda session: session.tags.add("x"),
        lambda session: session.skip_next(),
    ],
    ids=["mode", "retain_enabled", "tags", "skip_next"],
)
def test_a_closed_session_takes_no_changes(near: Bank, change: Callable[[Session], object]) -> None:
    """A change that could never be stored is refused: a user who asks for privacy must not be told yes."""
    session = near.session("s")
    session.close()
    with pytest.raises(UsageError, match="closed"):
        change(session)


def test_a_closed_bank_ends_its_sessions(near_opened: Opener, call: Caller) -> None:
    """What is called after the opener's close is a `UsageError`; closing the session is harmless."""
    bank = near_opened()
    session = bank.session("s")
    call(session, "before_turn", [user(AISLE)])
    bank.close()
    with pytest.raises(UsageError, match="closed"):
        call(session, "before_turn", [user(AISLE)])
    with pytest.raises(UsageError, match="closed"):
        bank.session("s")
    call(session, "close")


def test_opening_twice_gives_one_session_and_the_last_close_ends_it(near_opened: Opener, call: Caller) -> None:
    """Reference-counted: two parts of a program share it without knowing of each other."""
    bank = near_opened()
    one, two = bank.session("s"), bank.session("s")
    assert one is two
    call(one, "close")
    call(two, "before_turn", [user(AISLE)])
    call(two, "close")
    with pytest.raises(UsageError, match="closed"):
        call(two, "before_turn", [user(AISLE)])
    three = bank.session("s")
    assert three is not one
    assert call(three, "after_turn", [user(AISLE)]).new == 0


def test_a_name_is_trimmed_once(near_opened: Opener) -> None:
    """Blanks around an id don't make another session."""
    bank = near_opened()
    assert bank.session(" s ") is bank.session("s")


def test_several_sessions_live_side_by_side(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """The same words in two sessions are two messages, each with its own session."""
    bank = near_opened(recall={"auto_recall": False})
    with bank.session("a") as a, bank.session("b") as b:
        for session in (a, b, a, b):
            call(session, "before_turn", [user(AISLE)])
            call(session, "after_turn", [user(AISLE), answer("Noted.")])
    assert sorted(kept(bank)) == sorted([("user", AISLE), ("assistant", "Noted.")] * 2)


def test_a_session_outlives_the_named_bank_that_opened_it(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """Closing a `named` bank leaves the connections open, and so the session."""
    opener = near_opened()
    bob = opener.named("bob")
    session = bob.session("s")
    bob.close()
    with pytest.raises(UsageError):
        bob.session("s")
    call(session, "before_turn", [user(AISLE)])
    assert opener.named("bob").session("s") is session
    call(session, "close")
    call(session, "close")
    assert kept(opener.named("bob")) == [("user", AISLE)]


@pytest.mark.parametrize("scoping", ["global", "per-project", "per-project-tagged"])
def test_one_session_id_in_two_projects_is_two_sessions(
    near_opened: Opener, call: Caller, kept: Kept, settled: Settled, scoping: Any
) -> None:
    """Cursors, modes and tags are the project's own wherever projects are apart; what is kept is recalled in its scope."""
    atlas, zeus = (near_opened(project=label, scoping=scoping) for label in ("atlas", "zeus"))
    with atlas.session("s") as one, zeus.session("s") as two:
        one.mode = "read-only"
        one.save()
        call(one, "before_turn", [user("The engine of atlas is red.")])
        call(two, "before_turn", [user("The engine of zeus is blue.")])
        assert (one.mode, two.mode) == ("read-only", "read-only" if scoping == "global" else "normal")
        assert two.key == one.key if scoping == "global" else two.key != one.key
    if scoping == "global":
        return
    settled(zeus)
    with atlas.session("t") as here, zeus.session("t") as there:
        assert call(here, "before_turn", [user("Which colour has the engine?")]).memories == ""
        assert "blue" in call(there, "before_turn", [user("Which colour has the engine?")]).memories


@pytest.mark.parametrize("scoping", ["per-project", "per-project-tagged"])
def test_one_message_told_in_two_projects_is_kept_in_both(near_opened: Opener, call: Caller, kept: Kept, scoping: Any) -> None:
    """The same id, the same words, the same host ids: each project keeps its own."""
    history = [user(AISLE, id="m1"), answer("Noted.", id="m2")]
    banks = [near_opened(project=label, scoping=scoping) for label in ("atlas", "zeus")]
    for bank in banks:
        with bank.session("s") as session:
            assert call(session, "after_turn", history).new == 2
    lines = [line for name in {bank.scope.bank: bank for bank in banks}.values() for line in kept(name)]
    assert sorted(lines) == sorted([("user", AISLE), ("assistant", "Noted.")] * 2)


def test_a_sub_agent_has_tools_and_nothing_automatic(near_opened: Opener, call: Caller, kept: Kept) -> None:
    """An alias of its parent's session recalls and keeps nothing, in any mode of the parent."""
    bank = near_opened()
    with bank.session("s", tools=("recall",)) as session:
        alias = session.alias()
        injection = call(alias, "before_turn", [user(AISLE)])
        receipt = call(alias, "after_turn", [user(AISLE), answer("Noted.")])
        assert (injection.memories, injection.result) == ("", None)
        assert "recall" in injection.system_prefix
        assert (receipt.new, receipt.reason is None) == (0, False)
        session.mode = "ignored"
        assert alias.refusal("recall") == session.refusal("recall") is not None
    assert kept(bank) == []


def test_memory_that_is_switched_off_costs_nothing(
    near_store: Any, call: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """`LOREBANK_URL=off`: sessions are `ignored`, every call is inert, and there is no I/O at all."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    store, server = near_store
    with store.open("alice", on_failure="raise") as bank, bank.session("s", tools=("recall",)) as session:
        assert not call(session, "before_turn", [user(AISLE)])
        assert call(session, "after_turn", [user(AISLE)]).reason == "memory is off"
        assert call(session, "before_compaction", [user(AISLE)]) == ""
        assert session.mode == "ignored"
        session.mode = "normal"
        session.tags.add("x")
        session.skip_next()
        call(session, "save")
        assert session.mode == "ignored"
        assert session.refusal("recall") is not None
        assert call(session, "last_recall") is None
        assert call(session, "retain_now").left == 0
    assert server is None or not server.requests
    assert not list(tmp_path.glob("*.db"))


def test_a_backend_that_was_passed_has_sessions_too(near_store: Any, call: Caller, tmp_path: Any) -> None:
    """`open_bank(backend=...)` is the same bank."""
    store, server = near_store
    backend = (
        MnemopiBackend(store.url)
        if server is None
        else OutboxBackend(
            store.url, ConnectionSettings(), RetainSettings(), OutboxSettings(), ledger=f"sqlite:///{tmp_path / 'own.db'}"
        )
    )
    with open_bank(backend=backend, bank="alice") as bank, bank.session("s") as session:
        call(session, "before_turn", [user(AISLE)])
        assert call(session, "after_turn", [user(AISLE), answer("Noted.")]).new == 1
