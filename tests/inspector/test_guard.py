"""Who gets in, and what the pages forbid a browser."""

from __future__ import annotations

import pytest

from lorebank.inspector.app import ACTED, SHOWN

from .conftest import HOME, PORT, Visitor, words

PATHS = [path for path, *_ in SHOWN]
FORMS = [path for path, *_ in ACTED]


def stranger(local: Visitor) -> Visitor:
    """Somebody without the cookie."""
    local.client.cookies.clear()
    return local


def test_no_page_opens_without_the_token(local: Visitor) -> None:
    """And none says what is in the bank."""
    local.told("Ana prefers aisle seats.")
    for path in PATHS:
        answer = stranger(local).get(path, q="Ana")
        assert (answer.status_code, "Ana" in answer.text, "alice" in answer.text) == (401, False, False), path
        assert "lorebank inspect" in answer.text


@pytest.mark.parametrize("token", ["", "nosuch", "é", "x" * 10_000])
def test_a_wrong_token_opens_nothing(local: Visitor, token: str) -> None:
    """And leaves no cookie."""
    answer = stranger(local).get("/", token=token)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def test_the_token_becomes_a_cookie_and_leaves_the_url(local: Visitor) -> None:
    """The cookie is out of reach of scripts and of other sites, and holds another secret."""
    client = stranger(local).client
    answer = client.get("/timeline", params={"state": "all", "token": local.keys.token}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/timeline?state=all")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert local.keys.token not in cookie
    assert client.get("/timeline").status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example"])
def test_the_token_leads_to_no_other_site(local: Visitor, path: str) -> None:
    """Whatever the path begins with."""
    answer = local.client.get(f"{HOME}{path}?token={local.keys.token}", follow_redirects=False)
    assert answer.headers["location"].startswith("/")
    assert answer.headers["location"][1] not in "/\\"


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"10.0.0.1:{PORT}", ""]
)
def test_another_host_is_not_served(local: Visitor, host: str) -> None:
    """A site that points its own name at this machine gets nothing, not even the style."""
    for path in ("/", "/static/inspector.css"):
        assert local.client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", [f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_this_machine_has_three_names(local: Visitor, host: str) -> None:
    cookie = f"lorebank-{PORT}={local.keys.cookie}"
    assert local.client.get("/", headers={"host": host, "cookie": cookie}).status_code == 200


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", f"https://127.0.0.1:{PORT}", f"http://localhost:{PORT}"])
def test_a_form_of_another_origin_changes_nothing(local: Visitor, origin: str | None) -> None:
    """None of them does, even with the cookie and the secret of the forms."""
    [known] = local.told("Ana prefers aisle seats.")
    before, headers = local.bank.get(known), {} if origin is None else {"origin": origin}
    for path in FORMS:
        answer = local.client.post(path, data={"form": local.keys.form, "id": known, "content": "x"}, headers=headers)
        assert answer.status_code == 403, path
    assert local.bank.get(known) == before


@pytest.mark.parametrize("secret", ["", "nosuch"])
def test_a_form_without_our_secret_changes_nothing(local: Visitor, secret: str) -> None:
    """None of them does, even from our own origin."""
    [known] = local.told("Ana prefers aisle seats.")
    before = local.bank.get(known)
    for path in FORMS:
        answer = local.client.post(path, data={"form": secret, "id": known, "content": "x"}, headers={"origin": HOME})
        assert answer.status_code == 403, path
    assert local.bank.get(known) == before


def test_a_link_changes_nothing(local: Visitor) -> None:
    """What changes something is a form, never an address."""
    [known] = local.told("Ana prefers aisle seats.")
    before = local.bank.get(known)
    for path in FORMS:
        assert local.get(path, id=known, form=local.keys.form, content="x").status_code in (200, 404, 405), path
    assert local.bank.get(known) == before


def test_a_form_that_is_too_large_is_not_read(local: Visitor) -> None:
    answer = local.post("/memory/correct", id="x", content="x" * 1_100_000)
    assert answer.status_code == 413


def test_every_answer_forbids_what_a_page_does_not_need(local: Visitor) -> None:
    """Nothing from elsewhere, no frame, no copy in a cache, no guessing of types; also what is refused."""
    answers = [local.get(path) for path in (*PATHS, "/static/inspector.css", "/nosuch")]
    answers += [local.client.get("/", headers={"host": "evil.example"}), stranger(local).get("/")]  # type: ignore[list-item]
    for answer in answers:
        headers, policy = answer.headers, answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert {"frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} <= set(policy.split("; "))
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_no_page_has_what_its_policy_forbids(local: Visitor) -> None:
    """No script or style in the page, no address of another site, no way out of the host."""
    [known] = local.told("Ana lives at https://example.org and met Boris.")
    outside = [f'{name}="{way}' for name in ("src", "href", "action") for way in ("http", "//")]
    for path in PATHS:
        page = local.get(path, q="Where does Ana live?", id=known).text
        assert [each for each in ('style="', "<style", "<script>", " onclick", *outside) if each in page] == [], path


def test_a_cookie_that_can_t_be_read_is_none(local: Visitor) -> None:
    for cookie in ("a=b; ;;=", f'lorebank-{PORT}="', "\xe9", f"lorebank-{PORT}=\xe9"):
        assert stranger(local).client.get("/", headers={"cookie": cookie.encode("latin-1")}).status_code == 401


def test_a_lost_visitor_sees_the_menu(local: Visitor) -> None:
    answer = local.get("/nosuch")
    assert (answer.status_code, "Timeline" in words(answer.text)) == (404, True)
    assert local.client.put("/", headers={"origin": HOME}).status_code == 405


def test_secrets_are_in_no_repr() -> None:
    from lorebank.inspector.guard import Keys

    keys = Keys()
    assert not any(secret in repr(keys) for secret in (keys.token, keys.cookie, keys.form))
    assert len({keys.token, keys.cookie, keys.form}) == 3
