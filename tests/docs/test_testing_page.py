"""The page on testing: its fences are the files of a test suite, which passes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import langchain_lorebank.testing
import llamaindex_lorebank.testing
import lorebank.testing

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))


def test_its_fences_are_a_test_suite_that_passes(tmp_path: Path) -> None:
    """Each is a whole file; what it says of agents, outages and backends holds."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert "5 passed" in done.stdout, done.stdout
    assert len(FILES) == PAGE.count("```python") == 5


def test_it_names_everything_that_there_is() -> None:
    """Every name that `lorebank.testing` and the integrations' `testing` export, but for types and parts of others."""
    for door in (lorebank.testing, langchain_lorebank.testing, llamaindex_lorebank.testing):
        types = {"Asked", "Promise", "Request", "Step", "check_messages", "wire"}
        assert [name for name in door.__all__ if name not in types and f"{name}" not in PAGE] == []
