"""The small Hindsight takes in: retain, documents, operations, edits."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from lorebank.testing import FaultServer

B = "/v1/default/banks/test"
MEMORIES = f"{B}/memories"
ID = "0b5f3c1e-1111-4222-8333-944455566677"


def item(content: Any, document_id: str | None = "d", **more: Any) -> dict[str, Any]:
    return {"content": content, **({} if document_id is None else {"document_id": document_id}), **more}


def retain(client: httpx.Client, *items: dict[str, Any], **more: Any) -> httpx.Response:
    return client.post(MEMORIES, json={"items": list(items), **more})


def facts(client: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = client.get(f"{MEMORIES}/list", params=query).json()["items"]
    return listed


def operation(client: httpx.Client, operation_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = client.get(f"{B}/operations/{operation_id}").json()
    return shown


def test_a_synchronous_retain_answers_when_facts_are_there(server: FaultServer, client: httpx.Client) -> None:
    """One fact for each sentence; the bank is made by the way."""
    answer = retain(client, item("Ana likes tea. Assistant: I booked a table on 2026-03-04.")).json()
    assert set(answer) == {"success", "bank_id", "items_count", "async", "operation_id", "operation_ids", "usage"}
    assert (answer["items_count"], answer["operation_id"]) == (1, None)
    assert server.bank("test").facts == ("Ana likes tea.", "I booked a table on 2026-03-04.")
    said, seen = sorted(facts(client, document_id="d"), key=lambda each: each["fact_type"])
    assert (said["fact_type"], said["occurred_start"]) == ("experience", "2026-03-04T00:00:00.010000+00:00")
    assert (seen["fact_type"], seen["occurred_start"], seen["entities"]) == ("world", None, "Ana")


def test_a_transcript_counts_by_its_turns(server: FaultServer, client: httpx.Client) -> None:
    """The assistant's words are experiences; a document appended to holds several arrays."""
    one = '[{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "Noted."}]'
    retain(client, item(one), item('[{"role": "user", "content": "And cake."}]'))
    assert server.bank("test").facts == ("I like tea.", "Noted.", "And cake.")
    assert [fact["text"] for fact in facts(client, type="experience")] == ["Noted."]


def test_the_same_content_again_keeps_facts_and_takes_the_new_tags(client: httpx.Client) -> None:
    """Nothing is read twice; tags and metadata are those of the last request."""
    retain(client, item("Ana likes tea.", tags=["a"], metadata={"k": "v"}))
    (before,) = facts(client, document_id="d")
    assert retain(client, item("Ana likes tea.")).json()["usage"]["total_tokens"] == 0
    (after,) = facts(client, document_id="d")
    assert (after["id"], after["tags"], after["metadata"]) == (before["id"], [], {})


def test_other_content_replaces_facts(server: FaultServer, client: httpx.Client) -> None:
    """What the document says no longer is gone."""
    retain(client, item("Ana likes tea."))
    retain(client, item("Ana likes milk."))
    assert server.bank("test").documents == {"d": "Ana likes milk."}
    assert server.bank("test").facts == server.bank("test").observations == ("Ana likes milk.",)


def test_an_append_joins_and_its_tags_replace(server: FaultServer, client: httpx.Client) -> None:
    """Also where they are left out, on the document and on all of its facts; the same text twice stays twice."""
    retain(client, item("Ana likes tea.", tags=["a"]))
    retain(client, item("Bob likes milk.", update_mode="append", tags=["b"]))
    assert server.bank("test").documents == {"d": "Ana likes tea.\nBob likes milk."}
    assert {tuple(fact["tags"]) for fact in facts(client, document_id="d")} == {("b",)}
    retain(client, item("Bob likes milk.", update_mode="append"))
    assert server.bank("test").tags == {"d": ()}
    assert server.bank("test").facts == ("Ana likes tea.", "Bob likes milk.", "Bob likes milk.")


def test_an_append_makes_an_unknown_document_and_needs_its_id(server: FaultServer, client: httpx.Client) -> None:
    """A 400 with a text otherwise."""
    assert retain(client, item("x y.", None, update_mode="append")).json() == {
        "detail": "update_mode='append' requires a document_id"
    }
    assert retain(client, item("x y.", update_mode="append")).status_code == 200
    assert server.bank("test").documents == {"d": "x y."}


def test_items_without_a_document_share_a_new_one(server: FaultServer, client: httpx.Client) -> None:
    """Saying it again stores it again."""
    for _ in range(2):
        retain(client, item("One.", None), item("Two.", ""))
    assert list(server.bank("test").documents.values()) == ["One.\nTwo."] * 2


def test_ids_are_the_same_in_every_run() -> None:
    """A new server gives the same ids for the same calls."""

    def ids() -> list[str]:
        with FaultServer() as server, httpx.Client(base_url=server.url) as client:
            retain(client, item("Ana likes tea. Bob likes milk."))
            return [fact["id"] for fact in facts(client)]

    assert ids() == ids()


@pytest.mark.parametrize(
    ("wrong", "place", "kind"),
    [
        (item(" "), ["content"], "value_error"),
        (item([]), ["content"], "value_error"),
        (item([{"type": "text", "text": ""}]), ["content"], "value_error"),
        ({}, ["content"], "missing"),
        (item("x", metadata={"n": 1}), ["metadata", "n"], "string_type"),
        (item("x", metadata={"n": None}), ["metadata", "n"], "string_type"),
        (item("x", update_mode="merge"), ["update_mode"], "literal_error"),
        (item("x", timestamp="yesterday"), ["timestamp"], "value_error"),
        (item("x", tags=[1]), ["tags", 0], "string_type"),
        (item("x", entities=[{}]), ["entities", 0, "text"], "missing"),
        ("x", [], "model_attributes_type"),
    ],
)
def test_a_wrong_item_is_named_by_its_place(client: httpx.Client, wrong: Any, place: list[str | int], kind: str) -> None:
    """422 with a list; the good item before it is not stored either."""
    answer = retain(client, item("Good."), wrong)
    assert answer.status_code == 422
    (complaint,) = answer.json()["detail"]
    assert (complaint["type"], complaint["loc"]) == (kind, ["body", "items", 1, *place])
    assert client.get(f"{B}/documents").status_code == 404


@pytest.mark.parametrize("body", [b"{not json", b"", b"[]", b"{}", b'{"items": "x"}'])
def test_a_body_that_is_no_retain_is_a_422(client: httpx.Client, body: bytes) -> None:
    """With the list that says why."""
    answer = client.post(MEMORIES, content=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][0] == "body"


def test_unknown_fields_are_ignored_and_named(client: httpx.Client) -> None:
    """In the header that an integration should look at."""
    assert retain(client, item("x."), foo=1, bar=2).headers["x-ignored-params"] == "foo, bar"
    assert client.get(f"{MEMORIES}/list", params={"typ": "world"}).headers["x-ignored-params"] == "typ"


def test_an_async_retain_has_a_parent_and_a_child(client: httpx.Client) -> None:
    """Both are complete at once."""
    told = retain(client, item("Ana likes tea."), **{"async": True}).json()
    parent = operation(client, told["operation_id"])
    assert (parent["status"], parent["operation_type"], parent["result_metadata"]["document_id"]) == (
        "completed",
        "batch_retain",
        "d",
    )
    (child,) = parent["child_operations"]
    assert operation(client, child["operation_id"])["task_type"] == "retain"
    listed = client.get(f"{B}/operations", params={"type": "retain", "status": "completed"}).json()
    assert [each["id"] for each in listed["operations"]] == [child["operation_id"]]


def test_an_operation_id_is_an_idempotency_key(server: FaultServer, client: httpx.Client) -> None:
    """Again in the same bank: the first operation, nothing queued. In another bank: 409. No UUID: 422."""
    for content in ("First.", "Second."):
        assert retain(client, item(content), operation_id=ID, **{"async": True}).json()["operation_id"] == ID
    assert server.bank("test").documents == {"d": "First."}
    other = client.post("/v1/default/banks/other/memories", json={"async": True, "operation_id": ID, "items": [item("x")]})
    assert (other.status_code, other.json()["detail"]) == (409, f"operation_id {ID} is already in use")
    assert retain(client, item("x"), operation_id="one", **{"async": True}).json()["detail"][0]["loc"] == ["body", "operation_id"]


def test_an_async_batch_holds_each_document_once(client: httpx.Client) -> None:
    """A 400 that names them; a synchronous one folds them."""
    answer = retain(client, item("One."), item("Two."), **{"async": True})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("Batch contains duplicate document_ids: ['d'].")
    assert retain(client, item("One.", None), item("Two.", None), **{"async": True}).status_code == 200


@pytest.mark.parametrize("mark", ["[fail]", "[llm-error]"])
def test_a_failing_extraction_fails_its_operation_only(server: FaultServer, client: httpx.Client, mark: str) -> None:
    """Parent and child say why; the other documents of the batch are stored; the failing one is as it was."""
    retain(client, item("Old.", "bad"))
    told = retain(client, item("Good.", "good"), item(f"{mark} new.", "bad"), **{"async": True}).json()
    parent = operation(client, told["operation_id"])
    assert parent["status"] == parent["child_operations"][0]["status"] == "failed"
    assert f"asked to fail by {mark}" in parent["error_message"]
    assert server.bank("test").documents == {"bad": "Old.", "good": "Good."}
    assert retain(client, item(f"{mark} new.", "bad")).status_code == 500


def test_content_without_facts_is_a_document(server: FaultServer, client: httpx.Client) -> None:
    """Stored all the same."""
    retain(client, item("[no-facts] hm."))
    assert client.get(f"{B}/documents/d").json()["memory_unit_count"] == 0


def test_held_operations_wait_in_order(server: FaultServer, client: httpx.Client) -> None:
    """Pending until released; then appends run one by one."""
    server.hold_operations()
    ids = [
        retain(client, item(f"{n}.", update_mode="append"), **{"async": True}).json()["operation_id"]
        for n in ("One", "Two", "Three")
    ]
    assert {operation(client, each)["status"] for each in ids} == {"pending"}
    assert client.get(f"{B}/stats").json()["pending_operations"] == 6
    assert server.bank("test").documents == {}
    server.release_operations()
    assert server.bank("test").documents == {"d": "One.\nTwo.\nThree."}
    assert {each.status for each in server.bank("test").operations} == {"completed"}


def test_a_cancelled_operation_never_runs_unless_it_is_retried(server: FaultServer, client: httpx.Client) -> None:
    """Cancelling what is done is a 409, and so is retrying it."""
    server.hold_operations()
    told = retain(client, item("One."), **{"async": True}).json()["operation_id"]
    assert client.delete(f"{B}/operations/{told}").json()["message"] == f"Operation {told} cancelled"
    server.release_operations()
    assert server.bank("test").documents == {}
    assert operation(client, told)["status"] == "cancelled"
    assert client.post(f"{B}/operations/{told}/retry").json()["message"] == f"Operation {told} queued for retry"
    assert server.bank("test").documents == {"d": "One."}
    assert client.post(f"{B}/operations/{told}/retry").status_code == 409
    assert client.delete(f"{B}/operations/{told}").status_code == 409


def test_a_retry_runs_all_items_again(server: FaultServer, client: httpx.Client) -> None:
    """So an append beside a failing item is repeated."""
    batch = (item("One.", "good", update_mode="append"), item("[fail]", "bad"))
    told = retain(client, *batch, **{"async": True}).json()["operation_id"]
    client.post(f"{B}/operations/{told}/retry")
    assert operation(client, told)["status"] == "failed"
    assert server.bank("test").documents == {"good": "One.\nOne."}


def test_an_unknown_operation_is_no_error(client: httpx.Client) -> None:
    """200 and `not_found`; an id that is no UUID is a 400; retry and delete are 404."""
    shown = operation(client, ID)
    assert (shown["status"], shown["operation_type"], len(shown)) == ("not_found", None, 17)
    assert client.get(f"{B}/operations/nope").json() == {"detail": "Invalid operation_id format: nope"}
    assert client.post(f"{B}/operations/{ID}/retry").status_code == 404
    told = retain(client, item("One."), **{"async": True}).json()["operation_id"]
    assert client.delete(f"{B}/operations/{told}/delete").status_code == 200
    assert operation(client, told)["status"] == "not_found"


def test_a_fact_can_be_edited_invalidated_and_reverted(server: FaultServer, client: httpx.Client) -> None:
    """Its observation follows; an observation itself can't be edited, and nothing single can be deleted."""
    retain(client, item("Ana likes tea."))
    (fact,) = facts(client, type="world")
    path = f"{MEMORIES}/{fact['id']}"
    assert client.patch(path, json={"text": "Ana likes milk."}).json()["text"] == "Ana likes milk."
    assert server.bank("test").observations == ("Ana likes milk.",)
    shown = client.patch(path, json={"state": "invalidated", "reason": "old"}).json()
    assert (shown["state"], shown["invalidation_reason"]) == ("invalidated", "old")
    assert server.bank("test").facts == server.bank("test").observations == ()
    assert [each["id"] for each in facts(client, state="invalidated")] == [fact["id"]]
    assert client.patch(path, json={"text": "x"}).status_code == 400
    assert client.patch(path, json={"state": "valid"}).json()["state"] == "valid"
    assert server.bank("test").observations == ("Ana likes milk.",)
    (observation,) = facts(client, type="observation")
    assert client.patch(f"{MEMORIES}/{observation['id']}", json={"text": "x"}).status_code == 400
    assert client.patch(path, json={"reason": "x"}).status_code == 422
    assert client.delete(path).status_code == 405


def test_documents_are_retagged_and_deleted(server: FaultServer, client: httpx.Client) -> None:
    """By any id, also one with slashes and signs."""
    name = "a/b c?#d"
    path = f"{B}/documents/a%2Fb%20c%3F%23d"
    retain(client, item("Ana likes tea. Bob too.", name, tags=["x"]))
    assert client.get(path).json()["original_text"] == "Ana likes tea. Bob too."
    assert client.patch(path, json={"tags": ["y"]}).json() == {"success": True}
    assert {tuple(fact["tags"]) for fact in facts(client)} == {("y",)}
    assert client.get(f"{path}/chunks").json()["items"][0]["chunk_id"] == f"test_{name}_0"
    assert client.delete(path).json()["memory_units_deleted"] == 2
    assert client.delete(path).json() == {"detail": "Document not found"}
    assert server.bank("test").facts == server.bank("test").observations == ()


def test_clearing_takes_one_type_or_everything(server: FaultServer, client: httpx.Client) -> None:
    """Documents go with everything."""
    retain(client, item("Ana likes tea. Assistant: Noted."))
    assert client.delete(MEMORIES, params={"type": "experience"}).json()["deleted_count"] == 1
    assert server.bank("test").facts == ("Ana likes tea.",)
    assert client.delete(MEMORIES).json()["deleted_count"] == 2
    assert server.bank("test").documents == {}
    retain(client, item("Ana likes tea."))
    assert server.bank("test").observations == ("Ana likes tea.",)


def test_observations_can_be_off(server: FaultServer, client: httpx.Client) -> None:
    """A setting of the bank."""
    client.put(B, json={"enable_observations": False})
    retain(client, item("Ana likes tea."))
    assert server.bank("test").observations == ()
    assert "consolidation" not in {each.type for each in server.bank("test").operations}
