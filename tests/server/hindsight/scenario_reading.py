"""Exchanges about recall, reflect, mental models, memories and documents."""

from __future__ import annotations

import time

from recorder import Client, item, items

WHO = "Who prefers tea?"
WHAT = "What does Team Blue prefer?"
PLAIN = {"entities": None}  # entities are on by default
FACTS = ["world", "experience"]


def recall(b: Client) -> None:
    """What comes with a recall, and how it is bounded."""
    r = "POST /memories/recall"
    b.take("recall/plain", r, {"query": WHO})
    b.take("recall/types-and-budget", r, {"query": WHO, "types": FACTS, "budget": "low", "max_tokens": 256})
    everything = {"entities": {"max_tokens": 500}, "chunks": {"max_tokens": 1000}, "source_facts": {"max_tokens": 1000}}
    b.take("recall/include-everything", r, {"query": WHO, "include": everything})
    b.take("recall/include-nothing", r, {"query": WHO, "types": ["world"], "include": PLAIN})
    sources = {"query": WHO, "types": ["observation"], "include": {"entities": None, "source_facts": {}}}
    b.take("recall/observations-with-sources", r, sources)
    b.take("recall/prefer-observations", r, {"query": WHO, "prefer_observations": True, "include": PLAIN})


def recall_filtered(b: Client) -> None:
    """Tags, times and scores."""
    r = "POST /memories/recall"
    tagged = {"query": WHO, "types": FACTS, "tags": ["team:blue"]}
    for mode in ("any", "all", "any_strict", "all_strict", "exact"):
        b.take(f"recall/tags-{mode.replace('_', '-')}", r, tagged | {"tags_match": mode, "include": PLAIN})
    note = "No tags with any mode but 'exact' means no filter at all: every memory of the bank can come back."
    world = {"query": WHO, "types": ["world"]}
    untagged = world | {"tags": [], "tags_match": "all_strict", "include": PLAIN}
    b.take("recall/tags-empty-strict-is-unfiltered", r, untagged, note=note)
    either = {"or": [{"tags": ["team:blue"], "match": "all_strict"}, {"tags": ["team:red"]}]}
    groups = [either, {"not": {"tags": ["kind:action"]}}]
    b.take("recall/tag-groups", r, {"query": WHO, "types": FACTS, "include": PLAIN, "tag_groups": groups})
    happened = {"query": "What happened yesterday?", "types": ["world"], "query_timestamp": "2026-03-05T12:00:00"}
    b.take("recall/query-timestamp", r, happened | {"include": PLAIN})
    march = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-31T00:00:00Z"}
    window = {"query": "What happened?", "types": ["world"], "include": PLAIN, "temporal_window": march}
    b.take("recall/temporal-window", r, window, note="Ranks, does not filter.")
    b.take("recall/min-scores", r, world | {"min_scores": {"final": 0.5}, "include": PLAIN})
    note = "Unknown fields are ignored and named in the x-ignored-params response header."
    b.take("recall/unknown-field", r, world | {"max_token": 5, "include": PLAIN}, note=note)


def reflect(b: Client) -> None:
    """Answers as text and as data."""
    f = "POST /reflect"
    b.take("reflect/plain", f, {"query": WHAT})
    bounds = {"budget": "mid", "max_tokens": 512, "tags": ["team:blue"], "tags_match": "any_strict"}
    traced = {"query": WHAT, **bounds, "include": {"facts": {}, "tool_calls": {}}}
    b.take("reflect/with-facts-and-trace", f, traced)
    properties = {"drink": {"type": "string"}, "places": {"type": "array", "items": {"type": "string"}}}
    schema = {"type": "object", "properties": properties, "required": ["drink"]}
    b.take("reflect/structured", f, {"query": WHAT, "response_schema": schema})


def mental_models(b: Client) -> None:
    """One mental model from its making to its end."""
    mm, one = "/mental-models", "/mental-models/team-blue"
    about = "What is known about Team Blue?"
    model = {"id": "team-blue", "name": "Team Blue", "source_query": about, "tags": ["team:blue"], "max_tokens": 1024}
    trigger = {"mode": "delta", "refresh_after_consolidation": True}
    created = b.take("mental-models/create", f"POST {mm}", model | {"trigger": trigger})["operation_id"]
    note = "content is '' until the first refresh is done."
    b.take("mental-models/get-before-first-refresh", f"GET {one}", note=note)
    b.finished(created)
    b.take("mental-models/operation", f"GET /operations/{created}")
    b.take("mental-models/get", f"GET {one}")
    b.take("mental-models/get-content", f"GET {one}", query={"detail": "content"})
    note = "The default detail is 'metadata': content and source_query are null."
    b.take("mental-models/list", f"GET {mm}", note=note)
    tagged = {"detail": "content", "tags": "team:blue", "tags_match": "exact"}
    b.take("mental-models/list-content", f"GET {mm}", query=tagged)
    b.send("POST /memories", items(item("Team Blue plays chess.", "notes-10", tags=["team:blue"])))
    b.quiet()
    time.sleep(1)
    b.quiet()
    b.take("mental-models/get-after-automatic-refresh", f"GET {one}", query={"detail": "content"})
    b.finished(b.take("mental-models/refresh", f"POST {one}/refresh")["operation_id"])
    b.finished(b.take("mental-models/refresh-full", f"POST {one}/refresh", {"mode": "full"})["operation_id"])
    b.take("mental-models/update", f"PATCH {one}", {"name": "The blue team"})
    b.take("mental-models/history", f"GET {one}/history")
    b.take("reflect/with-mental-model", "POST /reflect", {"query": about, "include": {"facts": {}}})
    b.take("errors/mental-model-exists", f"POST {mm}", {"id": "team-blue", "name": "n", "source_query": "q"}, expect=409)
    b.take("mental-models/delete", f"DELETE {one}")
    b.take("errors/mental-model-unknown", f"GET {one}", expect=404)


def memories(b: Client) -> None:
    """Listing, editing and invalidating memories."""
    m = "/memories"
    listed = b.take("memories/list", f"GET {m}/list", query={"type": "world", "limit": 3})
    narrow = {"tags": ["team:blue"], "tags_match": "all_strict", "document_id": "notes-1"}
    b.take("memories/list-filtered", f"GET {m}/list", query=narrow)
    unit = listed["items"][0]["id"]
    b.take("memories/get", f"GET {m}/{unit}")
    b.take("memories/edit", f"PATCH {m}/{unit}", {"text": "Team Blue plays chess on Mondays."})
    b.quiet()
    b.take("memories/invalidate", f"PATCH {m}/{unit}", {"state": "invalidated", "reason": "no longer true"})
    b.take("memories/list-invalidated", f"GET {m}/list", query={"state": "invalidated"})
    b.take("memories/revert", f"PATCH {m}/{unit}", {"state": "valid"})
    b.quiet()
    seen = b.send(f"GET {m}/list", query={"type": "observation", "limit": 1}).body["items"][0]["id"]
    b.take("memories/get-observation", f"GET {m}/{seen}")
    b.take("errors/edit-observation", f"PATCH {m}/{seen}", {"text": "x"}, expect=400)
    note = "There is no delete of one memory: invalidate it, or delete its document."
    b.take("errors/memory-delete-not-allowed", f"DELETE {m}/{unit}", expect=405, note=note)
    b.take("errors/memory-unknown", f"GET {m}/00000000-0000-0000-0000-000000000000", expect=404)
    b.take("errors/memory-id-not-a-uuid", f"GET {m}/nope", expect=400)


def documents(b: Client) -> None:
    """Documents, tags, entities and numbers."""
    b.take("documents/list", "GET /documents", query={"limit": 2})
    red = {"tags": "team:red", "tags_match": "any_strict", "q": "notes"}
    b.take("documents/list-filtered", "GET /documents", query=red)
    b.take("documents/get", "GET /documents/notes-1")
    b.take("documents/chunks", "GET /documents/notes-1/chunks")
    b.take("documents/history", "GET /documents/notes-2/history", query={"limit": 2})
    b.take("documents/update-tags", "PATCH /documents/notes-1", {"tags": ["team:blue", "kept"]})
    b.quiet()
    b.take("documents/delete", "DELETE /documents/notes-4")
    b.take("errors/document-unknown", "DELETE /documents/notes-4", expect=404)
    b.take("tags/list", "GET /tags")
    b.take("tags/list-wildcard", "GET /tags", query={"q": "team:*"})
    b.take("entities/list", "GET /entities", query={"limit": 2})
    b.take("banks/stats", "GET /stats", query={"refresh": "true"})
    b.take("banks/consolidate", "POST /consolidate")
    b.quiet()
