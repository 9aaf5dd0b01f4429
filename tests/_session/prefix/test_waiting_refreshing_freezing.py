"""Prefix: waiting, refreshing, freezing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from lorebank import Bank, Message, UnavailableError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank._session.registry import registry_of
from lorebank._session.shared import Clocks
from lorebank.seams import ModelRefreshed, Skipped
from lorebank.testing import Fault

from .rig import FACT, HELLO, MODELS, NO_SEEDS, Clock, Rig, Spared, block, made, prefix, read


def test_the_first_turn_waits_a_moment_for_them(served: Rig) -> None:
    """Slow models are there in the first prefix where they come within `first_wait`."""
    bank = served.open(mental_models={"auto_seed": False, "first_wait": 10.0}, recall={"auto_recall": False, "deadline": 20.0})
    served.tell(bank, FACT)
    made(bank)
    served.faults.fault(Fault(delay=0.3), method="GET", path=MODELS, times=1)
    with bank.session("s") as session:
        assert FACT in prefix(session)


@pytest.mark.parametrize("wait", [0.0, 0.1])
def test_models_that_come_late_are_there_later(served: Rig, wait: float) -> None:
    """The first prefix is without, a later one has them, and no turn waits again."""
    bank = served.open(mental_models={"auto_seed": False, "first_wait": wait})
    served.tell(bank, FACT)
    made(bank)
    served.faults.fault(Fault(delay=1.0), method="GET", path=MODELS, times=1)
    with bank.session("s", tools=("recall",)) as session:
        first = prefix(session)
        assert "Call recall " in first
        assert block(first) == ""
        read(session)
        assert FACT in prefix(session)


def test_models_are_read_again_when_their_time_is_over(served: Rig) -> None:
    """Five minutes by default: not before, then in the background; the prefix changes with the content, and an event tells."""
    bank = served.open(mental_models=NO_SEEDS)
    served.tell(bank, FACT)
    made(bank)
    with bank.session("s") as session:
        first, asked = prefix(session), served.asked()
        served.tell(bank, "Ana prefers window seats on long flights at night.")
        bank.mental_models.refresh("seats")
        asked = served.asked()
        served.clock.now += 299
        assert prefix(session) == first
        assert served.asked() == asked
        served.clock.now += 2
        assert prefix(session) == first
        read(session)
        assert served.asked() > asked
        second = prefix(session)
    assert "window" in second
    assert [event.changed for event in served.of(ModelRefreshed) if event.model == "*"] == [True]


def test_unchanged_content_keeps_its_bytes_and_tells_nothing(rig: Rig) -> None:
    """However often it is read, and in however many sessions and processes."""
    bank = rig.open(mental_models=NO_SEEDS)
    rig.tell(bank, FACT)
    made(bank)
    seen = set[str]()
    for name in ("a", "b"):
        with bank.session(name) as session:
            for _ in range(4):
                seen.add(prefix(session))
                read(session)
                rig.clock.now += 301
    with rig.open(mental_models=NO_SEEDS).session("c") as session:
        seen.add(prefix(session))
    assert len(seen) == 1
    assert FACT in seen.pop()
    assert [event for event in rig.of(ModelRefreshed) if event.model == "*"] == []


def test_manual_models_change_by_reloading_alone(served: Rig) -> None:
    """`refresh="manual"`: never on their own, however much time passes."""
    bank = served.open(mental_models={"auto_seed": False, "refresh": "manual"})
    served.tell(bank, FACT)
    made(bank)
    with bank.session("s") as session:
        first = prefix(session)
        served.tell(bank, "Ana prefers window seats on long flights at night.")
        bank.mental_models.refresh("seats")
        asked = served.asked()
        served.clock.now += 100_000
        assert prefix(session) == first
        assert served.asked() == asked
        session.reload_mental_models()
        assert "window" in prefix(session)


def test_reloading_raises_where_it_cant_be_done(served: Rig) -> None:
    """And keeps the last good block."""
    bank = served.open(mental_models=NO_SEEDS)
    served.tell(bank, FACT)
    made(bank)
    with bank.session("s") as session:
        first = prefix(session)
        served.faults.fault(Fault(status=503), path=MODELS)
        with pytest.raises(UnavailableError):
            session.reload_mental_models()
        assert prefix(session) == first
        assert FACT in first


def test_a_frozen_prefix_stays_for_its_session(served: Rig) -> None:
    """`freeze="session"`: the same bytes until its end; the next session has the new ones."""
    bank = served.open(mental_models={"auto_seed": False, "freeze": "session"})
    served.tell(bank, FACT)
    made(bank)
    with bank.session("old") as old:
        first = prefix(old)
        served.tell(bank, "Ana prefers window seats on long flights at night.")
        bank.mental_models.refresh("seats")
        for _ in range(3):
            served.clock.now += 301
            assert prefix(old) == first
            read(old)
        with bank.session("new") as new:
            assert "window" in prefix(new)
        assert prefix(old) == first
        old.reload_mental_models()
        assert "window" in prefix(old)


def test_the_last_good_models_stay_while_the_server_fails(served: Rig) -> None:
    """For as long as it takes; the failure is an event, and afterwards they are read again."""
    bank = served.open(mental_models=NO_SEEDS)
    served.tell(bank, FACT)
    made(bank)
    with bank.session("s") as session:
        first = prefix(session)
        served.faults.fault(Fault(status=500), path=MODELS)
        for _ in range(5):
            served.clock.now += 301
            assert prefix(session) == first
            read(session)
        assert FACT in first
        assert {event.verb for event in served.of(Skipped)} == {"mental_models"}
        served.faults.heal()
        served.tell(bank, "Ana prefers window seats on long flights at night.")
        bank.mental_models.refresh("seats")
        served.clock.now += 301
        prefix(session)
        read(session)
        assert "window" in prefix(session)


def test_models_that_could_not_be_read_are_tried_again(served: Rig) -> None:
    """A server that is down at the start: no block, no error, and the block once it is up."""
    bank = served.open(mental_models=NO_SEEDS)
    served.tell(bank, FACT)
    made(bank)
    served.faults.fault(Fault(status=500), path=MODELS)
    with bank.session("s") as session:
        assert block(prefix(session)) == ""
        read(session)
        served.faults.heal()
        served.clock.now += 16
        prefix(session)
        read(session)
        assert FACT in prefix(session)


@pytest.mark.usefixtures("hasty")
def test_models_that_fail_at_once_are_tried_again(url: str) -> None:
    """Also where the failure is quicker than the turn that waits for it: no bank is left without its models for good."""
    clock, backend = Clock(), MnemopiBackend(url)
    backend.models = models = Spared(backend.models)  # type: ignore[assignment]
    with open_bank(backend=backend, bank="alice", mental_models=NO_SEEDS, recall={"auto_recall": False}) as bank:
        registry_of(bank.connections, Clocks(ticks=clock))
        for number in range(300):
            models.down = True
            with bank.named(f"user{number}").session("s") as session:
                prefix(session)
                read(session)
                models.down = False
                clock.now += 16
                prefix(session)
                read(session)
                assert session._prefix._models._block is not None, f"bank {number} never reads its models again"


def test_clearing_locally_drops_the_cached_block(served: Rig) -> None:
    """`clear(what="local")` drops caches: the next turn reads the models anew."""
    bank = served.open(mental_models={"auto_seed": False, "refresh": "manual"})
    served.tell(bank, FACT)
    made(bank)
    with bank.session("s") as session:
        prefix(session)
        bank.mental_models.delete("seats")
        bank.clear(what="local")
        assert FACT not in prefix(session)


@pytest.mark.parametrize("drop", [lambda bank: bank.clear(confirm="alice"), lambda bank: bank.mental_models.delete("seats")])
def test_what_was_deleted_leaves_the_prefix(rig: Rig, drop: Callable[[Bank], object]) -> None:
    """A user who has everything deleted must not find it in the next prompt: at the latest when the block is read again."""
    bank = rig.open(mental_models=NO_SEEDS)
    rig.tell(bank, FACT)
    made(bank)
    with bank.session("s") as session:
        assert FACT in prefix(session)
        drop(bank)
        rig.clock.now += 301
        prefix(session)
        read(session)
        assert FACT not in prefix(session)


def test_models_follow_what_the_bank_learns(tmp_path: Path) -> None:
    """On Mnemopi a model is answered anew once the bank knows more, by the time its block is read again."""
    with ExitStack() as stack:
        rig = Rig(tmp_path, None, stack)
        bank = rig.open(mental_models=NO_SEEDS)
        rig.tell(bank, FACT)
        made(bank)
        with bank.session("s") as session:
            assert "window" not in prefix(session)
            session.after_turn(
                [*HELLO, Message("assistant", "Hi."), Message("user", "Ana prefers window seats on long flights at night.")]
            )
            rig.clock.now += 301
            prefix(session)
            read(session)
            assert "window" in prefix(session)
