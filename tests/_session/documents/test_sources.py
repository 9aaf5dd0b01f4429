"""What an answer was made from is kept with it."""

from __future__ import annotations

import json
from pathlib import Path

from lorebank import open_bank
from lorebank._domain.item import Item
from lorebank._domain.message import Message, Transcript
from lorebank._domain.session import DocumentWrite
from lorebank._domain.settings import RetainSettings
from lorebank._domain.transcripts import packed

ASKED = Message("user", "Where does the ferry to Naxos leave?")
ANSWERED = Message("assistant", "From Piraeus, gate E6.", sources=("node-1", "node-2"))


def test_a_memory_of_an_answer_names_its_sources(tmp_path: Path) -> None:
    """The ids stand in the memory's metadata, one a line; the question has none."""
    with open_bank(f"sqlite:///{tmp_path / 'm.db'}", bank="ana") as bank:
        bank.session("s").after_turn([ASKED, ANSWERED])
        kept = {memory.text: memory.metadata for memory in bank.list()}
    assert kept[ANSWERED.text]["sources"] == "node-1\nnode-2"
    assert "sources" not in kept[ASKED.text]


def test_a_transcript_for_a_server_names_the_sources_of_its_lines() -> None:
    """Each line of the JSON transcript has its own; the document's metadata has none."""
    items = tuple(
        Item(text, metadata=metadata)
        for text, metadata in (
            (ASKED.text, {"role": "user"}),
            (ANSWERED.text, {"role": "assistant", "sources": "node-1\nnode-2"}),
        )
    )
    (sent,) = packed(DocumentWrite("lorebank:s:0", items, items), RetainSettings())
    assert [line.get("sources") for line in json.loads(sent.content)] == [None, ["node-1", "node-2"]]
    assert sent.metadata is None


def test_projected_messages_keep_their_sources() -> None:
    """A transcript made of messages says the same."""
    assert json.loads(Transcript.of([ANSWERED]).as_json())[0]["sources"] == ["node-1", "node-2"]
