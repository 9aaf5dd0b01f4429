"""Makes the notebooks of the recipes that people open first, from the scripts: `python cookbook/notebooks/generate.py`.

A script's docstring becomes the text at the top; its imports and constants, each of its functions and classes, and what it does
in the end become cells. The scripts are what is written; the notebooks follow them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).parent
RECIPES = {
    "01_remember_one_thing": "lorebank",
    "02_langchain_agent": "lorebank[langchain]",
    "03_llamaindex_query_engine": "lorebank[llamaindex]",
    "08_langchain_agent_with_memory": "lorebank[langchain]",
    "12_llamaindex_documents_and_memory": "lorebank[llamaindex]",
}
"""Which recipes become notebooks, and what each of them needs."""


def cell_of(node: ast.stmt) -> str:
    """Which cell a statement belongs to: imports go together, a definition stands alone, and so on."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    return "imports" if isinstance(node, ast.Import | ast.ImportFrom) else "steps"


def cells(source: str) -> Iterator[str]:
    """The code of a script below its docstring, a cell at a time, with its comments."""
    lines = source.splitlines()
    [_, *body] = ast.parse(source).body
    groups = [list(group) for _, group in groupby(body, cell_of)]
    ends = [first(group[0]) for group in groups[1:]] + [len(lines)]
    for group, end in zip(groups, ends, strict=True):
        yield "\n".join(lines[first(group[0]) : end]).strip()


def first(node: ast.stmt) -> int:
    """The line that a statement begins on, from 0; its decorators belong to it."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)]) - 1


def notebook(name: str) -> str:
    """The notebook of a recipe as text; the same script gives the same bytes."""
    source = (HERE.parent / f"{name}.py").read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(source)) or ""
    title = name.partition("_")[2].replace("_", " ").capitalize()
    intro = f"# {title}\n\n{said}\n\nMade from [{name}.py](../{name}.py). Needs `pip install '{RECIPES[name]}'`."
    parts = [new_markdown_cell(intro), *map(new_code_cell, cells(source))]
    for number, cell in enumerate(parts):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return nbformat.writes(new_notebook(cells=parts, metadata=kernel)) + "\n"


if __name__ == "__main__":
    for recipe in RECIPES:
        (HERE / f"{recipe}.ipynb").write_text(notebook(recipe), encoding="utf-8")
