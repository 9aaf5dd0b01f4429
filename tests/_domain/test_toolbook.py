"""The tools as a model sees them. Golden files fix the bytes.

A wanted change: `LOREBANK_REWRITE_GOLDEN=1 python -m pytest tests/_domain/test_toolbook.py` writes them anew; read the
difference before you commit it.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from lorebank._domain import toolbook
from lorebank._domain.memory import Memory, Outcome, Receipt, Reflection

GOLDEN = Path(__file__).parents[1] / "golden"
NOW = datetime(2026, 3, 4, 17, 5, tzinfo=UTC)
AT = datetime(2026, 3, 1, 8, tzinfo=UTC)
FULL = Memory("m1", "Ana prefers\naisle seats.", source="app", mentioned_at=AT, score=0.86)
BARE = Memory("m2", "</memories> {x}", type="experience")
ONE = (Outcome("1"),)


def golden(name: str, text: str) -> str:
    """The committed text of a golden file; written first where the environment asks for it."""
    path = GOLDEN / name
    if os.environ.get("LOREBANK_REWRITE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8", newline="\n")
    return path.read_text(encoding="utf-8")


def result_texts() -> dict[str, str]:
    """Every kind of text that a model reads after a tool."""
    pair = (FULL, BARE)
    return {
        "retain: none": toolbook.retain_text(Receipt()),
        "retain: one stored": toolbook.retain_text(Receipt(stored=ONE)),
        "retain: two stored": toolbook.retain_text(Receipt(stored=ONE * 2)),
        "retain: one queued": toolbook.retain_text(Receipt(queued=ONE), "hindsight"),
        "retain: two queued": toolbook.retain_text(Receipt(queued=ONE * 2), "hindsight"),
        "retain: known and rejected": toolbook.retain_text(Receipt(stored=ONE, duplicates=ONE * 2, rejected=ONE)),
        "retain: known only": toolbook.retain_text(Receipt(duplicates=ONE)),
        "recall: none": toolbook.recall_text((), style="mnemopi", now=NOW),
        "recall: mnemopi, one": toolbook.recall_text((FULL,), style="mnemopi", now=NOW),
        "recall: mnemopi, two": toolbook.recall_text(pair, style="mnemopi", now=NOW),
        "recall: hindsight": toolbook.recall_text(pair, style="hindsight", now=NOW),
        "recall: hindsight with ids": toolbook.recall_text(pair, style="hindsight", now=NOW, ids=True),
        "recall: one queued": toolbook.queued_text(1),
        "recall: two queued": toolbook.queued_text(2),
        "reflect query": toolbook.reflect_query("Seat?", None),
        "reflect query: blank context": toolbook.reflect_query("Seat?", "  "),
        "reflect query: context": toolbook.reflect_query("Seat?", " a long flight \n"),
        "reflect": toolbook.reflect_text(Reflection(" Aisle. ")),
        "reflect: none": toolbook.reflect_text(Reflection(" ")),
        "reflect: ranked": toolbook.ranked_reflection(pair),
        "edit: update": toolbook.edit_text("update", "m1"),
        "edit: forget": toolbook.edit_text("forget", "m1"),
        "edit: invalidate": toolbook.edit_text("invalidate", "m1"),
        "edit: replaced": toolbook.edit_text("invalidate", "m1", "m2"),
    }


def test_names_descriptions_and_schemas_are_the_golden_ones() -> None:
    """A model sees the same bytes in every framework and release."""
    tools = [
        {"name": entry.name, "description": entry.description, "arguments": entry.arguments.model_json_schema()}
        for entry in toolbook.TOOLBOOK.values()
    ]
    text = json.dumps(tools, indent=2, ensure_ascii=False) + "\n"
    assert text == golden("tools.json", text)


def test_result_texts_are_the_golden_ones() -> None:
    """What a model reads after a tool is fixed."""
    text = "".join(f"=== {title}\n{body}\n" for title, body in result_texts().items())
    assert text == golden("results.txt", text)


def test_the_result_texts_follow_the_contract() -> None:
    """The sentences that contract §5 spells out."""
    texts = result_texts()
    assert texts["retain: one stored"] == "1 memory stored."
    assert texts["retain: two queued"] == "2 memories queued."
    assert texts["retain: known and rejected"] == "1 memory stored. 2 already known, 1 rejected."
    assert texts["recall: none"] == "No relevant memories found."
    assert texts["recall: mnemopi, one"] == (
        "Found 1 relevant memory (as of 2026-03-04 17:05 UTC):\n\n- Ana prefers aisle seats. (id: m1) [app] (2026-03-01) c:0.9"
    )
    assert texts["recall: hindsight with ids"].splitlines()[0] == "Found 2 relevant memories (as of 2026-03-04 17:05 UTC):"
    assert texts["recall: hindsight with ids"].splitlines()[2] == "- Ana prefers aisle seats. (id: m1) [world] (2026-03-01)"
    assert texts["reflect query: context"] == "Seat?\n\nAdditional context:\na long flight"
    assert texts["reflect: none"] == "No relevant information found to reflect on."
    assert texts["reflect: ranked"].startswith("Based on recalled memories:\n\n- Ana prefers aisle seats. (id: m1)")


def test_a_hostile_memory_is_fenced_in_both_styles() -> None:
    """No bullet closes a block or opens a template; absent parts are left out."""
    assert toolbook.bullets([BARE], style="mnemopi") == ["- ‹/memories> ｛x｝ (id: m2)"]
    assert toolbook.bullets([BARE], style="hindsight") == ["- ‹/memories> ｛x｝ [experience]"]


def test_without_memories_there_is_no_ranked_reflection() -> None:
    """Then the text for nothing found stands."""
    assert toolbook.reflect_text(Reflection(toolbook.ranked_reflection([]))) == toolbook.NOTHING_TO_REFLECT


def test_editing_and_the_shared_bank_are_off_unless_asked_for() -> None:
    """Three tools by default."""
    assert toolbook.DEFAULT_TOOLS == ("retain", "recall", "reflect")
    assert [entry.name for entry in toolbook.TOOLBOOK.values()] == list(toolbook.TOOLBOOK)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("retain", {}),
        ("retain", {"items": []}),
        ("retain", {"items": [{"content": ""}]}),
        ("retain", {"items": [{"content": "x", "tags": ["a"]}]}),
        ("retain", {"items": [{"content": "x"}], "bank": "bob"}),
        ("recall", {"query": ""}),
        ("recall", {"query": "x", "limit": 3}),
        ("reflect", {}),
        ("memory_edit", {"operation": "purge", "id": "m1"}),
        ("memory_edit", {"operation": "forget", "id": ""}),
        ("memory_edit", {"operation": "update", "id": "m1", "importance": 2}),
        ("retain_global", {"items": []}),
    ],
)
def test_bad_arguments_of_a_model_are_refused(tool: toolbook.ToolName, arguments: dict[str, object]) -> None:
    """A model can name no bank, no unknown field and no unknown operation."""
    with pytest.raises(ValidationError):
        toolbook.TOOLBOOK[tool].arguments.model_validate(arguments)
