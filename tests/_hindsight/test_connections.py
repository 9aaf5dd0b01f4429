"""What becomes of connections: which are kept, which are given up, what counts as an answer."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lorebank._hindsight.connections import IDLE, KEPT_ALIVE, Connection
from lorebank._hindsight.transport import Call, Transport
from lorebank.errors import DeadlineError, UnavailableError
from lorebank.testing import FaultServer

READ = Call("GET", "/version", 10)
WRITE = Call("POST", "/v1/default/banks/b/memories", 10, body=b'{"items": [{"content": "x"}]}', read=False)
BODY = b'{"ok":true}'
SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n" + BODY
CHUNKED = b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;a=1\r\n{"ok\r\n7\r\n":true}\r\n0\r\nlate: 1\r\n\r\n'
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: Close\r\ncontent-length: 11\r\n\r\n" + BODY
OLD = b"HTTP/1.0 200 OK\r\ncontent-length: 11\r\n\r\n" + BODY
UNSIZED = b"HTTP/1.1 200 OK\r\n\r\n" + BODY
IN_CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

Opener = Callable[..., Transport]
Server = Callable[..., Any]


def idle(asked: Transport) -> list[Connection]:
    """The connections that a transport keeps."""
    assert asked._pool is not None
    return list(asked._pool._idle)


@pytest.mark.parametrize("answer", [SIZED, CHUNKED, INTERIM + SIZED], ids=["sized", "chunked", "after interim answers"])
def test_one_connection_serves_many_calls(scripted: Server, transport: Opener, answer: bytes) -> None:
    """It is kept once the answer has been read whole."""
    server = scripted(lambda _head: answer)
    asked = transport(f"http://{server.place}")
    assert [asked.call(call) for call in (READ, WRITE) * 10] == [{"ok": True}] * 20
    assert server.begun == 1


@pytest.mark.parametrize("answer", [CLOSING, OLD, UNSIZED], ids=["said", "HTTP/1.0", "unsized"])
def test_a_connection_that_the_server_ends_is_not_kept(scripted: Server, transport: Opener, answer: bytes) -> None:
    """What was said on it is whole nevertheless."""
    server = scripted(lambda _head: answer, once=True)
    asked = transport(f"http://{server.place}")
    for _ in range(3):
        assert asked.call(WRITE) == {"ok": True}
        assert idle(asked) == []
    assert server.begun == 3


def test_a_stale_connection_is_noticed_before_it_is_used(faulty: FaultServer, transport: Opener) -> None:
    """A write, which is not repeated, gets through on a new one."""
    asked = transport(faulty.url)
    asked.call(READ)
    faulty.stop()
    faulty.start()
    asked.call(WRITE)
    assert len(faulty.requests) == 2


def test_a_connection_that_was_idle_for_long_is_given_up(scripted: Server, transport: Opener) -> None:
    """What lies between may have forgotten it without a word."""
    server = scripted(lambda _head: SIZED)
    asked = transport(f"http://{server.place}")
    asked.call(READ)
    idle(asked)[0]._used -= 2 * IDLE
    asked.call(READ)
    assert server.begun == 2
    assert server.saw_end(1)
    assert len(idle(asked)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        SIZED[:20],
        SIZED[:-1],
        CHUNKED[:-30],
        IN_CHUNKS + b"4\r\n{}",
        IN_CHUNKS + b"xyz\r\n{}\r\n0\r\n\r\n",
        IN_CHUNKS + b"-1\r\n{}\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n",
    ],
    ids=lambda answer: repr(answer[-24:]),
)
def test_half_an_answer_is_a_broken_connection(scripted: Server, transport: Opener, answer: bytes) -> None:
    """Wherever it breaks off, or stops being HTTP. It may have had effect, so that a write is not repeated."""
    server = scripted(lambda _head: answer, once=True)
    with pytest.raises(UnavailableError) as caught:
        transport(f"http://{server.place}").call(WRITE)
    assert type(caught.value) is UnavailableError
    assert len(server.heads) == 1
    assert server.saw_end(1)


def test_a_request_that_is_not_taken_ends_with_its_time(transport: Opener) -> None:
    """The deadline bounds writing, too."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        asked = transport(f"http://127.0.0.1:{deaf.getsockname()[1]}")
        with pytest.raises(DeadlineError):
            asked.call(Call("POST", "/", 0.3, body=b" " * 50_000_000, read=False))


def test_as_many_connections_as_calls(scripted: Server, transport: Opener) -> None:
    """Fifty at once don't wait for each other; afterwards only some are kept."""
    together = threading.Barrier(50)
    server = scripted(lambda _head: SIZED if together.wait(10) >= 0 else b"")
    asked = transport(f"http://{server.place}")
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(asked.call(WRITE))) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"ok": True}] * 50
    assert server.begun == 50
    assert server.saw_end(50 - KEPT_ALIVE)
    assert len(idle(asked)) == KEPT_ALIVE


def test_closing_lets_a_call_end(scripted: Server, transport: Opener) -> None:
    """Its connection is not kept; the next call opens another one."""
    arrived, released = threading.Event(), threading.Event()

    def answer(_head: str) -> bytes:
        arrived.set()
        released.wait(10)
        return SIZED

    server = scripted(answer)
    asked = transport(f"http://{server.place}")
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(asked.call(WRITE)))
    thread.start()
    assert arrived.wait(10)
    asked.close()
    released.set()
    thread.join()
    assert answers == [{"ok": True}]
    assert server.saw_end(1)
    assert asked.call(WRITE) == {"ok": True}
    assert server.begun == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_the_parent_s_connection_alone(scripted: Server, transport: Opener) -> None:
    """Its copy is closed, without ending the parent's."""
    server = scripted(lambda _head: SIZED)
    asked = transport(f"http://{server.place}")
    asked.call(READ)
    kept = idle(asked)[0]
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os._exit(0 if kept._sock.fileno() == -1 and asked.call(READ) == {"ok": True} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asked.call(WRITE)
    assert idle(asked) == [kept]
    assert server.begun == 2


def test_a_name_with_several_addresses_is_tried_through(scripted: Server, transport: Opener) -> None:
    """Where the first refuses, the next one is asked."""
    server = scripted(lambda _head: SIZED)
    assert transport(f"http://localhost:{server.server_address[1]}").call(WRITE) == {"ok": True}


def test_an_ipv6_address_is_reached(scripted: Server, transport: Opener) -> None:
    """With brackets in the header."""
    try:
        server = scripted(lambda _head: SIZED, host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert transport(f"http://{server.place}").call(WRITE) == {"ok": True}
    assert f"\nhost: {server.place}\n" in server.heads[0]
