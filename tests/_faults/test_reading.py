"""The small Hindsight gives out: recall, reflect, lists, mental models, banks."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from lorebank.testing import FaultServer

B = "/v1/default/banks/test"
MEMORIES = f"{B}/memories"
NOWHERE = "00000000-0000-0000-0000-000000000000"
TAGGED: dict[str, list[str]] = {"none": [], "a": ["a"], "b": ["b"], "ac": ["a", "c"]}


def retain(client: httpx.Client, content: str, **more: Any) -> None:
    client.post(MEMORIES, json={"items": [{"content": content, **more}]})


def recall(client: httpx.Client, query: str = "tea", **more: Any) -> httpx.Response:
    return client.post(f"{MEMORIES}/recall", json={"query": query, **more})


def texts(answer: httpx.Response) -> list[str]:
    return [each["text"] for each in answer.json()["results"]]


def found(client: httpx.Client, **more: Any) -> set[str]:
    """Which of the four tagged memories are let through."""
    for name, tags in TAGGED.items():
        retain(client, f"tagged {name}", document_id=name, tags=tags)
    return {text.removeprefix("tagged ") for text in texts(recall(client, "tagged", types=["world"], **more))}


def test_a_result_has_every_field(client: httpx.Client) -> None:
    """Null where there is nothing."""
    retain(
        client,
        "Ana likes tea.",
        document_id="d",
        tags=["x"],
        metadata={"k": "v"},
        context="talk",
        timestamp="2026-03-05T09:00:00Z",
    )
    answer = recall(client, types=["world"]).json()
    (result,) = answer["results"]
    expected = (
        "id text type entities context occurred_start occurred_end mentioned_at document_id metadata chunk_id tags"
        " source_fact_ids scores attachments"
    )
    assert set(result) == set(expected.split())
    assert (result["mentioned_at"], result["chunk_id"], result["context"]) == ("2026-03-05T09:00:00+00:00", "test_d_0", "talk")
    assert (result["tags"], result["metadata"], result["entities"]) == (["x"], {"k": "v"}, ["Ana"])
    assert set(answer) == {"results", "trace", "entities", "chunks", "source_facts", "source_facts_truncated"}


def test_more_shared_words_come_first(client: httpx.Client) -> None:
    """Nothing shared, nothing found."""
    retain(client, "Ana drinks milk. Ana drinks green tea. Bob sleeps.")
    assert texts(recall(client, "Who drinks green tea?", types=["world"])) == ["Ana drinks green tea.", "Ana drinks milk."]
    assert texts(recall(client, "zebra")) == []


def test_types_tokens_and_scores_bound_the_answer(client: httpx.Client) -> None:
    """A fact and its observation both come back unless one is preferred."""
    retain(client, "Ana drinks green tea. Bob drinks.")
    assert texts(recall(client, "Who drinks tea?", types=["experience"])) == []
    assert len(texts(recall(client, "Who drinks tea?"))) == 4
    assert {each["type"] for each in recall(client, prefer_observations=True).json()["results"]} == {"observation"}
    assert texts(recall(client, "Who drinks tea?", types=["world"], max_tokens=6)) == ["Ana drinks green tea."]
    assert texts(recall(client, max_tokens=0)) == []
    assert texts(recall(client, "Who drinks tea?", types=["world"], min_scores={"final": 0.8})) == ["Ana drinks green tea."]


def test_include_adds_what_it_names(client: httpx.Client) -> None:
    """Entities are on, chunks and source facts off."""
    retain(client, "Ana likes tea.", document_id="d")
    plain = recall(client).json()
    assert (list(plain["entities"]), plain["chunks"], plain["source_facts"]) == (["Ana"], None, None)
    full = recall(client, types=["observation"], include={"entities": None, "chunks": {}, "source_facts": {}}).json()
    (result,) = full["results"]
    assert (result["document_id"], result["context"], result["metadata"], full["entities"]) == (None, None, {}, None)
    assert [fact["text"] for fact in full["source_facts"].values()] == ["Ana likes tea."]
    assert list(full["source_facts"]) == result["source_fact_ids"]
    chunks = recall(client, types=["world"], include={"chunks": {}}).json()["chunks"]
    assert chunks["test_d_0"]["text"] == "Ana likes tea."


@pytest.mark.parametrize(
    ("mode", "tags", "names"),
    [
        ("any", ["a"], {"none", "a", "ac"}),
        ("all", ["a"], {"none", "a", "ac"}),
        ("all", ["a", "c"], {"none", "ac"}),
        ("any_strict", ["a"], {"a", "ac"}),
        ("any_strict", ["a", "c"], {"a", "ac"}),
        ("all_strict", ["a", "c"], {"ac"}),
        ("exact", ["a"], {"a"}),
        ("exact", ["c", "a"], {"ac"}),
        ("exact", [], {"none"}),
        ("all_strict", [], set(TAGGED)),
    ],
)
def test_the_five_modes_of_tags(client: httpx.Client, mode: str, tags: list[str], names: set[str]) -> None:
    """As observed: an empty list filters nothing, but for `exact`."""
    assert found(client, tags=tags, tags_match=mode) == names


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([], set(TAGGED)),
        ([{"tags": ["a"]}], {"a", "ac"}),
        ([{"tags": ["a"]}, {"tags": ["c"]}], {"ac"}),
        ([{"not": {"tags": ["a"]}}], {"none", "b"}),
        ([{"or": [{"tags": ["a"], "match": "exact"}, {"tags": ["b"]}]}], {"a", "b"}),
        ([{"and": [{"tags": ["a"]}, {"not": {"tags": ["c"]}}]}], {"a"}),
        ([{"tags": []}], set()),
        ([{"tags": [], "match": "exact"}], {"none"}),
        ([{"tags": [], "match": "any"}], {"none"}),
        ([{"tags": [], "match": "all"}], set(TAGGED)),
        ([{"tags": [], "match": "all_strict"}], {"a", "b", "ac"}),
    ],
)
def test_groups_of_tags(client: httpx.Client, groups: list[Any], names: set[str]) -> None:
    """ANDed; a leaf is strict unless it says otherwise."""
    assert found(client, tag_groups=groups) == names


@pytest.mark.parametrize(
    ("body", "status", "place"),
    [
        ({"query": ""}, 422, ["body", "query"]),
        ({"query": "?!"}, 422, ["body", "query"]),
        ({}, 422, ["body", "query"]),
        ({"query": "q", "budget": "huge"}, 422, ["body", "budget"]),
        ({"query": "q", "tags": ["a"], "tags_match": "some"}, 422, ["body", "tags_match"]),
        ({"query": "q", "tags": ["a"], "tag_groups": []}, 422, ["body"]),
        ({"query": "q", "tag_groups": [{"xor": []}]}, 422, ["body", "tag_groups", 0, "TagGroupLeaf", "tags"]),
        ({"query": "q", "types": ["opinion", "belief"]}, 422, None),
        ({"query": "q", "query_timestamp": "last week"}, 400, None),
        ({"query": "q"}, 404, None),
    ],
)
def test_a_wrong_recall_is_refused(client: httpx.Client, body: dict[str, Any], status: int, place: list[Any] | None) -> None:
    """A list with the place for what was checked, a text for the rest; an unknown bank comes last."""
    answer = client.post(f"{MEMORIES}/recall", json=body)
    assert answer.status_code == status
    detail = answer.json()["detail"]
    assert (detail[0]["loc"] if place else type(detail)) == (place or str)


def test_reflect_lists_what_was_found(client: httpx.Client) -> None:
    """With evidence where asked; nothing found is a 200; the bank is made."""
    assert client.post(f"{B}/reflect", json={"query": "tea"}).json()["text"] == "Nothing is recorded about that."
    retain(client, "Ana likes tea.", document_id="d")
    schema = {"type": "object", "properties": {"drink": {"type": "string"}, "all": {"type": "array"}, "n": {"type": "integer"}}}
    answer = client.post(f"{B}/reflect", json={"query": "tea", "include": {"facts": {}}, "response_schema": schema}).json()
    assert answer["text"] == "- Ana likes tea."
    assert [each["document_id"] for each in answer["based_on"]["memories"]] == ["d"]
    assert answer["structured_output"] == {"drink": "Ana likes tea.", "all": ["Ana likes tea."], "n": 0}
    assert client.post(f"{B}/reflect", json={"query": " "}).status_code == 422
    assert client.post(f"{B}/reflect", json={"query": "q", "response_schema": {"type": "string"}}).status_code == 422


def test_lists_are_paged_and_filtered(client: httpx.Client) -> None:
    """Newest first; the total is that of the filter."""
    for day in (1, 2, 3):
        retain(client, f"Tea on day {day}.", document_id=f"d{day}", timestamp=f"2026-03-0{day}T00:00:00Z", tags=[f"t{day}"])
    page = client.get(f"{MEMORIES}/list", params={"type": "world", "limit": 2, "offset": 1}).json()
    assert ([each["document_id"] for each in page["items"]], page["total"]) == (["d2", "d1"], 3)
    assert client.get(f"{MEMORIES}/list", params={"q": "DAY 2", "type": "world"}).json()["total"] == 1
    assert client.get(f"{MEMORIES}/list", params={"tags": "t1", "tags_match": "all_strict"}).json()["total"] == 2
    assert client.get(f"{B}/documents", params={"tags": ["t1", "t2"]}).json()["total"] == 2
    assert client.get(f"{B}/documents", params={"q": "D3"}).json()["items"][0]["matched_fields"] == ["id"]
    assert client.get(f"{B}/tags", params={"q": "T1*"}).json()["items"] == [{"tag": "t1", "count": 2}]
    assert client.get(f"{B}/operations", params={"limit": 0}).status_code == 422
    assert client.get(f"{MEMORIES}/list", params={"state": "foo"}).status_code == 400


def test_entities_are_counted(client: httpx.Client) -> None:
    """And shown one by one."""
    retain(client, "Ana likes tea. Ana met Bob.", entities=[{"text": "Tea Leaf"}])
    listed = client.get(f"{B}/entities").json()
    assert {each["canonical_name"]: each["mention_count"] for each in listed["items"]} == {"Tea Leaf": 2, "Ana": 2, "Bob": 1}
    assert client.get(f"{B}/entities/{listed['items'][0]['id']}").json()["observations"] == []
    assert client.get(f"{B}/entities/{NOWHERE}").status_code == 404


def test_an_observation_shows_its_sources(client: httpx.Client) -> None:
    """The same statement twice is one observation."""
    for name in ("d1", "d2"):
        retain(client, "Ana likes tea.", document_id=name)
    (observation,) = client.get(f"{MEMORIES}/list", params={"type": "observation"}).json()["items"]
    shown = client.get(f"{MEMORIES}/{observation['id']}").json()
    assert len(shown["source_memory_ids"]) == 2
    client.delete(f"{B}/documents/d1")
    assert len(client.get(f"{MEMORIES}/{observation['id']}").json()["source_memories"]) == 1


def test_a_mental_model_is_written_by_its_operation(server: FaultServer, client: httpx.Client) -> None:
    """Empty until then; the list tells no content unless asked; the earlier content is kept."""
    retain(client, "Ana likes tea.", tags=["t"])
    retain(client, "Bob likes tea.")
    server.hold_operations()
    body = {"id": "mm", "name": "Tea", "source_query": "Who likes tea?", "tags": ["t"]}
    told = client.post(f"{B}/mental-models", json=body).json()
    path = f"{B}/mental-models/mm"
    assert client.get(path).json()["content"] == ""
    server.release_operations()
    assert client.get(f"{B}/operations/{told['operation_id']}").json()["details"]["outcome"] == "content_written"
    assert client.get(path).json()["content"] == "## Summary\n\n- Ana likes tea.\n"
    assert client.get(f"{B}/mental-models").json()["items"][0]["content"] is None
    assert client.get(f"{B}/mental-models", params={"detail": "content"}).json()["items"][0]["content"] is not None
    retain(client, "Eve likes tea.", tags=["t"])
    assert client.get(path).json()["is_stale"] is True
    assert client.post(f"{path}/refresh").json()["status"] == "queued"
    assert "Eve" in client.get(path).json()["content"]
    assert [each["previous_content"] for each in client.get(f"{path}/history").json()] == ["## Summary\n\n- Ana likes tea.\n", ""]


def test_mental_models_are_changed_and_deleted(client: httpx.Client) -> None:
    """An id that exists is a 409, an empty change and an unknown id are 404."""
    body = {"id": "mm", "name": "n", "source_query": "q"}
    client.post(f"{B}/mental-models", json=body)
    path = f"{B}/mental-models/mm"
    assert client.post(f"{B}/mental-models", json=body).status_code == 409
    assert client.post(f"{B}/mental-models", json={**body, "max_tokens": 10}).status_code == 422
    changed = client.patch(path, json={"name": "m", "trigger": {"mode": "delta"}}).json()
    assert (changed["name"], changed["trigger"]["mode"], changed["source_query"]) == ("m", "delta", "q")
    assert client.patch(path, json={}).status_code == 404
    assert client.get(f"{B}/mental-models", params={"tags_match": "all_strict"}).status_code == 422
    assert client.delete(path).json() == {"status": "deleted"}
    assert client.get(path).status_code == client.delete(path).status_code == client.post(f"{path}/refresh").status_code == 404


def test_a_mental_model_can_follow_consolidation(client: httpx.Client) -> None:
    """New facts write it anew."""
    body = {"id": "mm", "name": "n", "source_query": "tea", "trigger": {"refresh_after_consolidation": True}}
    client.post(f"{B}/mental-models", json=body)
    retain(client, "Ana likes tea.")
    assert client.get(f"{B}/mental-models/mm").json()["content"] == "## Summary\n\n- Ana likes tea.\n"


def test_directives_are_kept_and_used(client: httpx.Client) -> None:
    """Inactive ones are listed on request only."""
    made = client.post(f"{B}/directives", json={"name": "tone", "content": "Be kind."}).json()
    path = f"{B}/directives/{made['id']}"
    reflected = client.post(f"{B}/reflect", json={"query": "tea", "include": {"facts": {}}}).json()
    assert reflected["based_on"]["directives"] == [{"id": made["id"], "name": "tone", "content": "Be kind."}]
    assert client.patch(path, json={"is_active": False}).json()["is_active"] is False
    assert client.get(f"{B}/directives").json()["total"] == 0
    assert client.get(f"{B}/directives", params={"active_only": "false"}).json()["total"] == 1
    assert client.delete(path).json() == {"status": "deleted"}
    assert client.get(path).status_code == 404


def test_a_bank_is_made_merged_configured_and_deleted(client: httpx.Client) -> None:
    """Named fields change, others stay."""
    client.put(B, json={"name": "N", "reflect_mission": "Be brief.", "disposition_skepticism": 4})
    merged = client.put(B, json={"retain_mission": "Keep places."}).json()
    assert (merged["name"], merged["mission"], merged["disposition"]["skepticism"]) == ("N", "Be brief.", 4)
    assert client.get(f"{B}/config").json()["overrides"]["retain_mission"] == "Keep places."
    assert client.patch(f"{B}/config", json={"updates": {"disposition_empathy": 5}}).json()["config"]["disposition_empathy"] == 5
    assert client.patch(f"{B}/config", json={"updates": {"no_such_field": 1}}).status_code == 400
    assert client.patch(f"{B}/config", json={"updates": {"llm_api_key": "x"}}).status_code == 400
    assert client.put(B, json={"disposition_skepticism": 9}).status_code == 422
    listed = client.get("/v1/default/banks", params={"q": "tes"}).json()
    assert [(each["bank_id"], each["fact_count"]) for each in listed["banks"]] == [("test", 0)]
    assert client.delete(f"{B}/config").json()["overrides"] == {}
    assert client.get(f"{B}/profile").status_code == 410
    assert client.delete(B).json()["success"] is True
    assert client.get(f"{B}/stats").json() == {"detail": "Bank 'test' not found"}


@pytest.mark.parametrize(
    "path", ["stats", "config", "documents", "memories/list", "operations", "tags", "entities", "mental-models", "directives"]
)
def test_reads_of_an_unknown_bank_are_404(server: FaultServer, client: httpx.Client, path: str) -> None:
    """And make none."""
    answer = client.get(f"{B}/{path}")
    assert (answer.status_code, answer.json()) == (404, {"detail": "Bank 'test' not found"})
    assert client.get("/v1/default/banks").json()["total"] == 0


def test_deleting_from_an_unknown_bank(client: httpx.Client) -> None:
    """Is fine for the bank and its memories, and a 404 for a document."""
    assert client.delete(B).json()["deleted_count"] == client.delete(MEMORIES).json()["deleted_count"] == 0
    assert client.delete(f"{B}/documents/x").json() == {"detail": "Document not found"}
    assert client.get(f"{MEMORIES}/{NOWHERE}").json() == {"detail": f"Memory unit '{NOWHERE}' not found"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/health/live", 200),
        ("GET", "/v1/default/nothing", 404),
        ("POST", "/health", 405),
        ("GET", B, 405),
        ("PUT", f"/v1/default/banks/{'z' * 193}", 400),
        ("PUT", "/v1/default/banks/a%01b", 400),
        ("GET", "/v1/default/banks/a%2Fb/stats", 404),
        ("GET", f"{B}/webhooks", 501),
        ("GET", f"{B}/documents/d/history", 501),
    ],
)
def test_other_paths(client: httpx.Client, method: str, path: str, status: int) -> None:
    """Unknown, not allowed, or not in the small one (501: a test should not pass by accident)."""
    assert client.request(method, path, json={} if method == "PUT" else None).status_code == status


def test_stats_count(client: httpx.Client) -> None:
    """Facts by type, documents, operations by status."""
    retain(client, "Ana likes tea. Assistant: Noted.")
    stats = client.get(f"{B}/stats", params={"refresh": "true"}).json()
    assert stats["nodes_by_fact_type"] == {"world": 1, "experience": 1, "observation": 2}
    assert (stats["total_documents"], stats["operations_by_status"]) == (1, {"completed": 1})
