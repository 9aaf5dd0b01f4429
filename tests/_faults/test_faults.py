"""Each way for a request to go wrong, seen from an ordinary client."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from lorebank.errors import UsageError
from lorebank.testing import Fault, FaultServer

VERSION = "/version"
MEMORIES = "/v1/default/banks/test/memories"
RECALL = f"{MEMORIES}/recall"
ITEM = {"items": [{"content": "Ana likes tea.", "document_id": "d"}]}


def test_a_status_answers_in_hindsights_error_shape_as_often_as_asked(server: FaultServer, client: httpx.Client) -> None:
    """The next three requests are refused, the fourth is not."""
    server.fault(Fault(status=503, retry_after=2), times=3)
    refused = [client.get(VERSION) for _ in range(3)]
    assert [answer.status_code for answer in refused] == [503, 503, 503]
    assert refused[0].headers["retry-after"] == "2"
    assert isinstance(refused[0].json()["detail"], str)
    assert client.get(VERSION).status_code == 200


def test_path_and_method_choose_the_requests(server: FaultServer, client: httpx.Client) -> None:
    """Only a POST whose path ends so goes wrong, until the server heals."""
    server.fault(Fault(status=500), path="/memories$", method="post")
    assert client.post(MEMORIES, json=ITEM).status_code == 500
    assert client.delete(MEMORIES).status_code == 200
    assert client.post(RECALL, json={"query": "tea"}).status_code == 404
    assert client.post(MEMORIES, json=ITEM).status_code == 500
    server.heal()
    assert client.post(MEMORIES, json=ITEM).status_code == 200


def test_the_oldest_fault_that_fits_wins(server: FaultServer, client: httpx.Client) -> None:
    """Faults queue up."""
    server.fault(Fault(status=500), times=1)
    server.fault(Fault(status=429), times=1)
    assert [client.get(VERSION).status_code for _ in range(3)] == [500, 429, 200]


def test_a_refused_request_is_not_carried_out(server: FaultServer, client: httpx.Client) -> None:
    """A made-up answer leaves the bank as it was."""
    server.fault(Fault(status=500), times=1)
    client.post(MEMORIES, json=ITEM)
    assert server.bank("test").documents == {}


def test_a_delayed_answer_is_the_right_one(server: FaultServer, client: httpx.Client) -> None:
    """Late, and otherwise fine."""
    server.fault(Fault(delay=0.05))
    began = time.monotonic()
    assert client.get(VERSION).json()["api_version"] == "1.1.0"
    assert time.monotonic() - began >= 0.05


def test_a_client_that_gave_up_on_a_late_answer_has_had_its_effect(server: FaultServer, client: httpx.Client) -> None:
    """A delayed retain is stored although nobody heard of it."""
    server.fault(Fault(delay=30))
    with pytest.raises(httpx.ReadTimeout):
        client.post(MEMORIES, json=ITEM, timeout=0.1)
    assert server.bank("test").documents == {"d": "Ana likes tea."}


def test_a_hanging_request_is_seen_and_never_answered(server: FaultServer, client: httpx.Client) -> None:
    """It is not carried out either."""
    server.fault(Fault(hang=True))
    with pytest.raises(httpx.ReadTimeout):
        client.post(MEMORIES, json=ITEM, timeout=0.05)
    assert [request.path for request in server.requests] == [MEMORIES]
    assert server.bank("test").documents == {}


@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(stall_after=3)])
def test_healing_cuts_what_hangs(server: FaultServer, client: httpx.Client, fault: Fault) -> None:
    """The waiting client hears at once that its connection is gone."""
    server.fault(fault)
    caught: list[Exception] = []

    def ask() -> None:
        try:
            client.get(VERSION)
        except httpx.TransportError as error:
            caught.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    while not server.requests:
        time.sleep(0.001)
    server.heal()
    asking.join(5)
    assert len(caught) == 1


def test_healing_sends_late_answers_now(server: FaultServer, client: httpx.Client) -> None:
    """Nobody waits for a delay that was called off."""
    server.fault(Fault(delay=60), times=1)
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(client.get(VERSION).status_code))
    asking.start()
    while not server.requests:
        time.sleep(0.001)
    server.heal()
    asking.join(5)
    assert answers == [200]


def test_a_dripping_body_outlasts_timeouts_for_each_read(server: FaultServer, client: httpx.Client) -> None:
    """Each byte comes in time, the whole does not."""
    server.fault(Fault(drip=0.02, body=b"0123456789", status=200))
    began = time.monotonic()
    assert client.get(VERSION, timeout=0.15).text == "0123456789"
    assert time.monotonic() - began >= 0.2


def test_headers_drip_too_where_asked(server: FaultServer, client: httpx.Client) -> None:
    """Then the first byte of the status line already takes its time."""
    server.fault(Fault(drip=0.001, drip_headers=True, body=b"{}", headers={"x-ignored-params": "foo"}))
    answer = client.get(VERSION)
    assert answer.json() == {}
    assert answer.headers["x-ignored-params"] == "foo"


def test_a_stalled_body_stops_on_an_open_connection(server: FaultServer, client: httpx.Client) -> None:
    """The client waits for the rest until its own bound."""
    server.fault(Fault(stall_after=10))
    with client.stream("GET", VERSION, timeout=0.05) as answer, pytest.raises(httpx.ReadTimeout):
        answer.read()


@pytest.mark.parametrize("size", [0, 10, 1_000_000])
def test_a_cut_body_ends_early(server: FaultServer, client: httpx.Client, size: int) -> None:
    """Also where the body is shorter than the cut."""
    server.fault(Fault(cut_after=size))
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(VERSION)


def test_a_cut_request_was_carried_out(server: FaultServer, client: httpx.Client) -> None:
    """The bank has it, the client does not know."""
    server.fault(Fault(cut=True))
    with pytest.raises(httpx.TransportError):
        client.post(MEMORIES, json=ITEM)
    assert server.bank("test").documents == {"d": "Ana likes tea."}


def test_a_dropped_request_was_not(server: FaultServer, client: httpx.Client) -> None:
    """The connection closes before anything happens."""
    server.fault(Fault(drop=True))
    with pytest.raises(httpx.TransportError):
        client.post(MEMORIES, json=ITEM)
    assert server.bank("test").documents == {}
    assert len(server.requests) == 1


def test_an_endless_body_goes_on_until_the_client_leaves(server: FaultServer, client: httpx.Client) -> None:
    """A cap is all that helps."""
    server.fault(Fault(endless=True))
    read = 0
    with client.stream("GET", VERSION) as answer:
        for part in answer.iter_raw():
            read += len(part)
            if read > 1 << 20:
                break
    assert read > 1 << 20


def test_a_body_of_ones_own_goes_as_it_is(server: FaultServer, client: httpx.Client) -> None:
    """Garbage with a 200."""
    server.fault(Fault(body=b"<html>\xff", content_type="text/html"))
    answer = client.get(VERSION)
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"<html>\xff", "text/html")


def test_headers_alone_are_added_to_the_right_answer(server: FaultServer, client: httpx.Client) -> None:
    """Nothing else changes."""
    server.fault(Fault(headers={"x-ignored-params": "foo"}))
    answer = client.get(VERSION)
    assert answer.headers["x-ignored-params"] == "foo"
    assert answer.json()["api_version"] == "1.1.0"


@pytest.mark.parametrize("status", [204, 418, 599])
def test_any_status_can_be_asked_for(server: FaultServer, client: httpx.Client, status: int) -> None:
    """Also one without a name, and one without a body."""
    server.fault(Fault(status=status, body=b"" if status == 204 else None), times=1)
    assert client.get(VERSION).status_code == status
    assert client.get(VERSION).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"hang": True, "drop": True},
        {"cut": True, "cut_after": 3},
        {"drip_headers": True},
        {"delay": -1},
        {"stall_after": -1},
    ],
)
def test_contradictions_are_refused_when_they_are_made(wrong: dict[str, int]) -> None:
    """A fault says what is wrong with it."""
    with pytest.raises(UsageError):
        Fault(**wrong)  # type: ignore[arg-type]


def test_a_fault_for_no_request_is_refused(server: FaultServer) -> None:
    """`times` counts from one."""
    with pytest.raises(UsageError, match="times"):
        server.fault(Fault(status=500), times=0)
