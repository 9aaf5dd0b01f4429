"""Proxies of the environment, and encryption."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebank._hindsight.transport import Call, Transport
from lorebank.errors import UnavailableError, UsageError

PEM = Path(__file__).with_name("loopback.pem")
"""A key of these tests' own, and its certificate: for `hindsight.invalid` and 127.0.0.1."""
READ = Call("GET", "/version", 10)
WRITE = Call("POST", "/v1", 10, body=b"{}", read=False)
YES = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"ok":true}'
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"

Opener = Callable[..., Transport]
Server = Callable[..., Any]


@pytest.fixture
def asked_for() -> list[str | None]:
    """The names under which the encrypted server was asked for."""
    return []


@pytest.fixture
def encrypted(scripted: Server, asked_for: list[str | None]) -> Any:
    """A server that speaks TLS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(PEM)
    tls.sni_callback = lambda _sock, name, _context: asked_for.append(name)
    return scripted(lambda _head: YES, tls=tls)


def test_a_proxy_is_asked_for_the_whole_address(scripted: Server, transport: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the login that its own address holds; its connection is kept like any other."""
    proxy = scripted(lambda _head: YES)
    monkeypatch.setenv("http_proxy", f"http://ana:p%40ss@{proxy.place}")
    asked = transport("http://hindsight.invalid:8888/api")
    assert asked.call(Call("GET", "/version", 10, {"a": "b c"})) == {"ok": True}
    assert asked.call(WRITE) == {"ok": True}
    assert proxy.begun == 1
    first, *headers = proxy.heads[0].split("\n")
    assert first == "GET http://hindsight.invalid:8888/api/version?a=b+c HTTP/1.1"
    assert "host: hindsight.invalid:8888" in headers
    assert "proxy-authorization: Basic YW5hOnBAc3M=" in headers


def test_a_proxy_passes_on_what_it_can_not_read(
    scripted: Server, encrypted: Any, asked_for: list[str | None], transport: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login is the proxy's; the key, and the server's certificate, are the server's."""
    proxy = scripted(lambda _head: TUNNEL)
    port = encrypted.server_address[1]
    monkeypatch.setenv("all_proxy", f"ana:pass@{proxy.place}")
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    asked = transport(f"https://hindsight.invalid:{port}", api_key="k")
    assert [asked.call(READ), asked.call(WRITE)] == [{"ok": True}] * 2
    place = f"hindsight.invalid:{port}"
    assert proxy.heads == [f"CONNECT {place} HTTP/1.1\nhost: {place}\nproxy-authorization: Basic YW5hOnBhc3M="]
    assert encrypted.heads[0].startswith("GET /version HTTP/1.1\n")
    assert "authorization: Bearer k" in encrypted.heads[0]
    assert "proxy-authorization" not in encrypted.heads[0]
    assert asked_for == ["hindsight.invalid"]


def test_a_server_is_reached_encrypted(encrypted: Any, transport: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection for many calls, here too."""
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    asked = transport(f"https://{encrypted.place}", api_key="k")
    assert [asked.call(call) for call in (READ, WRITE) * 5] == [{"ok": True}] * 10
    assert encrypted.begun == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(encrypted: Any, transport: Opener) -> None:
    """Before anything is sent."""
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        transport(f"https://{encrypted.place}", api_key="k").call(WRITE)
    assert encrypted.heads == []


def test_a_certificate_of_another_host_is_refused(encrypted: Any, transport: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may have signed it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        transport(f"https://localhost:{encrypted.server_address[1]}").call(WRITE)
    assert encrypted.heads == []


def test_a_proxy_that_refuses_is_named(scripted: Server, transport: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it answered."""
    proxy = scripted(lambda _head: b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
    monkeypatch.setenv("https_proxy", f"http://{proxy.place}")
    with pytest.raises(UnavailableError, match="the proxy answered 407"):
        transport("https://hindsight.invalid").call(WRITE)
    assert proxy.heads[0].startswith("CONNECT hindsight.invalid:443 HTTP/1.1\n")


@pytest.mark.parametrize("proxied", [False, True], ids=["server", "proxy"])
def test_what_says_nothing_is_no_connection(transport: Opener, monkeypatch: pytest.MonkeyPatch, proxied: bool) -> None:
    """A server that does not begin to encrypt, a proxy that does not answer: both are waited for shortly."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("https_proxy", f"http://{place}")
        asked = transport("https://hindsight.invalid" if proxied else f"https://{place}", connect_timeout=0.2)
        with pytest.raises(UnavailableError, match=r"no connection to .* within 0\.2 s"):
            asked.call(WRITE)


@pytest.mark.parametrize(
    ("variable", "proxy", "words"),
    [
        ("http_proxy", "socks5://ana:SECRET@proxy.invalid:1080", r"`http_proxy` names a proxy of the kind 'socks5'"),
        ("all_proxy", "https://ana:SECRET@proxy.invalid", r"`all_proxy` names a proxy of the kind 'https'"),
        ("http_proxy", "http://", r"`http_proxy`"),
        ("http_proxy", "http://proxy.invalid:99999", r"`http_proxy` is no address"),
    ],
)
def test_a_proxy_that_can_not_be_used_is_refused(
    transport: Opener, monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str, words: str
) -> None:
    """At construction, by the variable that names it, and without its password; but not where it is not asked."""
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(UsageError, match=words) as caught:
        transport("http://hindsight.invalid")
    assert "SECRET" not in str(caught.value)
    transport("http://localhost:1")
    monkeypatch.setenv("no_proxy", "hindsight.invalid")
    transport("http://hindsight.invalid")
