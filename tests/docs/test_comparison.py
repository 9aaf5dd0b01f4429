"""The page that compares: what it says of lorebank names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
HEAD, _, *ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
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


def test_the_table_is_whole() -> None:
    """34 rows of lorebank and eleven others, none of them twice."""
    assert HEAD[1].startswith("lorebank")
    assert {len(row) for row in (HEAD, *ROWS)} == {13}
    assert len({row[0] for row in ROWS}) == len(ROWS) == 34


def test_each_test_is_named_once_and_used() -> None:
    """Numbered in the order in which they are used."""
    used = [number for row in ROWS for number in references(row[1])]
    assert list(dict.fromkeys(used)) == list(NAMED) == list(range(1, len(NAMED) + 1))
    assert len(set(NAMED.values())) == len(NAMED)
