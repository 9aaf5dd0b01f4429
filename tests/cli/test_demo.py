"""The demo on conversations, and its errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lorebank import __version__, open_bank

CONVERSATION = {
    "id": "talk",
    "turns": [
        {"id": "1", "session": 1, "date": "2025-03-04T10:00:00", "speaker": "Mia", "text": "I adopted a greyhound called Comet."},
        {"id": "2", "session": 1, "date": "2025-03-04T10:01:00", "speaker": "Leo", "text": "Lovely! Does he like to run?"},
        {"id": "3", "session": 1, "date": "2025-03-04T10:02:00", "speaker": "Mia", "text": "", "caption": ""},
        {"id": "4", "session": 2, "date": "2025-05-09T18:00:00", "speaker": "Leo", "text": "My flight to Oslo leaves at 6:40."},
    ],
    "qa": [
        {"question": "Which dog did Mia adopt?", "category": "single", "evidence": ["1"]},
        {"question": "When does Leo's flight leave?", "category": "single", "evidence": ["4"]},
        {"question": "Unanswerable?", "category": "none", "evidence": []},
    ],
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "lorebank.cli", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "LOREBANK_MODEL"} | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def as_lines() -> str:
    rows = [*CONVERSATION["turns"], *CONVERSATION["qa"]]  # type: ignore[misc]
    return "\n".join(json.dumps(row) for row in rows)


@pytest.mark.parametrize(("name", "text"), [("talk.json", json.dumps(CONVERSATION)), ("talk.jsonl", as_lines())])
def test_a_conversation_is_retained_and_its_questions_are_asked(name: str, text: str, tmp_path: Path) -> None:
    """Every message is retained; each question with evidence is answered and judged, in JSON and JSON Lines."""
    file, database = tmp_path / name, tmp_path / "memory.db"
    file.write_text(text, encoding="utf-8")
    done = run("demo", "--conversation", str(file), "--database", str(database))
    assert done.returncode == 0, done.stderr
    assert "3 messages: 3 stored, 0 already known, 0 rejected." in done.stdout
    assert "for 2 of 2 questions" in done.stdout
    with open_bank(f"sqlite:///{database}", bank="demo") as bank:
        assert [memory.text for memory in bank.list(session="talk/2")] == ["Leo: My flight to Oslo leaves at 6:40."]
    assert not list(tmp_path.glob("*.questions.json"))


@pytest.mark.parametrize("text", ["", "not json", '{"id": "x"}', '{"speaker": "a"}'])
def test_a_file_of_another_shape_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    """The error names the file or what is missing, and nothing else is printed."""
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    done = run("demo", "--conversation", str(file))
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_a_usage_error() -> None:
    """A path that does not exist ends with exit code 2."""
    assert run("demo", "--conversation", "/nowhere/at/all.json").returncode == 2


def test_a_missing_provider_package_is_named() -> None:
    """With a real model, what is to be installed is said in one line."""
    done = run("demo", LOREBANK_MODEL="groq:some-model")
    assert done.returncode == 1
    assert "langchain-groq" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_told() -> None:
    """`lorebank --version` prints it alone."""
    assert run("--version").stdout.strip() == __version__


def test_memory_that_is_off_is_said_in_one_line() -> None:
    """With the kill switch on, the demo says so."""
    done = run("demo", LOREBANK_URL="off")
    assert "off" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
