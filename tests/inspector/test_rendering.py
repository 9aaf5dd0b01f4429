"""What memories hold is text: it is neither markup nor does it steer the page."""

from __future__ import annotations

import pytest

from lorebank.inspector.rendering import share, visible

from .conftest import Visitor

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{ 7*7919 }}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("a\u202eb", 'a<span class="sign">U+202E</span>b'),
        ("a\x1b[31mb", 'a<span class="sign">U+001B</span>[31mb'),
        ("\u2066x\u2069", '<span class="sign">U+2066</span>x<span class="sign">U+2069</span>'),
        ("a\U000e0041b", 'a<span class="sign">U+E0041</span>b'),
        ("zero\u200bwidth", 'zero<span class="sign">U+200B</span>width'),
        ("lines\nand\ttabs", "lines\nand\ttabs"),
        ("نعم 🙂 👩‍👧 東京", "نعم 🙂 👩‍👧 東京"),
    ],
)
def test_what_can_t_be_seen_is_named(text: str, shown: str) -> None:
    """Scripts that are written and emoji stay as they are."""
    assert str(visible(text)) == shown


def test_a_memory_is_no_markup(local: Visitor) -> None:
    """Nor are its tags, its metadata, its speaker, its names."""
    fields = {"tags": [EVIL], "metadata": {EVIL: EVIL}, "speaker": "S" + EVIL, "context": EVIL, "entities": [EVIL, "Ana " + EVIL]}
    [known] = local.told(f"Ana knows {EVIL}", **fields)
    for page in ("/", "/timeline", "/entities", "/memory", "/memory/forget", "/session"):
        found = local.get(page, q="What does Ana know?", id=known)
        assert found.status_code == 200
        assert [each for each in ("<script>alert", "<img", "55433") if each in found.text] == [], page


def test_a_query_is_no_markup(local: Visitor) -> None:
    page = local.get("/", q=EVIL).text
    assert "<script>alert" not in page
    assert 'value="&lt;script&gt;' in page


def test_a_bank_s_name_is_no_markup(local: Visitor) -> None:
    from .conftest import visit

    assert "<b>x" not in visit(local.bank.named("<b>x")).get("/").text


@pytest.mark.parametrize(("value", "most", "length"), [(1, 2, 50), (3, 2, 100), (-1, 2, 0), (1, 0, 0), (0, 0, 0)])
def test_a_bar_is_never_longer_than_its_ground(value: float, most: float, length: int) -> None:
    assert share(value, most) == length
