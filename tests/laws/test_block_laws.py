"""Laws of the blocks: no memory can close one, and the user's words survive."""

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from lorebank._domain.blocks import TAGS, fence, render_memories, render_mental_models, strip
from lorebank._domain.memory import Memory
from lorebank._domain.mental_model import MentalModel, share_budget

PIECES = st.sampled_from(
    [
        *TAGS,
        *map(str.upper, TAGS),
        "Memories",
        "<",
        "</",
        ">",
        "/",
        "＜",
        "﹤",
        "／",
        "\\",
        " ",
        "\t",
        "\n",
        "\u2003",
        "\x0b",
        "-",
        "a",
        "= 'x'",
        "{",
        "}",
        "- ",
        "# ",
    ]
)
HOSTILE = st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join)
READABLE = re.compile(
    r"[<＜﹤][\s/／\\]*(?:memories|mental_models|hindsight_memories|relevant_memories|hindsight[-_]memory)(?![\w-])",
    re.IGNORECASE,
)
OPENING = re.compile(r"<\s*(?:memories|mental_models)(?![\w-])[^<>]*>", re.IGNORECASE)
CLOSING = re.compile(r"<\s*/\s*(?:memories|mental_models)(?![\w-])[^<>]*>", re.IGNORECASE)
MODELS = st.lists(
    st.builds(
        MentalModel, st.sampled_from(["a", "b", "user-preferences"]), HOSTILE, st.just("?"), HOSTILE | st.text(max_size=600)
    ),
    max_size=5,
)


@given(HOSTILE)
def test_fencing_twice_changes_nothing(text: str) -> None:
    """Fenced text is fenced."""
    assert fence(fence(text)) == fence(text)


@given(HOSTILE)
def test_fenced_text_holds_none_of_our_tags(text: str) -> None:
    """In no case and no spacing; no template sign is left; nothing gets longer."""
    fenced = fence(text)
    assert READABLE.search(fenced) is None
    assert not set(fenced) & set("{}")
    assert len(fenced) == len(text)


@given(HOSTILE)
def test_stripping_leaves_fenced_text_alone(text: str) -> None:
    """What fencing lets through is never taken for a block."""
    assert strip(fence(text)) == fence(text)


@given(HOSTILE)
def test_stripping_twice_changes_nothing(text: str) -> None:
    """No block is put together of what is left."""
    assert strip(strip(text)) == strip(text)


@given(HOSTILE)
def test_stripped_text_holds_no_tag_of_ours(text: str) -> None:
    """Nothing is fed back."""
    left = strip(text)
    assert OPENING.search(left) is None
    assert CLOSING.search(left) is None


@given(st.lists(HOSTILE, min_size=1, max_size=4))
def test_a_rendered_block_has_one_opening_and_one_closing_tag(texts: list[str]) -> None:
    """Whatever the memories say, one line each."""
    block = render_memories([Memory(str(n), text) for n, text in enumerate(texts)])
    assert len(OPENING.findall(block)) == len(CLOSING.findall(block)) == 1
    assert block.startswith("<memories>\n")
    assert block.endswith("\n</memories>")
    assert len(block.splitlines()) == len(texts) + 4


@given(st.lists(HOSTILE, min_size=1, max_size=4), st.text(max_size=20), st.text(max_size=20))
def test_stripping_a_block_keeps_the_users_words_exactly(texts: list[str], before: str, after: str) -> None:
    """Not a blank of theirs is lost."""
    assume(strip(before + after) == before + after)
    block = render_memories([Memory(str(n), text) for n, text in enumerate(texts)])
    assert strip(before + block + after) == before + after


@given(MODELS, st.integers(min_value=0, max_value=1500))
def test_mental_models_never_pass_their_bound_and_are_never_torn(models: list[MentalModel], room: int) -> None:
    """Within `max_chars`, or nothing; one frame; stripped whole."""
    block = render_mental_models(models, max_chars=room)
    assert len(block) <= room
    if block:
        assert len(OPENING.findall(block)) == len(CLOSING.findall(block)) == 1
        assert block.startswith("<mental_models>\n")
        assert block.endswith("\n</mental_models>")
    assert strip(f"Hi{block}!") == "Hi!"


@given(MODELS)
def test_the_same_models_in_any_order_give_the_same_bytes(models: list[MentalModel]) -> None:
    """A stable prefix keeps the host's prompt cache."""
    unique = list({(model.id, model.name): model for model in models}.values())
    assume(len({(m.id != "user-preferences", m.name.casefold(), m.id) for m in unique}) == len(unique))
    assert render_mental_models(unique) == render_mental_models(unique[::-1])


@given(st.lists(st.integers(min_value=0, max_value=200), max_size=8), st.integers(min_value=-10, max_value=900))
def test_a_budget_is_shared_within_its_bounds_and_fairly(sizes: list[int], total: int) -> None:
    """Never above the total or a size; all used while anyone waits; no one cut stands far behind another."""
    shares = share_budget(sizes, total)
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) == min(sum(sizes), max(0, total))
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert all(max(shares) - share <= 1 for share in cut)  # one character can't be halved
