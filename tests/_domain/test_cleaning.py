"""Our blocks in transcripts: found at any depth, taken out, and nothing else touched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lorebank import Memory
from lorebank._domain.blocks import count_blocks, render_memories, render_unavailable
from lorebank._domain.cleaning import CleanedLine, clean
from lorebank.errors import GarbledError

BLOCK = render_memories([Memory("1", "Ana sings."), Memory("2", "Ben plays.")])


def lines(*values: Any, **style: Any) -> bytes:
    return b"".join(json.dumps(value, **style).encode() + b"\n" for value in values)


def human(content: Any, **data: Any) -> dict[str, Any]:
    return {"type": "human", "data": {"content": content, **data}}


def ai(content: Any, **data: Any) -> dict[str, Any]:
    return {"type": "ai", "data": {"content": content, **data}}


def cleaned(*values: Any) -> list[Any]:
    return [json.loads(line) for line in clean(lines(*values)).content.splitlines()]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (BLOCK, 1),
        (f"{BLOCK}\n\nHi\n{BLOCK}", 2),
        (render_unavailable(), 1),
        ("<memories>\nBackground knowledge from earlier conversations.\n- Ana sings.", 1),
        ("< Hindsight_Memories kind='x' >a< / HINDSIGHT_MEMORIES >", 1),
        ("<memories><mental_models>a</mental_models></memories>", 1),
        ("What does the <memories> tag do?", 0),
        ("It ends with </memories>.", 0),
        ("a < b", 0),
    ],
)
def test_blocks_are_counted_and_mentions_are_none(text: str, count: int) -> None:
    """A closed block, or one that begins as ours do."""
    assert count_blocks(text) == count


def test_lines_without_a_block_stay_byte_for_byte() -> None:
    """Whatever their spacing, numbers, escapes and line ends are."""
    odd = b'{"a":1.0,  "b" : 1e5, "c":"\\u00e9<x>"}\r\n\n[1,\t2]\n"<memories> is a word"'
    assert clean(odd).content == odd
    assert clean(odd).lines == ()
    assert clean(b"").content == b""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{BLOCK}\n\nWhat does Ana do?", "What does Ana do?"),
        (f"You are kind.\n\n{BLOCK}", "You are kind."),
        (f"Before {BLOCK} after", "Before  after"),
        (f"  {BLOCK}\n\n  indented", "  indented"),
    ],
)
def test_the_words_around_a_block_stay(text: str, left: str) -> None:
    """Of the blank lines between them and the block none is left at the ends."""
    assert cleaned(human(text), ai("She sings.")) == [human(left), ai("She sings.")]


@pytest.mark.parametrize("style", [{}, {"separators": (",", ":")}, {"ensure_ascii": False}], ids=str)
def test_a_line_is_written_the_way_it_was(style: Any) -> None:
    """Its separators and escapes, and its end."""
    before = lines(human(f"{BLOCK}\n\nÀ demain", name=None, n=0.5), **style).replace(b"\n", b"\r\n")
    after = lines(human("À demain", name=None, n=0.5), **style).replace(b"\n", b"\r\n")
    assert clean(before).content == after


def test_blocks_are_found_at_any_depth() -> None:
    """Chat stores, lists of messages, parts of a message, arguments of calls, escaped signs."""
    store = {"store": {"chat": [{"role": "user", "blocks": [{"block_type": "text", "text": f"{BLOCK}\n\nHi"}]}]}}
    assert cleaned(store) == [{"store": {"chat": [{"role": "user", "blocks": [{"block_type": "text", "text": "Hi"}]}]}}]
    call = ai("", tool_calls=[{"args": {"q": [f"{BLOCK}x"]}}])
    assert cleaned([call]) == [[ai("", tool_calls=[{"args": {"q": ["x"]}}])]]
    escaped = lines(human(f"{BLOCK}Hi")).replace(b"<", b"\\u003C")
    assert json.loads(clean(escaped).content) == human("Hi")


def test_a_part_that_held_only_a_block_goes_with_it() -> None:
    """Unless it is the last one; a picture is a part, too."""
    text = {"type": "text", "text": BLOCK}
    hi, picture = {"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "data:,"}}
    assert cleaned(human([text, hi])) == [human([hi])]
    assert cleaned(human([text, picture])) == [human([picture])]
    assert cleaned(human([text]), ai("Hello")) == [human([{"type": "text", "text": ""}]), ai("Hello")]


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ([human(BLOCK), human("Hi"), ai("Hello")], [human("Hi"), ai("Hello")], (1, 1)),
        ([{"type": "system", "data": {"content": BLOCK}}, human("Hi")], [human("Hi")], (1, 1)),
        ([{"role": "system", "content": BLOCK}, {"role": "user", "content": "Hi"}], [{"role": "user", "content": "Hi"}], (1, 1)),
        ([human(BLOCK), ai("Hello")], [human(""), ai("Hello")], (1, 0)),
        ([human(BLOCK)], [human("")], (1, 0)),
        ([human(BLOCK), [human("Hi"), ai("Hello")]], [[human("Hi"), ai("Hello")]], (1, 1)),
        ([ai(BLOCK), human("Hi")], [ai(""), human("Hi")], (1, 0)),
        (
            [ai(BLOCK, tool_calls=[{"id": "1"}]), {"type": "tool", "data": {"content": BLOCK, "tool_call_id": "1"}}],
            [ai("", tool_calls=[{"id": "1"}]), {"type": "tool", "data": {"content": "", "tool_call_id": "1"}}],
            (2, 0),
        ),
    ],
)
def test_an_empty_message_goes_where_the_order_of_roles_stays(before: list[Any], after: list[Any], counts: Any) -> None:
    """On lines of its own, and in a list; else it keeps its place. `counts`: how many were empty, how many went."""
    found = clean(lines(*before))
    assert [json.loads(line) for line in found.content.splitlines()] == after
    assert (sum(each.emptied for each in found.lines), sum(each.dropped for each in found.lines)) == counts
    if not any(isinstance(value, list) for value in before):
        assert cleaned(before) == [after]


def test_lines_are_told_with_what_they_held() -> None:
    """By their numbers, empty lines counted."""
    found = clean(b"\n" + lines(human(f"{BLOCK}{BLOCK}Hi"), ai("Hello"), human(BLOCK), human("Bye")))
    assert found.lines == (CleanedLine(2, 2), CleanedLine(4, 1, 1, 1))
    assert found.blocks == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"a": 1}\nnot json\n', "line 2 is no JSON"),
        (b'[\n  {"a": 1}\n]\n', "line 1 is no JSON"),
        (b'{"a": 1}\n{"a": NaN}\n', "line 2 is no JSON"),
        (b'{"a": 1, "a": 2}\n', "names a key twice"),
        (b"SQLite format 3\x00", "line 1 is no JSON"),
        (b'"\xff"', "no UTF-8"),
        (b"[" * 100_000, "line 1 is no JSON"),
    ],
)
def test_what_is_no_json_lines_is_refused(content: bytes, told: str) -> None:
    """With the line that is none."""
    with pytest.raises(GarbledError, match=told):
        clean(content)


def test_cleaning_twice_changes_nothing() -> None:
    """And what is clean has no lines to tell."""
    once = clean(lines(human(f"{BLOCK}\n\nHi"), human(BLOCK), ai(BLOCK)))
    again = clean(once.content)
    assert (again.content, again.lines) == (once.content, ())


def test_half_a_surrogate_pair_is_written_as_it_was() -> None:
    """It has no other spelling than its escape."""
    line = '{"t": "é", "role": "user", "content": "<memories></memories>\\ud83d"}'.encode()
    assert clean(line).content == b'{"t": "\\u00e9", "role": "user", "content": "\\ud83d"}'
