"""How an answer goes out: whole, late, in drops, in part, or without an end."""

from __future__ import annotations

from http import HTTPStatus
from threading import Event

from lorebank._faults.connection import Connection
from lorebank._faults.fault import Fault
from lorebank._faults.wire import Answer, Request

__all__ = ["deliver"]

REASONS = {status.value: status.phrase for status in HTTPStatus}
ENDLESS = b"%x\r\n%s\r\n" % (1 << 14, b" " * (1 << 14))
SOUND = Fault()


def deliver(connection: Connection, request: Request, answer: Answer, fault: Fault = SOUND, *, healed: Event) -> bool:
    """Send the answer as the fault has it. False when the connection is to be closed."""
    if fault.delay:
        healed.wait(fault.delay)
    if fault.cut:
        return False
    keep = request.headers.get("connection", "").lower() != "close"
    head = _head(answer, fault, keep=keep)
    body = b"" if request.method == "HEAD" else answer.body
    if fault.endless:
        return _endless(connection, head, healed)
    if fault.drip:
        return _drip(connection, head, body, fault, healed) and keep
    if fault.stall_after is not None:
        connection.send(head + _part(body, fault.stall_after))
        connection.wait_for_the_end(healed)
        return False
    if fault.cut_after is not None:
        connection.send(head + _part(body, fault.cut_after))
        return False
    connection.send(head + body)
    return keep


def _head(answer: Answer, fault: Fault, *, keep: bool) -> bytes:
    headers = {"content-type": answer.content_type, **answer.headers, **fault.extra_headers()}
    if fault.endless:
        headers["transfer-encoding"] = "chunked"
    elif answer.status not in {204, 304}:
        headers["content-length"] = str(len(answer.body))
    if not keep:
        headers["connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Unknown')}\r\n{lines}\r\n".encode("latin-1")


def _part(body: bytes, size: int) -> bytes:
    return body[: min(size, max(len(body) - 1, 0))]


def _drip(connection: Connection, head: bytes, body: bytes, fault: Fault, healed: Event) -> bool:
    slow = head + body if fault.drip_headers else body
    if not fault.drip_headers:
        connection.send(head)
    for at in range(len(slow)):
        if healed.wait(fault.drip):
            connection.send(slow[at:])
            break
        connection.send(slow[at : at + 1])
    return True


def _endless(connection: Connection, head: bytes, healed: Event) -> bool:
    connection.send(head)
    while not healed.is_set():
        connection.send(ENDLESS)
    return False
