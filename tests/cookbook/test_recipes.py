"""Every recipe runs offline as it stands and prints what it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COOKBOOK = Path(__file__).parents[2] / "cookbook"
PRINTED = {
    "01_remember_one_thing.py": [
        "stored: 1",
        "said again: 1 already known",
        "recalled: Ana prefers aisle seats.",
        "off topic: nothing",
        "another user: nothing",
    ],
    "02_langchain_agent.py": [
        "user:  I'm allergic to peanuts.",
        "agent: I will remember that.",
        "user:  Can I have the satay?",
        "agent: Better not: Ana is allergic to peanuts.",
    ],
    "03_llamaindex_query_engine.py": [
        "ana: The code of Ana's bike lock is 4711.",
        "ben: The code of Ben's bike lock is 8822.",
    ],
}


@pytest.mark.parametrize("name", sorted(path.name for path in COOKBOOK.glob("*.py")))
def test_a_recipe_prints_what_happened(name: str, tmp_path: Path) -> None:
    """In an empty folder, without a model or a network."""
    env = {key: value for key, value in os.environ.items() if key != "LOREBANK_MODEL"}
    command = [sys.executable, str(COOKBOOK / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PRINTED[name]
    assert list(tmp_path.iterdir()) == []


def test_the_index_lists_every_recipe() -> None:
    """And every recipe is under 80 lines."""
    index = (COOKBOOK / "README.md").read_text(encoding="utf-8")
    for path in COOKBOOK.glob("*.py"):
        assert f"({path.name})" in index
        assert len(path.read_text(encoding="utf-8").splitlines()) < 80
