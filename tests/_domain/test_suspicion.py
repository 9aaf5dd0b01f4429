"""What is suspicious of one memory: precise before greedy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lorebank import Item
from lorebank._domain.archive import Entry
from lorebank._domain.suspicion import echoed, fed_back, junk, secret, stale

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("!!! ...", "no words"),
        ("[image omitted]", "no words"),
        ("Ok, thanks!", "small talk"),
        ("Danke", "small talk"),
        ("None", "a placeholder"),
        ("[object Object]", "a placeholder"),
        ("<!DOCTYPE html><p>Hi there", "a page's source, not a statement"),
        ("It said:\nTraceback (most recent call last):\n  File", "a program's error trace"),
        ("data: " + "QUJD" * 80, "encoded bytes"),
        ("Hello {user_name}", "a template that nobody filled in"),
        ("Caf\ufffd\ufffd\ufffd\ufffd", "characters that were lost"),
        ("Ok, thanks, the flight is at nine!", None),
        ("No sugar in Ana's tea.", None),
        ("She said: test the brakes.", None),
        ("The config has a key {port} that holds the number of the port of the staging server.", None),
        ("東京に住んでいます。", None),
        ("7", None),
    ],
)
def test_junk_says_nothing(text: str, reason: str | None) -> None:
    """Short is not empty."""
    assert junk(text) == reason


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<memories>\n- Ana sings.\n</memories>\n\nWhat does Ana do?", True),
        ("So: <Hindsight_Memories>\n- Ana sings.", True),
        ("Found 3 relevant memories (as of 2026-05-01 10:00 UTC):\n\n- Ana sings.", True),
        ("No relevant memories found.", True),
        ("2 memories stored.", True),
        ("As I recall:\n- Ana sings. [world] (2026-05-01)", True),
        ("As I recall:\n- Ana sings. (id: 00000a)", True),
        ("Found 3 relevant papers about memories.", False),
        ("My list:\n- Ana sings.\n- Ben plays (badly)", False),
        ("I have fond memories of Rome.", False),
    ],
)
def test_what_memory_told_is_known_by_its_shape(text: str, found: bool) -> None:
    """Blocks, and what the tools answer."""
    assert (fed_back(text) is not None) is found


@pytest.mark.parametrize(
    ("speaker", "text", "found"),
    [
        ("assistant", "Ana sings. Ben plays.", True),
        ("assistant", "- Ana sings. (2026-05-01)\n2) Ben plays.", True),
        ("assistant", "Ana sings. And I could book you a table.", False),
        ("user", "Ana sings. Ben plays.", False),
        (None, "Ana sings.", False),
    ],
)
def test_an_answer_that_only_repeats_memories_is_an_echo(speaker: str | None, text: str, found: bool) -> None:
    """An assistant's; what a user says again is the user's."""
    known = {"Ana sings.", "Ben plays."}
    assert (echoed(Item(text, speaker=speaker), known.__contains__) is not None) is found


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"content": "The key is sk-abcdefghijklmnop1234, keep it."}, "1 secret in 'The key is [redacted], keep it.'"),
        ({"content": "My card: 5500-0000-0000-0004."}, "1 secret in 'My card: [redacted].'"),
        ({"content": "A card.", "metadata": {"card": "4111111111111111"}}, "1 secret in what is known of it"),
        ({"content": "A key.", "context": "password=hunter2hunter2"}, "1 secret in what is known of it"),
        (
            {"content": "a password=hunter2hunter2 b token: abcdef123456"},
            "2 secrets in 'a password=[redacted] b token: [reda…'",
        ),
        ({"content": "Order 4111 1111 1111 1112 is late."}, None),
        ({"content": "The number is 3333333333333333, and the part X-4111111111111111."}, None),
        ({"content": "It was password=[redacted]."}, None),
    ],
)
def test_a_secret_is_told_without_it(fields: Any, reason: str | None) -> None:
    """Numbers of cards by their check digit; what was redacted is no secret."""
    assert secret(Item(**fields)) == reason


def entry(text: str, days: int, **fields: Any) -> Entry:
    return Entry("m", Item(text, **fields), said=NOW - timedelta(days=days))


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        (entry("The offer holds.", 1, valid_until=NOW - timedelta(days=2)), "it was true until 2026-05-30"),
        (entry("The offer holds.", 1, valid_until=NOW + timedelta(days=2)), None),
        (entry("Ana arrives tomorrow.", 40), "it says 'tomorrow', and was said 40 days ago"),
        (entry("Ana arrives tomorrow.", 20), None),
        (entry("Ana moves next month.", 100), None),
        (entry("Ana moves next month.", 130), "it says 'next month', and was said 130 days ago"),
        (entry("Ana zieht nächstes Jahr um.", 900), "it says 'nächstes Jahr', and was said 900 days ago"),
        (entry("Ana arrives tomorrow.", 40, type="experience"), None),
        (entry("Ana cleans every next week.", 40), None),
        (Entry("m", Item("Ana arrives tomorrow.")), None),
    ],
)
def test_what_is_over_is_stale(memory: Entry, reason: str | None) -> None:
    """By its own word, or since the day it speaks of is long past."""
    assert stale(memory, NOW) == reason
