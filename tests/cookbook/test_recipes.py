"""Every recipe runs offline as it stands and prints what it says."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hindsight_server import Hindsight
from postgres_server import namespace

COOKBOOK = Path(__file__).parents[2] / "cookbook"
INDEX = (COOKBOOK / "README.md").read_text(encoding="utf-8")
PRINTED = Path(__file__).parent / "printed"
Lines = Callable[[str], list[str]]
SCRIPTS = sorted(COOKBOOK.glob("[0-9]*.py"))
RECIPES = [pytest.param(path.name, marks=[pytest.mark.postgres] if "postgresql" in path.name else []) for path in SCRIPTS]
JOBS = {
    "remember one thing": "01_remember_one_thing",
    "LangChain agent": "08_langchain_agent_with_memory",
    "LCEL chain": "09_langchain_lcel_chain",
    "LangGraph graph": "06_langchain_graph",
    "classic chain": "07_langchain_classic_chain",
    "LlamaIndex agent": "11_llamaindex_agent",
    "query engine over documents and memory": "12_llamaindex_documents_and_memory",
    "chat engine": "13_llamaindex_chat_engine",
    "streaming with cancel": "14_llamaindex_streaming_cancel",
    "many users, one agent (FastAPI)": "10_many_users_fastapi",
    "project scoping": "19_project_scoping",
    "shared and own bank": "20_shared_and_own_bank",
    "mental models as system prefix": "21_mental_models_as_prefix",
    "outage drill": "04_outage_drill",
    "time travel without duplicates": "22_time_travel",
    "what an unstable prefix costs": "23_unstable_prefix",
    "from laptop (Mnemopi) to server (Hindsight)": "17_laptop_to_server",
    "PostgreSQL for several workers": "18_postgresql_workers",
    "bring your own embeddings": "15_bring_your_own_embeddings",
    "correct memories": "16_correct_and_forget",
    "inspect memories": "26_inspect_memories",
    "evaluate your agent's memory": "24_evaluate_memory",
    "write your own backend": "25_own_backend",
}
"""The jobs that the cookbook promises a recipe for, at least."""


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_prints_what_happened(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, plainly: Lines, expected: Lines
) -> None:
    """In an empty folder, without a model or a network."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("LOREBANK_")}
    command = [sys.executable, str(COOKBOOK / name)]
    if "postgresql" in name:  # its server keeps its files at home, and refuses root
        env["HOME"] = str(tmp_path_factory.mktemp("home"))
        command = [*namespace(), *command]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert plainly(done.stdout) == expected(Path(name).stem)
    assert list(tmp_path.iterdir()) == []


def test_the_outage_drill_runs_on_a_real_server(hindsight: Hindsight, tmp_path: Path, expected: Lines) -> None:
    """The same drill with the line to a real Hindsight server cut in the middle prints the same."""
    command = [sys.executable, str(COOKBOOK / "04_outage_drill.py"), "--url", hindsight.url]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected("04_outage_drill")


def test_every_promised_job_has_a_recipe() -> None:
    """Each of the jobs has its own, which is there."""
    assert len(set(JOBS.values())) == len(JOBS)
    assert set(JOBS.values()) <= {path.stem for path in SCRIPTS}


def test_the_index_lists_every_recipe_once_and_nothing_else() -> None:
    """By job ("I want to ..."), in the order of their numbers."""
    assert re.findall(r"^\| .*\]\((\d\d_\w+\.py)\) \|$", INDEX, re.MULTILINE) == [path.name for path in SCRIPTS]
    assert sorted(path.stem for path in PRINTED.iterdir()) == [path.stem for path in SCRIPTS]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_recipe_is_short_says_what_one_learns_and_uses_public_names_only(path: Path) -> None:
    """Under 80 lines; its docstring has "You learn" and how it runs; no import of a name that begins with an underscore."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    said = " ".join((ast.get_docstring(tree) or "").split())
    assert len(text.splitlines()) < 80
    assert "You learn: " in said
    assert "Runs offline" in said
    assert [
        name for name in imported(tree) if any(part.startswith("_") for part in name.split(".") if part != "__future__")
    ] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_where_a_model_is_scripted_a_real_one_takes_its_place_by_one_variable(path: Path) -> None:
    """And the docstring says how."""
    text = path.read_text(encoding="utf-8")
    scripted = re.search(r"import .*(Scripted|Strict)(ChatModel|LLM)", text) is not None
    assert ('os.environ.get("LOREBANK_MODEL")' in text) == scripted
    assert ("LOREBANK_MODEL=" in (ast.get_docstring(ast.parse(text)) or "")) == scripted


def imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names that a script imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
