"""`export` and `import_` on all backends: what one writes, any reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, GarbledError, UsageError, open_bank

Caller = Callable[..., Any]
Told = Callable[..., list[str]]
Settled = Callable[[Bank], None]
Beside = Callable[[Bank, str], Bank]
FACTS = ("world", "experience")
ITEMS = [
    {"content": "Ana sings in Oslo.", "tags": ["life"], "context": "home", "metadata": {"turn": "3"}},
    {"content": "Ben plays the cello.", "session": "s1", "document_id": "d1"},
    {"content": "Carla likes tea.", "session": "s1", "document_id": "d2"},
]


def held(bank: Bank, call: Caller) -> list[tuple[Any, ...]]:
    """What the bank was told, without ids and documents: a server has its own."""
    found = call(bank, "list", types=FACTS, limit=100)
    return sorted((m.text, m.tags, m.context, m.session, m.metadata.get("turn"), m.mentioned_at) for m in found)


def test_a_bank_is_exported_and_imported_into_another(
    bank: Bank, call: Caller, told: Told, settled: Settled, beside: Beside, tmp_path: Path
) -> None:
    """Texts, tags, context, metadata, session and time arrive; again adds nothing; recall finds them."""
    told(bank, ITEMS)
    other, path = beside(bank, "bob"), tmp_path / "memories.jsonl"
    report = call(bank, "export", path)
    assert report.memories >= 3
    assert path.stat().st_size == report.bytes
    imported = call(other, "import_", path)
    assert imported.added + imported.queued == 3
    settled(other)
    assert held(other, call) == held(bank, call)
    assert "Ben plays the cello." in {memory.text for memory in call(other, "recall", "Who plays the cello?")}
    call(other, "import_", path)
    settled(other)
    assert held(other, call) == held(bank, call)


def test_a_file_of_this_backend_becomes_a_bank_in_a_file(bank: Bank, call: Caller, told: Told, tmp_path: Path) -> None:
    """From anywhere to Mnemopi, in the order in which it was said."""
    told(bank, ITEMS)
    path = tmp_path / "memories.jsonl"
    call(bank, "export", path)
    with open_bank(f"sqlite:///{tmp_path / 'laptop.db'}") as laptop:
        laptop.import_(path)
        assert held(laptop, call) == held(bank, call)
        ids = {memory.id for memory in call(bank, "list", types=FACTS, limit=100)}
        assert {memory.id for memory in laptop.list(types=FACTS)} == ids
        assert laptop.import_(path).added == 0


def test_a_chat_history_is_imported(bank: Bank, call: Caller, settled: Settled, tmp_path: Path) -> None:
    """Once, however often."""
    path = tmp_path / "thread.json"
    path.write_text(json.dumps([{"role": "user", "content": "Ana sings in Oslo."}]))
    for _ in range(2):
        call(bank, "import_", path)
        settled(bank)
        assert [(m.text, m.session, m.speaker) for m in call(bank, "list", types=FACTS)] == [
            ("Ana sings in Oslo.", "thread", "user")
        ]


def test_a_damaged_file_changes_nothing(near: Bank, call: Caller, tmp_path: Path) -> None:
    """It is refused before anything is written or sent."""
    path = tmp_path / "memories.jsonl"
    with open_bank(f"sqlite:///{tmp_path / 'source.db'}") as source:
        source.retain("Ana sings.")
        source.export(path)
    path.write_bytes(path.read_bytes().replace(b"sings", b"signs"))
    with pytest.raises(GarbledError, match="checksum"):
        call(near, "import_", path)
    with pytest.raises(UsageError, match="can't be read"):
        call(near, "import_", tmp_path / "none.jsonl")
    assert call(near, "list") == ()
    assert call(near.outbox, "list") == ()
