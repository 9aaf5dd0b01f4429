"""One call over a real socket: deadlines, caps, retries, refusals."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections.abc import Callable

import pytest
from pydantic import SecretStr

from lorebank._domain.settings import ConnectionSettings, RetainSettings
from lorebank._hindsight.backend import HindsightBackend
from lorebank._hindsight.transport import Call, Transport
from lorebank.errors import DeadlineError, GarbledError, LorebankError, RateLimitedError, UnavailableError, UsageError
from lorebank.testing import Fault, FaultServer

VERSION = Call("GET", "/version", 2)
WRITE = Call("POST", "/v1/default/banks/b/memories", 2, body=b'{"items": []}', read=False)


Opener = Callable[..., Transport]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(hang=True),
        Fault(drip=0.05),
        Fault(drip=0.05, drip_headers=True),
        Fault(stall_after=3),
        Fault(delay=5),
    ],
    ids=str,
)
def test_the_deadline_is_total(faulty: FaultServer, fault: Fault, transport: Opener) -> None:
    """However the answer is held back, the call ends when its time is over."""
    faulty.fault(fault)
    began = time.monotonic()
    with pytest.raises(DeadlineError, match=r"within 0\.4 s"):
        transport(faulty.url).call(Call("GET", "/version", 0.4))
    assert 0.3 < time.monotonic() - began < 1.5
    faulty.heal()


def test_a_server_that_accepts_nothing_is_waited_for_shortly(transport: Opener) -> None:
    """The connection has a bound of its own."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        held = [socket.socket() for _ in range(3)]
        for each in held:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        began = time.monotonic()
        with pytest.raises(UnavailableError):
            transport(f"http://127.0.0.1:{full.getsockname()[1]}", connect_timeout=0.2).call(Call("GET", "/version", 0.5))
        assert time.monotonic() - began < 1.5
        for each in held:
            each.close()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(endless=True), GarbledError),
        (Fault(body=b"<html>", content_type="text/html"), GarbledError),
        (Fault(body=b""), GarbledError),
        (Fault(body=b'{"a": NaN}'), GarbledError),
        (Fault(status=302, body=b"", headers={"location": "/login"}), GarbledError),
        (Fault(status=404, body=b"<html>"), GarbledError),
        (Fault(cut_after=3), UnavailableError),
        (Fault(cut=True), UnavailableError),
        (Fault(drop=True), UnavailableError),
        (Fault(status=503), UnavailableError),
        (Fault(status=429, retry_after=9), RateLimitedError),
    ],
    ids=str,
)
def test_what_is_no_answer_is_told_apart(faulty: FaultServer, fault: Fault, kind: type[LorebankError], transport: Opener) -> None:
    """Never taken for "empty"."""
    faulty.fault(fault)
    with pytest.raises(kind) as caught:
        transport(faulty.url, max_body_bytes=20_000).call(VERSION)
    assert type(caught.value) is kind
    faulty.heal()


def test_reads_are_tried_three_times(faulty: FaultServer, transport: Opener) -> None:
    """Two failures in passing are not seen."""
    faulty.fault(Fault(drop=True), times=1)
    faulty.fault(Fault(status=503, retry_after=0), times=1)
    assert transport(faulty.url).call(VERSION)["api_version"] == "1.1.0"
    assert len(faulty.requests) == 3


@pytest.mark.parametrize("fault", [Fault(drop=True), Fault(status=503), Fault(cut=True)], ids=str)
def test_writes_are_tried_once(faulty: FaultServer, fault: Fault, transport: Opener) -> None:
    """Whether it had effect is the outbox's question."""
    faulty.fault(fault)
    with pytest.raises(UnavailableError):
        transport(faulty.url).call(WRITE)
    assert len(faulty.requests) == 1


def test_a_refused_request_is_not_repeated(faulty: FaultServer, transport: Opener) -> None:
    """A 500 has its reason."""
    faulty.fault(Fault(status=500))
    with pytest.raises(UnavailableError):
        transport(faulty.url).call(VERSION)
    assert len(faulty.requests) == 1


def test_a_dead_server_is_spared_but_not_by_urgent_calls(faulty: FaultServer, transport: Opener) -> None:
    """After three failures calls fail at once; the outbox still asks, and its success opens the way."""
    asked = transport(faulty.url)
    faulty.fault(Fault(drop=True), times=3)
    with pytest.raises(UnavailableError):
        asked.call(VERSION)
    with pytest.raises(UnavailableError, match="is asked again in") as caught:
        asked.call(VERSION)
    assert caught.value.retry_after is not None
    assert len(faulty.requests) == 3
    asked.call(Call("GET", "/version", 2, urgent=True))
    asked.call(VERSION)


def test_one_hung_call_keeps_no_other_waiting(faulty: FaultServer, transport: Opener) -> None:
    """Connections are not rationed."""
    faulty.fault(Fault(hang=True), path="/slow$")
    asked = transport(faulty.url)

    def hang() -> None:
        with pytest.raises(DeadlineError):
            asked.call(Call("GET", "/slow", 1))

    threads = [threading.Thread(target=hang) for _ in range(40)]
    for thread in threads:
        thread.start()
    assert asked.call(VERSION)["api_version"] == "1.1.0"
    for thread in threads:
        thread.join()
    faulty.heal()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://x", "like https"),
        ("hindsight", "like https"),
        ("http://u:p@x", "credentials"),
        ("http://x?a=1", "query or fragment"),
        ("http://x#a", "query or fragment"),
        ("http://x:99999", "no address"),
        ("http://example.com", "unencrypted"),
    ],
)
def test_an_address_that_can_not_be_one_is_refused(url: str, words: str, transport: Opener) -> None:
    """At construction, and without the key."""
    with pytest.raises(UsageError, match=words) as caught:
        transport(url, api_key="SECRET")
    assert "SECRET" not in str(caught.value)


def test_a_key_that_no_header_can_hold_is_refused(transport: Opener) -> None:
    """A key read from a file often ends with the line."""
    with pytest.raises(UsageError, match="line break") as caught:
        transport("https://hindsight.invalid", api_key="SECRET\n")
    assert "SECRET" not in str(caught.value)


def test_a_key_over_plain_http_can_be_allowed_by_name(transport: Opener) -> None:
    """For a host in a closed network; a path before the API's own is kept."""
    allowed = transport("http://Hindsight.lan/api/", api_key="k", insecure_hosts=["hindsight.lan"])
    assert allowed.base == "http://hindsight.lan/api"
    assert transport("http://[::1]:8888", api_key="k").base == "http://[::1]:8888"


def test_what_the_server_ignores_is_told(faulty: FaultServer, transport: Opener) -> None:
    """With the bank that it was about."""
    told: list[object] = []
    asked = transport(faulty.url)
    asked.ignored = lambda bank, names: told.append((bank, tuple(names)))
    faulty.fault(Fault(body=b"{}", headers={"x-ignored-params": "a, b"}))
    asked.call(Call("GET", "/version", 2, bank="x"))
    assert told == [("x", ("a", "b"))]


def test_headers_say_who_asks(faulty: FaultServer, transport: Opener) -> None:
    """The key as a bearer token; no compression."""
    transport(faulty.url, api_key="k").call(VERSION)
    headers = {name.lower(): value for name, value in dict(faulty.requests[0].headers).items()}
    assert headers["authorization"] == "Bearer k"
    assert headers["user-agent"] == "lorebank/1"
    assert headers["accept-encoding"] == "identity"


def test_a_proxy_of_the_environment_is_used(faulty: FaultServer, monkeypatch: pytest.MonkeyPatch, transport: Opener) -> None:
    """The whole address is asked of it."""
    monkeypatch.setenv("http_proxy", faulty.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    faulty.fault(Fault(body=b'{"through": "proxy"}'))
    assert transport("http://hindsight.invalid").call(VERSION) == {"through": "proxy"}


def test_a_closed_transport_opens_again(faulty: FaultServer, transport: Opener) -> None:
    """Ending connections is not ending the handle."""
    asked = transport(faulty.url)
    asked.call(VERSION)
    asked.close()
    assert asked.call(VERSION)["api_version"] == "1.1.0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own(faulty: FaultServer, transport: Opener) -> None:
    """Both sides go on."""
    asked = transport(faulty.url)
    asked.call(VERSION)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os._exit(0 if asked.call(VERSION)["api_version"] == "1.1.0" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asked.call(VERSION)["api_version"] == "1.1.0"


def test_a_backend_is_pickled_as_its_settings() -> None:
    """The key's digest tells keys apart, and is not the key."""
    backend = HindsightBackend("http://127.0.0.1:1/", ConnectionSettings(api_key=SecretStr("k1")), RetainSettings())
    copied = pickle.loads(pickle.dumps(backend))  # noqa: S301 - our own bytes
    assert (copied.route, copied.key_digest) == (backend.route, backend.key_digest) == ("http://127.0.0.1:1", backend.key_digest)
    assert backend.key_digest not in ("", "k1")
    assert HindsightBackend("http://127.0.0.1:1", ConnectionSettings(), RetainSettings()).key_digest == ""
