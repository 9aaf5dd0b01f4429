"""Turning text into search terms."""

import unicodedata
from datetime import UTC, datetime

import pytest

from lorebank._mnemopi.search.question import parse_question
from lorebank._mnemopi.search.terms import MAX_TERM, normalize, query_terms, stem, terms, words

ANCHOR = datetime(2024, 5, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("?! …", []),
        ("the and of it", []),
        ("Running DOGS", ["run", "dog"]),
        ("Café crème", ["cafe", "creme"]),
        ("ﬁne ＡＢＣ", ["fine", "abc"]),
        ("Straße", ["strass"]),
        ("dog dog", ["dog", "dog"]),
        ("seat 12A", ["seat", "12a"]),
    ],
)
def test_words_become_stems_without_accents(text: str, found: list[str]) -> None:
    """Lower-case, function words dropped, order and repeats kept."""
    assert terms(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("buildId", ["buildid", "build", "id"]),
        ("build_id", ["build", "id", "buildid"]),
        ("BuildId", ["buildid", "build", "id"]),
        ("BUILD_ID", ["build", "id", "buildid"]),
        ("build-id", ["build", "id"]),
        ("PAY-1423", ["pay", "1423", "pay_1423"]),
        ("2024-05-01", ["2024", "05", "01", "2024_05_01"]),
        ("v1.2.3", ["v1", "2", "3", "v1_2_3", "1_2_3"]),
        ("src/main.py", ["src", "main", "py", "src_main_py", "main_py"]),
        ("C++ or C#?", ["c", "c", "cplusplus", "csharp"]),
        ("parseJSON", ["parsejson", "pars", "json"]),
    ],
)
def test_identifiers_keep_their_parts_and_get_a_whole(text: str, found: list[str]) -> None:
    """One term for the whole, whatever the spelling, beside the parts."""
    assert terms(text) == found


@pytest.mark.parametrize("text", ["XMLHttpRequest", "HTTPServer", "parseXMLFile"])
def test_an_identifier_with_capitals_keeps_all_its_parts(text: str) -> None:
    """A run of capitals is a part like any other."""
    parts = {
        "XMLHttpRequest": {"xml", "http", "request"},
        "HTTPServer": {"http", "server"},
        "parseXMLFile": {"pars", "xml", "file"},
    }
    assert parts[text] <= set(terms(text))


@pytest.mark.parametrize("text", ["café_menu", "naïveBayes", "größe-7", "àb/cd"])
def test_an_identifier_with_accents_is_found_in_any_form(text: str) -> None:
    """Composed, decomposed and written without accents: the same terms."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.replace("ß", "ss")) if not unicodedata.combining(c))
    assert terms(unicodedata.normalize("NFD", text)) == terms(text) == terms(plain)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("東京タワー", ["東京", "京タ", "タワ", "ワー", "東", "京"]),
        ("猫", ["猫"]),
        ("안녕하세요", ["안녕", "녕하", "하세", "세요"]),
        ("hello世界", ["hello", "世界", "世", "界"]),
        ("สวัสดี", ["สว", "สด"]),
    ],
)
def test_scripts_without_blanks_become_pairs(text: str, found: list[str]) -> None:
    """Overlapping pairs, and each Han character by itself."""
    assert [term for term in terms(text) if term in found] == found


def test_a_part_of_a_cjk_text_is_found_in_it() -> None:
    """The point of pairs: a query's terms are among the memory's."""
    assert set(terms("京都")) <= set(terms("先週京都に行きました"))


@pytest.mark.parametrize("text", ["x" * 500, "X" * 500, "a_" * 300, "a/" * 300, "1." * 300, "é" * 500])
def test_no_term_is_longer_than_the_limit(text: str) -> None:
    """Hashes and the like are cut."""
    assert max(map(len, terms(text))) <= MAX_TERM


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["a" * 65_536, "A" * 65_536, "aB" * 32_768, "a_" * 32_768, "a." * 32_768])
def test_a_hostile_text_is_cut_into_terms_in_time(text: str) -> None:
    """An item of the largest size without a blank doesn't hang the write."""
    assert terms(text)


def test_words_of_asking_are_dropped_where_others_remain() -> None:
    """ "Please tell me about tea" asks for tea; "tell" alone asks for tell."""
    assert query_terms("Please tell me about tea, tea!") == ["tea"]
    assert query_terms("tell") == ["tell"]


def test_normal_text_has_no_case_accents_or_compatibility_forms() -> None:
    """What words are compared by."""
    assert normalize("ÀÉ ﬁ Ⅷ ẞ") == "ae fi viii ss"


def test_words_keep_function_words_and_order() -> None:
    """For names and first persons."""
    assert words("What does Zoë_B want?") == ["what", "does", "zoe", "b", "want"]


def test_a_stem_is_the_same_each_time() -> None:
    """Known stems are remembered."""
    assert [stem("cities"), stem("cities"), stem("city")] == ["citi", "citi", "citi"]


def test_a_question_is_parsed_once() -> None:
    """Terms, words, period, and whether it asks for a time or about oneself."""
    question = parse_question("When did I fly in May 2023?", ANCHOR)
    assert (question.terms, question.asks_when, question.own) == (("fli", "2023"), True, True)
    assert question.period is not None
    assert question.period.closeness(datetime(2023, 5, 9, tzinfo=UTC)) == 1.0


def test_a_long_query_keeps_its_beginning_and_end() -> None:
    """64 distinct terms: the first and the last 32."""
    found = parse_question(" ".join(f"w{n}" for n in range(100)), ANCHOR).terms
    assert (len(found), found[0], found[31], found[32], found[63]) == (64, "w0", "w31", "w68", "w99")
