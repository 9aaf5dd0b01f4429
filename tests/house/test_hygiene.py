"""What the folders may hold, and how long things may get."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("adapters", "integrations") for path in (ROOT / folder).rglob("*.py"))
ALL = SOURCES + sorted(path for folder in ("tests", "benchmarks", "cookbook") for path in (ROOT / folder).rglob("*.py"))


def test_the_two_folders_hold_import_packages_only() -> None:
    """An editable install puts both folders on the path: nothing else may be importable from there."""
    assert sorted(p.name for p in (ROOT / "adapters").iterdir() if p.name != "__pycache__") == ["lorebank"]
    found = sorted(p.name for p in (ROOT / "integrations").iterdir() if p.name != "__pycache__")
    assert found == ["langchain_lorebank", "llamaindex_lorebank"]


@pytest.mark.parametrize("package", ["adapters/lorebank", "integrations/langchain_lorebank", "integrations/llamaindex_lorebank"])
def test_packages_are_typed(package: str) -> None:
    """Type checkers may read the packages' annotations."""
    assert (ROOT / package / "py.typed").exists()


def test_no_file_is_longer_than_400_lines() -> None:
    """A longer file owns more than one thing."""
    assert [str(p) for p in ALL if len(p.read_text(encoding="utf-8").splitlines()) > 400] == []


def test_no_function_is_longer_than_60_lines() -> None:
    """A longer function does more than one thing."""
    long = [
        f"{path}:{node.name}"
        for path in ALL
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 60
    ]
    assert long == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_owns(path: Path) -> None:
    """Each module begins with a docstring."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
