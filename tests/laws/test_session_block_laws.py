"""Laws of what sessions put in front of a model, and of what they take back: whatever memories say."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lorebank import Bank, Message
from lorebank._domain.blocks import TAGS, ahead_of, strip
from lorebank.testing import temporary_bank

from .session_model import KINDS

EXAMPLES = int(os.environ.get("LOREBANK_SESSION_EXAMPLES", "60"))


FEWER = max(EXAMPLES // 4, 5)


ASKING = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.reuse, Phase.generate], print_blob=True
)


PIECES = st.sampled_from(
    [
        *TAGS,
        "<",
        "</",
        ">",
        "/",
        "＜",
        " ",
        "\n",
        "{",
        "}",
        "{query_str}",
        "{{x}}",
        "```",
        "- ",
        "# ",
        "Background knowledge",
        "A",
    ]
)
HOSTILE = st.lists(PIECES | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3), max_size=10).map("".join)
NAME = HOSTILE.map(lambda text: "".join(letter for letter in text if letter.isprintable()))
READABLE = re.compile(
    r"[<＜﹤][\s/／\\]*(?:" + "|".join(map(re.escape, sorted(TAGS, key=len, reverse=True))) + r")(?![\w-])", re.IGNORECASE
)
WHOLE = re.compile(r"<(memories|mental_models)>\n.*\n</\1>", re.DOTALL)


@pytest.fixture(scope="module")
def home() -> Iterator[Bank]:
    with temporary_bank("home", mental_models={"auto_seed": False, "refresh_seconds": 3600}) as bank:
        yield bank


def lone(text: str) -> bool:
    """Whether a text is one block of ours, and nothing in it reads as a tag or a template."""
    found = WHOLE.fullmatch(text)
    if found is None:
        return False
    inside = text[text.index("\n") : text.rindex("\n")]
    return READABLE.search(inside) is None and not set(text) & set("{}")


COUNTER = iter(range(1_000_000))


@settings(ASKING, max_examples=EXAMPLES // 2)
@given(texts=st.lists(HOSTILE, min_size=1, max_size=3))
def test_what_is_injected_is_one_block_whatever_memories_say(home: Bank, texts: list[str]) -> None:
    """No text of a memory closes it, opens another, or is a template; without it the user's words are what they were."""
    bank = home.named(f"injected-{next(COUNTER)}")
    for number, text in enumerate(texts):
        bank.retain(f"Ana's aisle seat number {number}: {text}")
    with bank.session("chat") as session:
        given = session.before_turn([Message("user", "Which aisle seat number is Ana's?")])
        again = session.before_turn([Message("user", "Which aisle seat number is Ana's?")])
    assert given.memories
    assert lone(given.memories)
    assert (given.memories, given.system_prefix) == (again.memories, again.system_prefix)
    assert strip(f"before {given.memories} after") == "before  after"
    assert not set(given.system_prefix) & set("{}")


@settings(ASKING, max_examples=FEWER)
@given(name=NAME, content=HOSTILE)
def test_the_prefix_holds_one_block_whatever_mental_models_say(name: str, content: str) -> None:
    """Hostile names and contents of models stay inside."""
    with temporary_bank("alice", mental_models={"auto_seed": False, "first_wait": 30}, recall={"deadline": 30}) as bank:
        bank.retain(f"Ana prefers the aisle seat. {content}")
        bank.mental_models.create("seats", name=f"Seats {name}", source_query="Which seat does Ana prefer?")
        with bank.session("chat") as session:
            prefix = session.before_turn([Message("user", "hello there")]).system_prefix
    start = prefix.index("\n\n<mental_models>\n") + 2
    assert lone(prefix[start:])


WORDS = st.sampled_from(["Book it, please.", "a < b and {x}", "<b>bold</b> words", "yes", "- a list\n- of two"])


@settings(ASKING, max_examples=EXAMPLES // 2)
@given(
    kind=st.sampled_from(KINDS),
    texts=st.lists(HOSTILE, min_size=1, max_size=2),
    words=WORDS,
    ahead=st.booleans(),
    told=st.booleans(),
    process=st.integers(0, 1),
)
def test_messages_with_our_blocks_are_kept_without_them_and_once(  # noqa: PLR0917 - hypothesis gives them by name
    home: Bank, kind: str, texts: list[str], words: str, ahead: bool, told: bool, process: int
) -> None:
    """A host that hands over the model's copy of the user's message, with the memories in it: the block is never retained, the
    words are, once, also where `before_turn` had seen the message as the user wrote it.
    """
    bank = home.named(f"fed-{next(COUNTER)}")
    for number, text in enumerate(texts):
        bank.retain(f"Ana's aisle seat number {number}: {text}")
    full, named = kind.startswith("full"), "m1" if kind.endswith("ids") else None
    options: dict[str, Any] = {"history": "full"} if full else {"history": "delta", "run_id": "run-1"}
    with bank.session("chat") as session:
        with bank.session("asking") as other:
            block = other.before_turn([Message("user", "Which aisle seat number is Ana's?")]).memories
        assert block
        if told:
            session.before_turn([Message("user", words, id=named)], **options)
        copy = ahead_of(block, words) if ahead else f"{words}\n\n{block}"
        answer = Message("assistant", "As you wish, it will be so.", id=named and "m2")
        session.after_turn([Message("user", copy, id=named), answer], **options)
    kept = [memory.text for memory in bank.list(session="chat") if memory.source == "transcript"]
    assert Counter(kept) == Counter([words, answer.text])


def test_a_message_that_is_our_block_alone_is_no_message(home: Bank) -> None:
    """`position="before-user"` puts the block into a message of its own, which a host may forget to mark."""
    bank = home.named("alone")
    bank.retain("Ana prefers the aisle seat.")
    with bank.session("chat") as session:
        block = session.before_turn([Message("user", "Which seat does Ana prefer?")]).memories
        session.after_turn([Message("user", block), Message("user", "Which seat does Ana prefer?")])
    kept = [memory.text for memory in bank.list(session="chat") if memory.source == "transcript"]
    assert set(kept) == {"Which seat does Ana prefer?"}
