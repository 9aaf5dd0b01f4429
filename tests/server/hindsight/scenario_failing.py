"""Exchanges about refusals, failing models, keys, and the mode without a model."""

from __future__ import annotations

import time

from recorder import Client, item, items

WHO = "Who prefers tea?"
WHAT = "What does Team Blue prefer?"


def unknown(root: Client, nope: Client) -> None:
    """What is not there."""
    nope.send("DELETE")
    nope.take("errors/unknown-bank-recall", "POST /memories/recall", {"query": WHO}, expect=404)
    nope.take("errors/unknown-bank-list", "GET /memories/list", expect=404)
    nope.take("errors/unknown-bank-stats", "GET /stats", expect=404)
    nope.take("errors/unknown-bank-update", "PATCH", {"reflect_mission": "x"}, expect=404)
    nope.take("errors/unknown-bank-delete-is-200", "DELETE")
    root.take("errors/path-unknown", "GET /v1/default/nothing", expect=404)


def refused_reads(b: Client) -> None:
    """Recalls and reflects that the server can't read."""
    r, f = "POST /memories/recall", "POST /reflect"
    b.take("errors/bad-tags-match", r, {"query": WHO, "tags": ["a"], "tags_match": "some"}, expect=422)
    b.take("errors/bad-budget", r, {"query": WHO, "budget": "huge"}, expect=422)
    note = "detail is a string here, not a list."
    b.take("errors/bad-fact-type", r, {"query": WHO, "types": ["opinion", "belief"]}, expect=422, note=note)
    b.take("errors/empty-query", r, {"query": ""}, expect=422)
    b.take("errors/punctuation-query", r, {"query": "?!"}, expect=422)
    b.take("errors/missing-query", r, {}, expect=422)
    b.take("errors/not-json", r, raw=b"{not json", expect=422)
    b.take("errors/bad-query-timestamp", r, {"query": WHO, "query_timestamp": "last week"}, expect=400)
    b.take("errors/tags-and-tag-groups", r, {"query": WHO, "tags": ["a"], "tag_groups": [{"tags": ["b"]}]}, expect=422)
    b.take("errors/bad-tag-group", r, {"query": WHO, "tag_groups": [{"xor": []}]}, expect=422)
    b.take("errors/reflect-empty-query", f, {"query": " "}, expect=422)
    b.take("errors/reflect-bad-schema", f, {"query": WHO, "response_schema": {"type": "string"}}, expect=422)


def refused_writes(root: Client, b: Client) -> None:
    """Retains and settings that the server can't read."""
    m = "POST /memories"
    b.take("errors/retain-empty-content", m, items(item(" ")), expect=422)
    b.take("errors/retain-bad-update-mode", m, items(item("x", update_mode="merge")), expect=422)
    b.take("errors/retain-append-without-document", m, items(item("x", update_mode="append")), expect=400)
    b.take("errors/retain-bad-timestamp", m, items(item("x", timestamp="yesterday")), expect=422)
    b.take("errors/retain-metadata-not-text", m, items(item("x", metadata={"n": 1})), expect=422)
    bad_id = items(item("x"), **{"async": True, "operation_id": "one"})
    b.take("errors/retain-bad-operation-id", m, bad_id, expect=422)
    small = {"name": "n", "source_query": "q", "max_tokens": 10}
    b.take("errors/mental-model-bad-max-tokens", "POST /mental-models", small, expect=422)
    note = "Listing mental models and directives knows only any, all and exact."
    strict = {"tags": "a", "tags_match": "all_strict"}
    b.take("errors/mental-model-list-strict", "GET /mental-models", query=strict, expect=422, note=note)
    b.take("errors/config-unknown-field", "PATCH /config", {"updates": {"no_such_field": 1}}, expect=400)
    b.take("errors/config-credential-field", "PATCH /config", {"updates": {"llm_api_key": "x"}}, expect=400)
    root.bank("z" * 193).take("errors/bank-id-too-long", "PUT", {}, expect=400)
    b.take("errors/operation-id-not-a-uuid", "GET /operations/nope", expect=400)


def failing_content(b: Client) -> None:
    """The model fails on one text."""
    m = "POST /memories"
    b.take("errors/retain-model-fails", m, items(item("[llm-error] x.", "bad-1")), expect=500)
    failed = b.send(m, items(item("[llm-error] x.", "bad-2"), **{"async": True})).body["operation_id"]
    b.finished(failed)
    b.take("operations/failed", f"GET /operations/{failed}")
    b.take("errors/cancel-finished-operation", f"DELETE /operations/{failed}", expect=409)
    b.take("operations/retry", f"POST /operations/{failed}/retry")
    b.quiet()
    b.take("operations/delete", f"DELETE /operations/{failed}/delete")


def failing_batch(b: Client) -> None:
    """The model fails on one of two appends of one operation: each new try stores the other one again."""
    m = "POST /memories"
    b.send(m, items(item("Team Pink likes plums.", "notes-11"), item("Team Pink likes pears.", "notes-12")))
    appends = items(
        item("Team Pink has a bowl.", "notes-11", update_mode="append"),
        item("[llm-error] x.", "notes-12", update_mode="append"),
        **{"async": True},
    )
    operation = b.take("retain/async-partly-failing", m, appends)["operation_id"]
    b.finished(operation)
    note = "One child carries all items; the worker itself has tried twice."
    b.take("operations/partly-failed", f"GET /operations/{operation}", note=note)
    note = "The append that succeeded is there once for each try of the worker in which it came before the failure."
    b.take("operations/partly-failed-document", "GET /documents/notes-11", note=note)
    b.take("operations/partly-failed-other-document", "GET /documents/notes-12", note="The failed append left it as it was.")
    b.send(f"POST /operations/{operation}/retry")
    b.quiet()
    b.take("operations/partly-failed-retried", f"GET /operations/{operation}")
    note = "A retry of the operation repeats the append, again up to once for each try."
    b.take("operations/partly-failed-retried-document", "GET /documents/notes-11", note=note)
    b.quiet()


def failing_models(b: Client, stub: Client) -> None:
    """The models are slow, then down."""
    stub.send("POST /stub/behaviour", {"chat": {"delay_s": 2, "kind": "facts"}})
    slow = b.send("POST /memories", items(item("Slow one.", "slow"), **{"async": True})).body["operation_id"]
    note = "The parent is cancelled; a child that a worker had already claimed still runs to its end."
    b.take("operations/cancel", f"DELETE /operations/{slow}", note=note)
    stub.send("POST /stub/reset", {})
    time.sleep(2.5)
    b.quiet()
    stub.send("POST /stub/behaviour", {"chat": {"status": 503}})
    b.take("errors/reflect-model-down", "POST /reflect", {"query": WHAT}, expect=500)
    stub.send("POST /stub/behaviour", {"embeddings": {"status": 503}})
    b.take("errors/recall-embeddings-down", "POST /memories/recall", {"query": "What is quite new here?"}, expect=500)
    stub.send("POST /stub/reset", {})


def the_end(b: Client, auto: Client) -> None:
    """Clearing and deleting a bank, and what makes one by itself."""
    b.take("memories/clear-type", "DELETE /memories", query={"type": "experience"})
    b.take("memories/clear", "DELETE /memories")
    b.take("banks/delete", "DELETE")
    auto.send("DELETE")
    auto.take("retain/unknown-bank-is-created", "POST /memories", items(item("Team Blue prefers green tea.")))
    auto.quiet()
    auto.send("DELETE")
    auto.take("reflect/unknown-bank-is-created", "POST /reflect", {"query": "Anything?"})
    auto.send("DELETE")


def auth(root: Client, key: str) -> None:
    """A server that wants a key."""
    wrong = {"Authorization": "Bearer wrong"}
    root.take("auth/no-key", "GET /v1/default/banks", expect=401)
    root.take("auth/wrong-key", "GET /v1/default/banks", headers=wrong, expect=401)
    root.take("auth/right-key", "GET /v1/default/banks", headers={"Authorization": f"Bearer {key}"})
    root.take("auth/health-needs-no-key", "GET /health")
    root.take("auth/version-needs-no-key", "GET /version")
    root.bank("x-auth").take("auth/retain-wrong-key", "POST /memories", items(item("x")), headers=wrong, expect=401)


def no_llm(root: Client) -> None:
    """A server without a model."""
    b = root.bank("x-plain")
    b.send("DELETE")
    root.take("no-llm/version", "GET /version")
    b.send("PUT", {})
    content = "Team Blue prefers green tea. Team Blue works in Hall 4."
    b.take("no-llm/retain", "POST /memories", items(item(content, "notes-1", tags=["team:blue"])))
    note = "One memory per chunk, type world, text as given; no entities, no observations."
    b.take("no-llm/recall", "POST /memories/recall", {"query": WHAT}, note=note)
    b.take("no-llm/reflect", "POST /reflect", {"query": WHAT}, expect=400)
    b.take("no-llm/mental-model", "POST /mental-models", {"name": "n", "source_query": "q"}, expect=500)
    b.take("no-llm/memories-list", "GET /memories/list")
    b.send("DELETE")
