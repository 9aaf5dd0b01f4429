"""What is wrong with a file is found before anything is written, and named by its line."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, GarbledError, UsageError
from lorebank._archive.files import records


def sealed(*lines: bytes) -> bytes:
    """These lines with the last line that fits them."""
    body = b"".join(line + b"\n" for line in lines)
    counts = dict.fromkeys(("memory", "mental_model", "directive", "document"), 0)
    for line in lines[1:]:
        for kind in counts:
            counts[kind] += line.replace(b" ", b"").startswith(b'{"kind":"%s"' % kind.encode())
    last = {"kind": "end", "counts": counts, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(last, separators=(",", ":")).encode() + b"\n"


HEAD = b'{"kind":"header","format":"lorebank","version":1,"bank":"a","backend":"mnemopi","created":"2026-03-01T08:00:00+00:00"}'
GOOD: dict[str, Any] = {"kind": "memory", "id": "m1", "content": "Ana sings.", "type": "world"}


def line(**changed: Any) -> bytes:
    return json.dumps({key: value for key, value in {**GOOD, **changed}.items() if value is not ...}).encode()


def read(body: bytes) -> int:
    return sum(1 for _ in records(io.BytesIO(body), lambda _done: None))


def test_every_byte_counts(told: Bank, path: Path) -> None:
    """Whatever byte is changed, taken out or put in, the file is refused."""
    told.export(path)
    body = path.read_bytes()
    assert read(body) == 11
    for place in range(len(body)):
        for changed in (
            body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :],
            body[:place] + body[place + 1 :],
        ):
            with pytest.raises((GarbledError, UsageError)):
                read(changed)
    for added in (b" ", b"\n", b"x"):
        for place in (0, body.index(b"\n"), len(body) - 1, len(body)):
            with pytest.raises((GarbledError, UsageError)):
                read(body[:place] + added + body[place:])


def test_lines_can_not_be_moved_repeated_or_cut_off(told: Bank, other: Bank, path: Path) -> None:
    """Nothing of such a file is written, and the message says what to think of it."""
    told.export(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for changed, match in (
        ([lines[0], lines[2], lines[1], *lines[3:]], "checksum"),
        ([*lines[:2], *lines[1:]], "checksum"),
        ([*lines[:2], *lines[3:]], "checksum"),
        (lines[:-1], "cut off"),
        ([*lines, lines[-1]], "goes on"),
        ([*lines[:5], lines[5][:40]], "line 6"),
    ):
        path.write_bytes(b"".join(changed))
        with pytest.raises(GarbledError, match=match) as caught:
            other.import_(path)
        assert str(path) in str(caught.value)
        assert other.list(state="all") == ()


WRONG = {
    "no JSON": b"Ana sings.",
    "no object": b"[1]",
    "not a number": b'{"kind":"memory","id":"m1","content":"a","type":"world","importance":NaN}',
    "an unknown kind": line(kind="secret"),
    "an unknown field": line(mood="fine"),
    "no id": line(id=...),
    "no content": line(content=...),
    "blank content": line(content=" "),
    "a NUL": line(content="a\0b"),
    "a surrogate": line(content="a\ud800b"),
    "a surrogate in metadata": line(metadata={"a": "\ud800"}),
    "a number as text": line(content=5),
    "a text as number": line(importance="0.5"),
    "a switch as number": line(importance=True),
    "too important": line(importance=1.5),
    "an unknown type": line(type="fact"),
    "an unknown veracity": line(veracity="sure"),
    "no evidence": line(evidence=0),
    "a time without a zone": line(mentioned_at="2026-03-01T08:00:00"),
    "a time that is none": line(mentioned_at="yesterday"),
    "a time as number": line(mentioned_at=1),
    "a control character in a session": line(session="a\nb"),
    "a place before the first": line(position=-1),
    "tags as text": line(tags="a"),
    "a blank tag": line(tags=[" "]),
    "metadata as list": line(metadata=[1]),
    "a digest of another size": line(digest="00"),
    "invalid UTF-8": b'{"kind":"memory","id":"m1","content":"\xff","type":"world"}',
    "a record of no ids": b'{"kind":"mental_model","id":"m","name":"M","source_query":"q","based_on":[1]}',
    "a record of no lines": b'{"kind":"mental_model","id":"m","name":"M","source_query":"q","based_on":{"a":["v",1,2]}}',
    "a revision without time": b'{"kind":"mental_model","id":"m","name":"M","source_query":"q","revisions":[{"content":"a"}]}',
    "a directive without text": b'{"kind":"directive","id":"d","name":"D"}',
    "a second header": HEAD,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_line_is_named(bank: Bank, path: Path, wrong: bytes) -> None:
    """Also where the checksum fits; what the line holds is not repeated."""
    path.write_bytes(sealed(HEAD, line(), wrong, line(id="m2")))
    with pytest.raises(GarbledError, match="line 3: ") as caught:
        bank.import_(path)
    assert "sings" not in str(caught.value)
    assert bank.list() == ()


def test_what_is_left_out_is_filled_in(bank: Bank, path: Path) -> None:
    """A memory of which little is known is an imported one, said now."""
    path.write_bytes(sealed(HEAD, line()))
    assert bank.import_(path).added == 1
    memory = bank.get("m1")
    assert (memory.source, memory.veracity, memory.importance, memory.evidence) == ("import", "imported", 0.6, 1)
    assert memory.mentioned_at is not None


def test_a_newer_format_is_refused_clearly(bank: Bank, path: Path) -> None:
    """The message says what to do."""
    path.write_bytes(sealed(HEAD.replace(b'"version":1', b'"version":2'), line()))
    with pytest.raises(UsageError, match="update it"):
        bank.import_(path)


def test_the_same_id_twice_in_a_file_is_two_memories(bank: Bank, path: Path) -> None:
    """If they say different things; else it is one."""
    path.write_bytes(sealed(HEAD, line(), line(), line(content="Ana dances.")))
    report = bank.import_(path)
    assert (report.added, report.known) == (2, 1)
    assert sorted(memory.text for memory in bank.list()) == ["Ana dances.", "Ana sings."]
    assert bank.import_(path).added == 0


def test_a_file_that_changes_meanwhile_changes_nothing(told: Bank, other: Bank, path: Path) -> None:
    """What was checked is not trusted when it is read again."""
    told.export(path)
    body = path.read_bytes()

    def swap(done: int, total: int) -> None:
        if done == total // 2:
            path.write_bytes(body.replace(b"Bern", b"Rome"))

    with pytest.raises(GarbledError, match="checksum"):
        other.import_(path, progress=swap)
    assert other.list(state="all") == ()


def test_a_very_long_line_is_no_line(bank: Bank, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without line ends is not read into memory."""
    monkeypatch.setattr("lorebank._archive.files.LONGEST_LINE", 1000)
    path.write_bytes(HEAD + b"\n" + b"x" * 5000)
    with pytest.raises(GarbledError, match="1,000 bytes"):
        bank.import_(path)
