"""`lorebank cleanup`: real transcripts of both frameworks, and files that are not to be touched."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, message_to_dict, messages_from_dict, messages_to_dict
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import SimpleChatStore
from typer.testing import CliRunner, Result

from lorebank import Memory, UnavailableError, open_bank
from lorebank._domain.blocks import render_memories
from lorebank.cli.app import app
from lorebank.cli.pruning import prune, read

BLOCK = render_memories([Memory("1", "Ana sings.")])
SAID = f"{BLOCK}\n\nWhat does Ana do?"


def run(*arguments: object, typed: str = "") -> Result:
    return CliRunner().invoke(app, ["cleanup", *map(str, arguments)], input=typed)


def human(text: str) -> str:
    return json.dumps(message_to_dict(HumanMessage(text)))


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A transcript with one block, on its first line."""
    path = tmp_path / "chat.jsonl"
    path.write_text(f"{human(SAID)}\n{json.dumps(message_to_dict(AIMessage('She sings.')))}\n", encoding="utf-8")
    path.chmod(0o640)
    return path


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.*.bak"))


def beside(path: Path) -> set[str]:
    return {each.name for each in path.parent.iterdir()} - {path.name}


def as_lines(path: Path, messages: list[BaseMessage]) -> Callable[[], list[str]]:
    path.write_text("".join(f"{json.dumps(message_to_dict(each))}\n" for each in messages), encoding="utf-8")
    return lambda: [each.text for each in messages_from_dict(list(map(json.loads, path.read_text().splitlines())))]


def as_history(path: Path, messages: list[BaseMessage]) -> Callable[[], list[str]]:
    """A file chat history: one list."""
    path.write_text(json.dumps(messages_to_dict(messages)), encoding="utf-8")
    return lambda: [each.text for each in messages_from_dict(json.loads(path.read_text()))]


def as_chat_messages(path: Path, messages: list[BaseMessage]) -> Callable[[], list[str]]:
    path.write_text("".join(f"{each.model_dump_json()}\n" for each in llama(messages)), encoding="utf-8")
    return lambda: [ChatMessage.model_validate_json(line).content or "" for line in path.read_text().splitlines()]


def as_chat_store(path: Path, messages: list[BaseMessage]) -> Callable[[], list[str]]:
    store = {"ana": [json.loads(each.model_dump_json()) for each in llama(messages)]}
    path.write_text(json.dumps({"store": store, "class_name": "SimpleChatStore"}), encoding="utf-8")
    return lambda: [each.content or "" for each in SimpleChatStore.from_persist_path(str(path)).get_messages("ana")]


def llama(messages: list[BaseMessage]) -> list[ChatMessage]:
    return [ChatMessage(role="user" if each.type == "human" else "assistant", content=each.text) for each in messages]


@pytest.mark.parametrize("written", [as_lines, as_history, as_chat_messages, as_chat_store])
def test_both_frameworks_read_what_is_left(written: Any, tmp_path: Path) -> None:
    """Words stay, blocks go, and so does a message that was only one where another of the user's follows."""
    path = tmp_path / "chat.jsonl"
    answers = AIMessage("She sings."), AIMessage("x")
    texts = written(path, [HumanMessage(SAID), answers[0], HumanMessage(BLOCK), HumanMessage("Thanks!"), answers[1]])
    before = path.read_bytes()
    done = run(path, "--prune", "--yes")
    assert (done.exit_code, "2 blocks taken out." in done.stdout) == (0, True)
    assert texts() == ["What does Ana do?", "She sings.", "Thanks!", "x"]
    assert [backup.read_bytes() for backup in backups(path)] == [before]


def test_a_look_changes_nothing(chat: Path) -> None:
    """Lines and counts, exit code 5; the same of a dry run, a no, and a script that does not say yes."""
    before = chat.stat(), chat.read_bytes()
    assert run(chat).exit_code == 5
    assert "1 block in 1 line" in run(chat).stdout
    told = json.loads(run(chat, "--json").stdout)
    assert (told["blocks"], told["lines"]) == (1, [{"line": 1, "blocks": 1, "emptied": 0, "dropped": 0}])
    assert run(chat, "--prune", "--dry-run").exit_code == 5
    assert run(chat, "--prune", typed="n\n").exit_code == 1
    assert run(chat, "--prune", "--json").exit_code == 2
    assert (chat.stat(), chat.read_bytes(), beside(chat)) == (*before, set())


def test_pruning_keeps_the_mode_and_never_writes_over_a_backup(chat: Path) -> None:
    """Each has its own; a clean file is left alone."""
    first = run(chat, "--prune", typed="y\n")
    assert (first.exit_code, stat.S_IMODE(chat.stat().st_mode)) == (0, 0o640)
    assert json.loads(run(chat, "--prune", "--json").stdout)["blocks"] == 0
    chat.write_text(human(SAID), encoding="utf-8")
    told = json.loads(run(chat, "--prune", "--yes", "--json").stdout)
    assert (told["pruned"], len(backups(chat)), Path(told["backup"]) in backups(chat)) == (True, 2, True)
    assert {stat.S_IMODE(backup.stat().st_mode) for backup in backups(chat)} == {0o640}
    assert len(beside(chat)) == 2


@pytest.mark.parametrize("change", ["appended", "replaced", "same size and time"])
def test_a_file_that_changes_meanwhile_is_left_as_it_is(chat: Path, change: str) -> None:
    """By size and time, by what the name stands for, or by what is in it; nothing is left beside it."""
    transcript = read(chat)
    if change == "appended":
        chat.write_bytes(chat.read_bytes() + human("More").encode() + b"\n")
    elif change == "replaced":
        chat.rename(chat.with_name("away"))
        chat.write_bytes(transcript.content)
        chat.with_name("away").unlink()
    else:
        times = chat.stat()
        chat.write_bytes(transcript.content.replace(b"What does", b"When does"))
        os.utime(chat, ns=(times.st_atime_ns, times.st_mtime_ns))
    now = chat.read_bytes()
    with pytest.raises(UnavailableError, match="changed meanwhile"):
        prune(transcript)
    assert (chat.read_bytes(), beside(chat)) == (now, set())


def test_links_folders_and_pipes_are_refused(chat: Path, tmp_path: Path) -> None:
    """Only a file itself is pruned; nobody waits for a pipe."""
    link, pipe = tmp_path / "link.jsonl", tmp_path / "pipe.jsonl"
    link.symlink_to(chat)
    os.mkfifo(pipe)
    refusals = {link: "is a link to", pipe: "no regular file", tmp_path: "no regular file", tmp_path / "no": "can't be read"}
    for path, told in refusals.items():
        done = run(path, "--prune", "--yes")
        assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True)
    assert SAID.splitlines()[0] in chat.read_text()


def test_what_is_no_json_lines_is_refused_with_the_line(chat: Path, url: str, file: Path) -> None:
    """Also the file of a session's own records, which is a database."""
    chat.write_text(f"{human(SAID)}\nnot json\n", encoding="utf-8")
    before = chat.read_bytes()
    done = run(chat, "--prune", "--yes")
    assert (done.exit_code, "line 2 is no JSON" in " ".join(done.stderr.split())) == (1, True)
    assert (chat.read_bytes(), beside(chat)) == (before, set())
    with open_bank(url) as bank:
        bank.retain("Ana sings.")
        assert run(file, "--prune", "--yes").exit_code == 1


@pytest.fixture
def user() -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Opens a file in a process of its own, as a running session does."""
    started: list[subprocess.Popen[str]] = []

    def opened(path: Path) -> subprocess.Popen[str]:
        code = f"f = open({str(path)!r}, 'a'); print('open', flush=True); input()"
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        return process

    yield opened
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells who has a file open")
def test_the_file_of_a_running_session_is_refused(chat: Path, user: Callable[[Path], subprocess.Popen[str]]) -> None:
    """As long as its process has it open."""
    process = user(chat)
    done = run(chat, "--prune", "--yes")
    assert (done.exit_code, f"open in process {process.pid}" in " ".join(done.stderr.split())) == (3, True)
    assert beside(chat) == set()
    process.kill()
    process.wait()
    assert run(chat, "--prune", "--yes").exit_code == 0


def test_a_locked_file_is_refused(chat: Path) -> None:
    """A host that locks its transcript is at work on it."""
    with chat.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run(chat, "--prune", "--yes")
    assert (done.exit_code, "is locked" in " ".join(done.stderr.split())) == (3, True)
    assert beside(chat) == set()


def killed_at(path: Path, step: int) -> bool:
    """Prunes in a process that is killed before its nth step in the file's folder; whether it was."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = step

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "os.chmod", "os.chown") and str(path.parent) in str(arguments[0]):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    try:
        prune(read(path))
    finally:
        os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 warns of threads, which the child does not use
def test_killed_between_any_two_steps_the_file_is_whole(chat: Path) -> None:
    """It is the old one, or the new one with its backup."""
    before = chat.read_bytes()
    new = read(chat).cleaned.content
    seen, step = set[bytes](), 1
    while killed_at(chat, step):
        now = chat.read_bytes()
        assert now in (before, new)
        assert now == before or before in [backup.read_bytes() for backup in backups(chat)]
        seen.add(now)
        chat.write_bytes(before)
        step += 1
    assert step > 8
    assert seen == {before, new}
    assert chat.read_bytes() == new
