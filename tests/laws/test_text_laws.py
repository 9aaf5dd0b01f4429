"""Laws of redaction, queries, transcripts, terms and token counts."""

import unicodedata

from hypothesis import assume, given
from hypothesis import strategies as st

from lorebank._domain.blocks import strip
from lorebank._domain.memory import count_tokens
from lorebank._domain.message import ROLES, Line, Message, Role, Transcript, substantive
from lorebank._domain.query import compose_query
from lorebank._domain.redaction import redact
from lorebank._mnemopi.search.terms import MAX_TERM, query_terms, terms

KEYS = ["password", "token", "api_key", "secret", "Authorization", "Bearer", "Basic", "cookie", "Set-Cookie", "http"]
SIGNS = [":", "=", " ", "\n", '"', "'", "[", "]", "[redacted]", "://", "@", "/", ".", ",", ";", "&", "_", "-"]
VALUES = ["u:p@h", "sk-", "ghp_", "a1b2c3d4e5f6a7b8c9d0", "eyJ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"]
SECRETS = st.sampled_from([*KEYS, *SIGNS, *VALUES])
LEAKY = st.lists(SECRETS | st.text(max_size=3), max_size=14).map("".join)
FRAMES = st.lists(
    st.sampled_from(
        ["[role: user]", "[user:end]", "[role: assistant]", "[assistant:end]", "\n", "\r\n", "\r", "\u2028", "\x0b", " ", "a"]
    ),
    max_size=10,
).map("".join)
SAID = st.text(max_size=30) | st.sampled_from(["Hi", "Which seat?", "<memories>\n- x\n</memories>", "…"])
MESSAGES = st.lists(st.builds(Message, st.sampled_from(ROLES), SAID, injected=st.booleans()), max_size=8)
IDENTIFIERS = st.text(alphabet="abAB1é\u0301ñü_-./: 東タ", max_size=14)


@given(LEAKY)
def test_redacting_twice_changes_nothing(text: str) -> None:
    """A mark is no secret."""
    once, _ = redact(text)
    assert redact(once) == (once, 0)


@given(LEAKY)
def test_a_count_of_none_means_an_unchanged_text(text: str) -> None:
    """The count never lies about whether something was taken out."""
    safe, count = redact(text)
    assert (count == 0) is (safe == text)


@given(MESSAGES, st.integers(min_value=1, max_value=5), st.integers(min_value=1, max_value=80))
def test_a_query_stays_in_its_bound_and_begins_with_the_newest_text(messages: list[Message], turns: int, room: int) -> None:
    """Whatever the history looks like."""
    query = compose_query(messages, context_turns=turns, max_chars=room)
    users = [m for m in messages if m.role == "user" and not m.injected]
    newest = strip(users[-1].text).strip() if users else ""
    assert len(query) <= room
    assert query.startswith(newest[:room]) if substantive(newest) else query == ""


@given(st.lists(st.tuples(st.sampled_from(ROLES), FRAMES), max_size=4))
def test_frames_of_a_transcript_can_not_be_forged(said: list[tuple[Role, str]]) -> None:
    """Read line by line, the frames are those of the lines, in order."""
    text = Transcript(tuple(Line(role, words) for role, words in said)).as_text()
    frames = [
        line.strip() for line in text.splitlines() if line.strip().startswith(("[role: ", *(f"[{role}:end" for role in ROLES)))
    ]
    real = [line for line in frames if line in {f"[role: {role}]" for role in ROLES} | {f"[{role}:end]" for role in ROLES}]
    assert real == [frame for role, _ in said for frame in (f"[role: {role}]", f"[{role}:end]")]


@given(IDENTIFIERS | st.text(max_size=20))
def test_terms_are_the_same_in_composed_and_decomposed_form(text: str) -> None:
    """A memory is found whatever form its text and the query have."""
    assert terms(unicodedata.normalize("NFD", text)) == terms(unicodedata.normalize("NFC", text))


@given(IDENTIFIERS | st.text(max_size=200))
def test_terms_are_short_and_never_empty(text: str) -> None:
    """Each term is worth an index entry."""
    assert all(0 < len(term) <= MAX_TERM for term in terms(text))
    assert set(query_terms(text)) <= set(terms(text))


@given(st.text())
def test_tokens_are_counted_between_a_quarter_and_one_for_each_character(text: str) -> None:
    """Never zero for a text, never more than its characters."""
    tokens = count_tokens(text)
    assert len(text) / 4 <= tokens <= len(text)


@given(st.text(max_size=40), st.text(max_size=40))
def test_tokens_of_two_texts_are_at_most_the_sum(one: str, other: str) -> None:
    """Adding texts costs nothing beyond their own tokens, and at most one less for rounding."""
    together = count_tokens(one + other)
    assert count_tokens(one) + count_tokens(other) - 1 <= together <= count_tokens(one) + count_tokens(other)


@given(st.text(alphabet="日本語漢字かなカナ한국어", min_size=1, max_size=20))
def test_each_cjk_character_is_a_token(text: str) -> None:
    """As contract §5 says."""
    assume(text)
    assert count_tokens(text) == len(text)
