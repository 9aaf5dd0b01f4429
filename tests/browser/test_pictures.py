"""The pictures of `docs/inspector.md`, made anew where `LOREBANK_PICTURES` names a folder."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lorebank import Item
from lorebank.testing import Fault, FaultServer

from .conftest import Reader, Rig

FOLDER = os.environ.get("LOREBANK_PICTURES")
TOLD = (
    "Ana Silva prefers an aisle seat on flights longer than two hours.",
    "Ana Silva works for Atlas Robotics in Lisbon.",
    "Kofi Mensah leads the Harbour project at Atlas Robotics.",
    "Ana Silva and Kofi Mensah meet on Mondays about the Harbour project.",
    "The Harbour project runs on PostgreSQL; its staging port is 8443.",
    "Chloe Martin flies to Lisbon with Ana Silva on 3 June.",
    "Chloe Martin asked Kofi Mensah for the PostgreSQL password of staging.",
    "For the flight to Lima, Ana Silva paid extra for an aisle seat in row 12.",
    "Biscuit is the grey parrot of Marta Oliveira.",
    "Marta Oliveira moved from Porto to Lisbon in spring.",
    "Chloe Martin and Marta Oliveira share a flat in Lisbon.",
    "Ana Silva books the night train to Porto when flights are late.",
)
SIZE = {"width": 1120, "deviceScaleFactor": 1, "mobile": False}


@pytest.mark.skipif(FOLDER is None, reason="makes pictures where LOREBANK_PICTURES names a folder")
def test_the_pictures_are_made(rig: Rig) -> None:
    """Search, entities, a memory that was just corrected, an outbox with a dead letter."""
    reader = rig.reader()
    start = datetime(2026, 5, 4, 9, 12, tzinfo=UTC)
    reader.bank.retain([Item(text, tags=["travel"], timestamp=start + timedelta(hours=7 * n)) for n, text in enumerate(TOLD)])
    taken(reader, "search", "/?q=Which+seat+does+Ana+prefer+on+a+long+flight%3F")
    taken(reader, "entities", "/entities")
    known = next(memory.id for memory in reader.bank.list(limit=100) if memory.text == TOLD[0])
    reader.open(f"/memory?id={known}")
    field = reader.labelled("What it should say")
    field.clear()
    field.send_keys("Ana Silva prefers an aisle seat on flights longer than four hours.")
    reader.activate("Correct")
    taken(reader, "memory")
    with FaultServer() as server:
        waiting = rig.reader(server.url, bank="team")
        refusal = b'{"detail": "The document is too large for this bank."}'
        server.fault(Fault(status=413, body=refusal), path="/memories$", method="POST")
        waiting.bank.retain(TOLD[0], document_id="travel-notes")
        waiting.bank.flush(timeout=30, until="completed")
        server.stop()
        waiting.bank.retain(TOLD[1], document_id="people")
        taken(waiting, "outbox", "/outbox", height=480)
        server.start()


def taken(reader: Reader, name: str, path: str | None = None, *, height: int = 760) -> None:
    """Takes a picture of a page, without where the focus is."""
    reader.command("Emulation.setDeviceMetricsOverride", **SIZE, height=height)
    if path is not None:
        reader.open(path)
    reader.run("document.activeElement.blur(); scrollTo(0, 0)")
    assert reader.driver.save_screenshot(str(Path(str(FOLDER), f"{name}.png")))
