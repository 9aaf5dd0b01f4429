"""Secrets are taken out before anything is written."""

import pytest

from lorebank._domain.item import Item
from lorebank._domain.redaction import redact, redact_item, redact_value

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("use Bearer abc123def456 now", "use Bearer [redacted] now"),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer [redacted]"),
        ("Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l==", "Authorization: Basic [redacted]"),
        ("sk-abcdefghij0123456789", "[redacted]"),
        ("sk_live_abcdefghij01", "[redacted]"),
        ("ghp_abcdefghijklmnopqrst0123", "[redacted]"),
        ("github_pat_abcdefghijklmnopqrst", "[redacted]"),
        ("glpat-abcdefghijklmnop", "[redacted]"),
        ("xoxb-1234567890-abc", "[redacted]"),
        ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
        ("AIza" + "a" * 35, "[redacted]"),
        ("hf_abcdefghijklmnopqrst", "[redacted]"),
        ("npm_" + "a" * 36, "[redacted]"),
        (f"jwt {JWT}", "jwt [redacted]"),
        (f"key:\n{KEY}\nend", "key:\n[redacted]\nend"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "[redacted]"),
        ("Set-Cookie: sid=1; HttpOnly\nnext", "Set-Cookie: [redacted]\nnext"),
        ("cookie: a=b", "cookie: [redacted]"),
        ("https://ana:hunter2@example.org/x", "https://ana:[redacted]@example.org/x"),
        ("postgresql+psycopg://u:p@h/db", "postgresql+psycopg://u:[redacted]@h/db"),
        ("password=hunter2&x=1", "password=[redacted]&x=1"),
        ("Password: hunter2, then", "Password: [redacted], then"),
        ('{"api_key": "abc def"}', '{"api_key": [redacted]}'),
        ("DB_PASSWORD='it is long'", "DB_PASSWORD=[redacted]"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("X-Api-Key: abcdef", "X-Api-Key: [redacted]"),
    ],
)
def test_a_secret_is_taken_out_and_counted(text: str, safe: str) -> None:
    """Each kind of secret, once, with the words around it kept."""
    assert redact(text) == (safe, 1)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("Authorization: Bearer abcdefghijkl", "abcdefghijkl"),
        ("Authorization: Token 0123456789abcdef", "0123456789abcdef"),
    ],
)
def test_credentials_of_an_authorization_header_are_taken_out(text: str, secret: str) -> None:
    """Whatever the scheme, and also where the credential has letters only."""
    assert secret not in redact(text)[0]


@pytest.mark.parametrize("text", ["clientSecret=abcd1234", '{"accessToken": "abcd1234"}', "dbPassword: abcd1234"])
def test_pairs_in_camel_case_are_taken_out(text: str) -> None:
    """`accessToken` is `access_token`."""
    assert "abcd1234" not in redact(text)[0]


def test_a_cookie_header_inside_a_command_is_taken_out() -> None:
    """Also where it doesn't begin the line."""
    assert "abcdef123" not in redact("curl -H 'Cookie: sid=abcdef123' https://example.org")[0]


def test_a_password_that_begins_with_a_bracket_is_taken_out() -> None:
    """Only our own mark is passed over."""
    assert redact("password=[hunter2") == ("password=[redacted]", 1)


def test_a_password_with_an_at_sign_is_taken_out_whole() -> None:
    """The host begins after the last `@`."""
    assert redact("https://ana:p@ssw0rd@example.org/x") == ("https://ana:[redacted]@example.org/x", 1)


@pytest.mark.parametrize(
    "text",
    [
        "Ana prefers aisle seats.",
        "Her password manager is good.",
        "The key to the house is under the mat.",
        "See https://example.org/a?b=c and mail ana@example.org.",
        "He has basic skills and a token of love.",
        "The basic authentication was replaced",
        "I have a basic question.",
        "Ana gives a basic self-defense course.",
        "He was the ring bearer yesterday.",
        "Public -----BEGIN CERTIFICATE----- text",
        "We take risk-management-seriously-here.",
    ],
)
def test_plain_words_are_left_alone(text: str) -> None:
    """Nothing told is lost to a redaction."""
    assert redact(text) == (text, 0)


def test_several_secrets_are_counted() -> None:
    """The count is the number of secrets."""
    assert redact("password=one1 token=two2 Bearer abc123def") == ("password=[redacted] token=[redacted] Bearer [redacted]", 3)


def test_json_is_redacted_at_any_depth() -> None:
    """A value is seen together with its key."""
    value = {"a": [{"password": "x1y2z3"}, "Bearer abc123def456"], "n": 3, "ok": None, "name": "Ana"}
    assert redact_value(value, redact) == (
        {"a": [{"password": "[redacted]"}, "Bearer [redacted]"], "n": 3, "ok": None, "name": "Ana"},
        2,
    )


@pytest.mark.parametrize("value", [{"password": 12345678}, {"token": ["hunter2abc"]}])
def test_a_secret_that_is_no_text_is_taken_out_of_json(value: dict[str, object]) -> None:
    """Numbers and lists under a secret's key, too."""
    safe, count = redact_value(value, redact)
    assert ("12345678" in str(safe), "hunter2abc" in str(safe), count) == (False, False, 1)


def test_an_item_is_redacted_in_all_its_texts() -> None:
    """Content, context, metadata and tags."""
    item = Item("Bearer abc123def456", context="password=hunter2", metadata={"token": "abcdef"}, tags=["token=abcdef", "trip"])
    safe, count = redact_item(item, redact)
    assert (safe.content, safe.context, safe.metadata, safe.tags, count) == (
        "Bearer [redacted]",
        "password=[redacted]",
        {"token": "[redacted]"},
        ("token=[redacted]", "trip"),
        4,
    )


def test_an_item_without_secrets_is_the_same() -> None:
    """Nothing is copied where nothing was found."""
    item = Item("Ana", tags=["trip"], metadata={"a": "b"})
    assert redact_item(item, redact) == (item, 0)


def test_an_own_redactor_is_used() -> None:
    """The redactor is replaceable."""
    safe, count = redact_item(Item("call 555"), lambda text: (text.replace("555", "***"), text.count("555")))
    assert (safe.content, count) == ("call ***", 1)


def test_an_item_at_the_limit_stays_allowed_when_its_secret_is_shorter_than_the_mark() -> None:
    """Our own mark never makes a good item a bad one."""
    item = Item("x" * (65_536 - 13) + " password=abc")
    assert redact_item(item, redact)[1] == 1


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["key " + "a-" * 32_000, "cookie" + "\n" * 65_000])
def test_a_hostile_text_is_redacted_in_time(text: str) -> None:
    """Long runs don't hang the write."""
    assert redact(text) == (text, 0)
