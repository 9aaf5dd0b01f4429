"""`bank.outbox.reroute` and the real server: under a new address, and into another bank."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hindsight_server import Hindsight
from outbox_rig import RETAIN, Rig, until

from lorebank import open_bank
from lorebank.testing import Fault, FaultServer


@pytest.fixture
def rig(hindsight: Hindsight, bank_id: str, tmp_path: Path) -> Iterator[Rig]:
    """The bank at the server's old address."""
    with FaultServer(upstream=hindsight.url) as old:
        made = Rig(old, hindsight.url, bank_id, tmp_path)
        yield made
        old.heal()
        made.close()


async def test_a_server_with_a_new_address_takes_each_write_once(rig: Rig, hindsight: Hindsight, bank_id: str) -> None:
    """Also the append that it had taken when its answer was lost: its operation keeps its name."""
    rig.proxy.fault(Fault(cut=True), path=RETAIN, method="post")
    old = rig.open(connection={"close_timeout": 0.1})
    old.retain("Ana drinks tea.", document_id="log", update_mode="append")
    old.flush(timeout=0.5)
    assert rig.retains
    old.retain(["Ben drinks milk.", "Cleo drinks water."])
    rig.proxy.stop()
    old.close()
    with (
        FaultServer(upstream=hindsight.url) as address,
        open_bank(address.url, bank=bank_id, ledger=rig.ledger, outbox={"batch_seconds": 0.02}) as new,
    ):
        assert new.outbox.list() == ()
        told = await new.outbox.areroute(url=f"{rig.proxy.url}/")
        assert (len(told), told.underway) == (3, ())
        report = new.flush(timeout=60, until="completed")
        assert (report.left, report.dead) == (0, 0)
    assert rig.texts() == ["Ana drinks tea.", "Ben drinks milk.", "Cleo drinks water."]


def test_writes_for_another_bank_go_to_this_one(rig: Rig, hindsight: Hindsight) -> None:
    """A bank whose name was wrong: what waits goes on, and said again it changes nothing."""
    rig.proxy.fault(Fault(status=503), path=RETAIN, method="post")
    bank = rig.open()
    wrong = bank.named(f"{bank.name}-typo")
    wrong.retain("Ana drinks tea.")
    wrong.retain("On Monday Ben came.", document_id="log", update_mode="append")
    until(lambda: rig.retains)
    until(lambda: len(bank.outbox.reroute(bank=wrong.name, dry_run=True)) == 2)
    assert len(bank.outbox.reroute(bank=wrong.name)) == 2
    rig.proxy.heal()
    assert len(bank.retain("Ana drinks tea.").duplicates) == 1
    report = bank.flush(timeout=60, until="completed")
    assert (report.left, report.dead) == (0, 0)
    assert rig.texts() == ["Ana drinks tea.", "On Monday Ben came."]
    httpx.delete(f"{hindsight.url}/v1/default/banks/{wrong.name}", timeout=60)
