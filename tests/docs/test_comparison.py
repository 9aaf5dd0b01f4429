"""The page that compares: what it says of lorebank names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
TABLES = [
    [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)
]
ROWS = [row for _, _, *rows in TABLES for row in rows]
NAMED = {int(number): (file, name) for number, file, name in re.findall(r"^(\d+)\. `([\w/.]+)::(\w+)`", PAGE, re.MULTILINE)}


@cache
def defined(file: str) -> frozenset[str]:
    """The tests of a file: its functions and classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def references(cell: str) -> list[int]:
    return [int(number) for number in re.findall(r"\[(\d+)\]", cell)]


@pytest.mark.parametrize("number", NAMED)
def test_a_test_that_is_named_exists(number: int) -> None:
    """In a file that pytest collects, under a name that it collects."""
    file, name = NAMED[number]
    assert Path(file).name.startswith("test_")
    assert name.startswith(("test_", "Test"))
    assert name in defined(file)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_its_tests_or_says_no(row: list[str]) -> None:
    """In our column, which is the first; the others have a word in each cell and no tests."""
    _, ours, *others = row
    assert references(ours) or ours == "no" or ours.startswith("no;")
    assert set(references(ours)) <= set(NAMED)
    assert all(others)
    assert not any(map(references, others))


@pytest.mark.parametrize(("table", "rows", "others"), [(0, 34, 11), (1, 20, 6)], ids=["LangChain", "LlamaIndex"])
def test_a_table_is_whole(table: int, rows: int, others: int) -> None:
    """All rows, of lorebank and all others, none of them twice."""
    head, _, *found = TABLES[table]
    assert len(TABLES) == 2
    assert head[1].startswith("lorebank")
    assert {len(row) for row in (head, *found)} == {others + 2}
    assert len({row[0] for row in found}) == len(found) == rows


def test_each_test_is_named_once_and_used() -> None:
    """Numbered in the order in which they are used."""
    used = [number for row in ROWS for number in references(row[1])]
    assert list(dict.fromkeys(used)) == list(NAMED) == list(range(1, len(NAMED) + 1))
    assert len(set(NAMED.values())) == len(NAMED)
