"""The notebooks are made from the scripts as they are now, and do what these do."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COOKBOOK = Path(__file__).parents[2] / "cookbook"
NOTEBOOKS = COOKBOOK / "notebooks"
Lines = Callable[[str], list[str]]
RUN = """
import sys, nbclient, nbformat
for path in sys.argv[1:]:
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": "."}}).execute()
    print(nbformat.writes(notebook).replace("\\n", ""))
"""
"""Executes notebooks in the folder it is run from, and prints each on a line."""


@pytest.fixture(scope="module")
def generate() -> Any:
    spec = importlib.util.spec_from_file_location("generate", NOTEBOOKS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebooks_are_those_of_the_scripts(generate: Any) -> None:
    """`nox -s notebooks` makes them anew."""
    found = {path.stem: path.read_text(encoding="utf-8") for path in NOTEBOOKS.glob("*.ipynb")}
    assert found == {name: generate.notebook(name) for name in generate.RECIPES}


def test_a_cell_holds_what_belongs_together(generate: Any) -> None:
    """Imports, each definition with its decorator and comments, the steps; no line of the script is lost."""
    source = '"""Says."""\n\nimport os\n\nX = 1\n\n\n@once\ndef one():\n    return X\n\n\n# then\nwith one():\n    pass\n'
    assert list(generate.cells(source)) == [
        "import os",
        "X = 1",
        "@once\ndef one():\n    return X\n\n\n# then",
        "with one():\n    pass",
    ]


def test_the_notebooks_print_what_the_scripts_print(generate: Any, tmp_path: Path, plainly: Lines, expected: Lines) -> None:
    """Each in a kernel of its own, without a model or a network."""
    command = [sys.executable, "-c", RUN, *(str(NOTEBOOKS / f"{name}.ipynb") for name in generate.RECIPES)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, line in zip(generate.RECIPES, done.stdout.splitlines(), strict=True):
        assert plainly(printed_in(json.loads(line))) == expected(name)
    assert list(tmp_path.iterdir()) == []


def printed_in(notebook: dict[str, Any]) -> str:
    outputs = [output for cell in notebook["cells"] if cell["cell_type"] == "code" for output in cell["outputs"]]
    return "".join("".join(output["text"]) for output in outputs if output["name"] == "stdout")
