"""What lorebank relies on in the server's behaviour, asked of the real one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hindsight_server import Hindsight, OwnHindsight

Json = dict[str, Any]

FAILING = "[llm-error] Ben has a dog."  # the stub model fails on it


class Bank:
    """A bank on the wire, without lorebank in between."""

    def __init__(self, hindsight: Hindsight, bank_id: str) -> None:
        self.path = f"/v1/default/banks/{bank_id}"
        self.client = httpx.Client(base_url=hindsight.url + self.path, timeout=60)

    def retain(self, *items: Json, **fields: Any) -> httpx.Response:
        return self.client.post("memories", json={"items": items, **fields})

    def later(self, *items: Json, **fields: Any) -> str:
        """Queues items; gives the operation's id."""
        answer = self.retain(*items, **{"async": True}, **fields).raise_for_status()
        return str(answer.json()["operation_id"])

    def operation(self, operation: str) -> Json:
        answer: Json = self.client.get(f"operations/{operation}").raise_for_status().json()
        return answer

    def ended(self, operation: str, status: str) -> Json:
        """The operation once it has the status, and the bank has nothing more to do."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            listed = self.client.get("operations", params={"limit": 100}).raise_for_status().json()["operations"]
            if not any(one["status"] in {"pending", "processing"} for one in listed):
                break
            time.sleep(0.05)
        found = self.operation(operation)
        assert found["status"] == status, found
        return found

    def text(self, document: str) -> str:
        return str(self.client.get(f"documents/{document}").raise_for_status().json()["original_text"])

    def recall(self, **fields: Any) -> list[str]:
        answer = self.client.post("memories/recall", json={"types": ["world"], **fields}).raise_for_status()
        return sorted(result["text"] for result in answer.json()["results"])


@pytest.fixture
def wire(hindsight: Hindsight, bank_id: str) -> Iterator[Bank]:
    bank = Bank(hindsight, bank_id)
    yield bank
    bank.client.close()


def item(content: str, document: str, **fields: Any) -> Json:
    return {"content": content, "document_id": document, **fields}


def append(content: str, document: str) -> Json:
    return item(content, document, update_mode="append")


def test_the_server_is_healthy(hindsight: Hindsight) -> None:
    """`/health` answers for the server and its database."""
    answer = httpx.get(f"{hindsight.url}/health", timeout=10)
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["database"]) == ("healthy", "connected")


def test_the_server_tells_its_version(hindsight: Hindsight) -> None:
    """`/version` names the API's version; the exchanges kept here are of the same one."""
    assert httpx.get(f"{hindsight.url}/version", timeout=10).json()["api_version"] == "1.1.0"


def test_an_async_batch_names_each_document_once(wire: Bank) -> None:
    """Two items of one document in an async batch are a 400, and nothing of the batch is stored."""
    answer = wire.retain(append("Anna has a cat.", "a"), append("Anna has a dog.", "a"), **{"async": True})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("Batch contains duplicate document_ids: ['a'].")
    assert wire.client.get("documents/a").status_code == 404


def test_a_sync_batch_may_name_a_document_twice(wire: Bank) -> None:
    """The texts of one document in a sync batch are joined by a newline."""
    wire.retain(item("Anna has a cat.", "a"), item("Anna has a dog.", "a")).raise_for_status()
    assert wire.text("a") == "Anna has a cat.\nAnna has a dog."


def test_an_operation_id_is_taken_once(wire: Bank) -> None:
    """The id of an operation sent again gives the first operation; its new items are dropped."""
    own = str(uuid.uuid4())
    assert wire.later(append("Anna has a cat.", "a"), operation_id=own) == own
    assert wire.later(append("Anna has a dog.", "a"), operation_id=own) == own
    wire.ended(own, "completed")
    assert wire.text("a") == "Anna has a cat."


def test_an_operation_id_belongs_to_one_bank(wire: Bank, hindsight: Hindsight) -> None:
    """The id of another bank's operation is a 409."""
    own = wire.later(item("Anna has a cat.", "a"))
    request = {"items": [item("Anna has a cat.", "a")], "async": True, "operation_id": own}
    other = f"{hindsight.url}/v1/default/banks/test-{uuid.uuid4()}"
    answer = httpx.post(f"{other}/memories", json=request, timeout=60)
    httpx.delete(other, timeout=60).raise_for_status()
    assert answer.status_code == 409
    wire.ended(own, "completed")


def test_a_failed_append_leaves_its_document(wire: Bank) -> None:
    """An operation with one append that fails, tries and retries included, changes nothing."""
    wire.retain(item("Ben lives in Oslo.", "b")).raise_for_status()
    operation = wire.later(append(FAILING, "b"))
    wire.ended(operation, "failed")
    wire.client.post(f"operations/{operation}/retry").raise_for_status()
    wire.ended(operation, "failed")
    assert wire.text("b") == "Ben lives in Oslo."


def test_retries_repeat_the_appends_that_worked(wire: Bank) -> None:
    """Why an operation of ours carries one append: with two, a failing one makes the other one be stored again and again."""
    wire.retain(item("Anna lives in Rome.", "a"), item("Ben lives in Oslo.", "b")).raise_for_status()
    operation = wire.later(append("Anna has a cat.", "a"), append(FAILING, "b"))
    failed = wire.ended(operation, "failed")
    assert [child["items_count"] for child in failed["child_operations"]] == [2]
    for _ in range(5):  # whether one try stores it is a race of the two appends
        wire.client.post(f"operations/{operation}/retry").raise_for_status()
        wire.ended(operation, "failed")
        if wire.text("a").count("Anna has a cat.") > 1:
            break
    assert wire.text("a").startswith("Anna lives in Rome.\nAnna has a cat.\nAnna has a cat.")
    assert wire.text("b") == "Ben lives in Oslo."


def test_the_same_append_twice_is_there_twice(wire: Bank) -> None:
    """An append is not idempotent by itself."""
    for _ in range(2):
        wire.retain(append("Anna has a cat.", "a")).raise_for_status()
    assert wire.text("a") == "Anna has a cat.\nAnna has a cat."


def test_an_append_without_tags_clears_them(wire: Bank) -> None:
    """A document's tags are those of its last write."""
    wire.retain(item("Anna has a cat.", "a", tags=["pets"])).raise_for_status()
    wire.retain(append("Anna has a dog.", "a")).raise_for_status()
    assert wire.client.get("documents/a").json()["tags"] == []


def test_an_unknown_operation_is_not_found(wire: Bank, hindsight: Hindsight) -> None:
    """The answer is a 200 with the status `not_found`, no 404."""
    httpx.put(f"{hindsight.url}{wire.path}", json={}, timeout=60).raise_for_status()
    assert wire.operation(str(uuid.uuid4()))["status"] == "not_found"


@pytest.mark.parametrize("mode", ["any", "all", "any_strict", "all_strict"])
def test_no_tags_is_no_filter(wire: Bank, mode: str) -> None:
    """`tags: []` gives every memory, tagged or not, in the strict modes too."""
    wire.retain(item("Anna drinks tea.", "a", tags=["user:anna"]), item("Ben drinks tea.", "b")).raise_for_status()
    assert wire.recall(query="Who drinks tea?", tags=[], tags_match=mode) == ["Anna drinks tea.", "Ben drinks tea."]


def test_no_tags_with_exact_gives_the_untagged(wire: Bank) -> None:
    """`exact` is the one mode where `tags: []` filters."""
    wire.retain(item("Anna drinks tea.", "a", tags=["user:anna"]), item("Ben drinks tea.", "b")).raise_for_status()
    assert wire.recall(query="Who drinks tea?", tags=[], tags_match="exact") == ["Ben drinks tea."]


def test_reading_an_unknown_bank_is_a_404(wire: Bank) -> None:
    """Only a write makes a bank."""
    assert wire.client.post("memories/recall", json={"query": "Who drinks tea?"}).status_code == 404
    wire.retain(item("Anna drinks tea.", "a")).raise_for_status()
    assert wire.recall(query="Who drinks tea?") == ["Anna drinks tea."]


def test_unknown_fields_are_named_in_a_header(wire: Bank) -> None:
    """A misspelt field is ignored, and told of in `x-ignored-params`."""
    wire.retain(item("Anna drinks tea.", "a")).raise_for_status()
    answer = wire.client.post("memories/recall", json={"query": "Who drinks tea?", "max_token": 5})
    assert answer.status_code == 200
    assert "max_token" in answer.headers["x-ignored-params"]


def test_a_server_starts_after_its_machine_was_killed(own_hindsight: OwnHindsight) -> None:
    """Its database syncs nothing: what a kill tore would keep it down, or tell falsehoods, so it begins anew."""
    own_hindsight.cut_power()
    own_hindsight.start()
    banks = httpx.get(f"{own_hindsight.url}/v1/default/banks", timeout=60).raise_for_status().json()
    assert banks["banks"] == []
