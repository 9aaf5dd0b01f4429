"""The server's own life: addresses, outages, keys, many clients, nothing left behind."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from lorebank.errors import UsageError
from lorebank.testing import Fault, FaultServer

VERSION = "/version"
B = "/v1/default/banks/test"
MEMORIES = f"{B}/memories"


def talk(server: FaultServer, *parts: bytes) -> bytes:
    """What comes back for bytes sent as they are; the client says that it is done."""
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        for part in parts:
            sock.sendall(part)
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while got := sock.recv(65536):
            answer += got
        return answer


def test_an_outage_refuses_connections_and_keeps_port_and_content() -> None:
    """Stopped, then back as if nothing had been."""
    with FaultServer() as server, httpx.Client(timeout=5) as client:
        url = server.url
        client.post(f"{url}{MEMORIES}", json={"items": [{"content": "Ana likes tea."}]})
        server.stop()
        with pytest.raises(httpx.ConnectError):
            client.get(f"{url}{VERSION}")
        server.start()
        assert server.url == url
        assert client.post(f"{url}{MEMORIES}/recall", json={"query": "tea"}).json()["results"]


def test_stopping_cuts_open_connections(server: FaultServer, client: httpx.Client) -> None:
    """A client in the middle of a request hears of it, and no thread stays."""
    server.fault(Fault(hang=True))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.get, VERSION)
        while not server.requests:
            pass
        server.stop()
        assert isinstance(asked.exception(5), httpx.TransportError)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("lorebank-fault")] == []


@pytest.mark.parametrize("fault", [Fault(delay=60), Fault(drip=60), Fault(stall_after=1), Fault(endless=True)])
def test_nothing_outlives_the_server(fault: Fault) -> None:
    """Whatever a connection is busy with."""
    with FaultServer() as server:
        server.fault(fault)
        port = int(server.url.rpartition(":")[2])
        sock = socket.create_connection(("127.0.0.1", port), timeout=5)
        sock.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        while not server.requests:
            pass
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("lorebank-fault")] == []
    sock.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_starting_and_stopping_twice_changes_nothing() -> None:
    """Both may be said again."""
    with FaultServer() as server:
        server.start()
        url = server.url
        assert httpx.get(f"{url}{VERSION}").status_code == 200
        server.stop()
        server.stop()


def test_a_port_of_ones_own() -> None:
    """The address is known before the start; a taken port is told."""
    with FaultServer() as first:
        port = int(first.url.rpartition(":")[2])
        assert FaultServer(port=port).url == first.url
        with pytest.raises(OSError, match="in use"):
            FaultServer(port=port).start()


def test_a_free_port_is_known_only_after_the_start() -> None:
    """Asking earlier is refused with advice."""
    with pytest.raises(UsageError, match="with FaultServer"):
        _ = FaultServer().url


def test_requests_are_kept_as_they_came(server: FaultServer, client: httpx.Client) -> None:
    """Method, path as sent, every value of the query, headers in lower case, the body."""
    client.post(f"{B}/documents/a%2Fb", params={"tags": ["x", "y"], "q": ""}, json={"n": 1}, headers={"X-One": "1"})
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", f"{B}/documents/a%2Fb")
    assert request.query == {"tags": ("x", "y"), "q": ("",)}
    assert request.headers["x-one"] == "1"
    assert request.json() == {"n": 1}
    assert request.at > 0


def test_an_api_key_guards_the_banks_and_not_the_health() -> None:
    """As the real server has it: the scheme may be left out, another header does not help."""
    with FaultServer(api_key="k1") as server, httpx.Client(base_url=server.url) as client:
        path = "/v1/default/banks"
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"Authorization": "Bearer k2"}).json() == {
            "detail": "Authentication failed: Invalid API key"
        }
        assert client.get(path, headers={"X-API-Key": "k1"}).status_code == 401
        assert client.get(path, headers={"Authorization": "Bearer k1"}).status_code == 200
        assert client.get(path, headers={"Authorization": "k1"}).status_code == 200
        assert client.get("/health").status_code == 200


def test_many_clients_at_once_lose_nothing(server: FaultServer, client: httpx.Client) -> None:
    """Concurrent writes to one document all arrive."""

    def send(index: int) -> int:
        body = {"items": [{"content": f"Item {index}.", "document_id": "d", "update_mode": "append"}]}
        return client.post(MEMORIES, json=body).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(send, range(64))) == {200}
    assert len(server.bank("test").documents["d"].splitlines()) == 64
    assert len(server.requests) == 64


def test_one_connection_serves_many_requests(server: FaultServer) -> None:
    """Keep-alive, also for two requests sent in one go; `Connection: close` ends it."""
    one = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert talk(server, one + one + last + one).count(b"HTTP/1.1 200 OK") == 3


def test_an_old_client_gets_one_answer(server: FaultServer) -> None:
    """HTTP/1.0 has no keep-alive."""
    assert talk(server, b"GET /health/live HTTP/1.0\r\n\r\n" * 2).count(b"200 OK") == 1


def test_chunked_and_expected_bodies_are_read(server: FaultServer, client: httpx.Client) -> None:
    """A body without a length, and a client that waits for leave to send it."""
    assert client.put(B, content=iter([b'{"na', b'me": "N"}'])).json()["name"] == "N"
    head = f"PUT {B} HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
    assert talk(server, head, b"{}").startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "wrong",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_a_400(server: FaultServer, wrong: bytes) -> None:
    """And the connection closes."""
    assert talk(server, wrong).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_leaves_in_the_middle_disturbs_nobody(server: FaultServer, client: httpx.Client) -> None:
    """No traceback, no warning, the next request is served."""
    talk(server, b"PUT /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")
    assert client.get(VERSION).status_code == 200


def test_head_has_no_body(server: FaultServer) -> None:
    """Only the headers go."""
    assert talk(server, b"HEAD /nothing HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"\r\n\r\n")


def test_one_thing_stands_behind_the_server() -> None:
    """A proxy and a replay exclude each other, and neither has a bank."""
    with pytest.raises(UsageError, match="not both"):
        FaultServer(upstream="http://127.0.0.1:1", exchanges=".")
    with pytest.raises(UsageError, match="base URL"):
        FaultServer(upstream="127.0.0.1:1")
    with pytest.raises(UsageError, match="no bank"):
        FaultServer(upstream="http://127.0.0.1:1").bank("test")


def test_importing_it_is_light() -> None:
    """Neither httpx nor a database nor the standard library's own HTTP client loads."""
    code = "import sys, lorebank.testing; print([n for n in ('httpx', 'sqlalchemy', 'numpy', 'http.client') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip() == "[]"
