"""What the server's going away and its key look like on the wire."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import httpx
import pytest
from hindsight_server import Hindsight, OwnHindsight


@pytest.mark.parametrize("end", [OwnHindsight.stop, OwnHindsight.kill], ids=["stopped", "killed"])
def test_what_the_server_acknowledged_outlives_it(own_hindsight: OwnHindsight, end: Callable[[OwnHindsight], None]) -> None:
    """A server that is stopped or killed takes no requests; started again, at the same address, it has all documents."""
    bank = f"{own_hindsight.url}/v1/default/banks/test-{uuid.uuid4()}"
    item = {"content": "Anna has a cat.", "document_id": "a"}
    httpx.post(f"{bank}/memories", json={"items": [item]}, timeout=60).raise_for_status()
    end(own_hindsight)
    with pytest.raises(httpx.NetworkError):  # refused, or cut off by the dying process
        httpx.get(f"{bank}/documents/a", timeout=10)
    own_hindsight.start()
    assert httpx.get(f"{bank}/documents/a", timeout=60).json()["original_text"] == "Anna has a cat."
    httpx.delete(bank, timeout=60).raise_for_status()


@pytest.mark.parametrize("key", [None, "wrong"])
def test_a_missing_or_wrong_key_is_a_401(hindsight_auth: Hindsight, key: str | None) -> None:
    """Every call about banks wants the key; the answer says why it is refused."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = httpx.get(f"{hindsight_auth.url}/v1/default/banks", headers=headers, timeout=60)
    assert answer.status_code == 401
    assert answer.json() == {"detail": "Authentication failed: Invalid API key"}


def test_the_right_key_opens(hindsight_auth: Hindsight) -> None:
    """The key travels as a bearer token."""
    headers = {"Authorization": f"Bearer {hindsight_auth.api_key}"}
    assert httpx.get(f"{hindsight_auth.url}/v1/default/banks", headers=headers, timeout=60).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/version"])
def test_health_and_version_need_no_key(hindsight_auth: Hindsight, path: str) -> None:
    """So a healthy answer says nothing about the key."""
    assert httpx.get(hindsight_auth.url + path, timeout=60).status_code == 200
