"""Exchanges about the server, banks, retaining, operations and directives."""

from __future__ import annotations

from recorder import Client, Json, item, items

OWN_OPERATION = "0b5f3c1e-1111-4222-8333-944455566677"


def server(root: Client) -> str:
    """The server itself; gives its version."""
    root.take("server/health", "GET /health")
    root.take("server/health-ready", "GET /health/ready")
    root.take("server/health-live", "GET /health/live")
    version: str = root.take("server/version", "GET /version")["api_version"]
    return version


def banks(root: Client, b: Client) -> None:
    """Making and configuring a bank."""
    b.send("DELETE")
    missions = {
        "reflect_mission": "Answer briefly.",
        "retain_mission": "Keep preferences and places.",
        "observations_mission": "Keep one observation per statement.",
        "disposition_skepticism": 4,
    }
    b.take("banks/create", "PUT", missions)
    note = "PUT on an existing bank changes the fields it names and keeps the others."
    b.take("banks/create-again-merges", "PUT", {"reflect_mission": "Answer in one line."}, note=note)
    b.take("banks/update", "PATCH", {"reflect_mission": "Answer briefly."})
    b.take("banks/config-get", "GET /config")
    b.take("banks/config-patch", "PATCH /config", {"updates": {"disposition_empathy": 5}})
    root.take("banks/list", "GET /v1/default/banks", query={"q": "x-tea"})
    b.take("banks/profile-gone", "GET /profile", expect=410)


def retain(b: Client) -> None:
    """Retaining while the caller waits."""
    m = "POST /memories"
    content = "Team Blue prefers green tea. Team Blue works in Hall 4. On 2026-03-04 Team Blue moved to Hall 4."
    first: Json = {"content": content, "context": "weekly notes", "document_id": "notes-1", "tags": ["team:blue"]}
    first |= {"metadata": {"source": "notes"}, "timestamp": "2026-03-05T09:00:00Z"}
    b.take("retain/sync", m, items(first))
    note = "Unchanged content under the same document_id: no model call (usage is all zero), no new fact."
    b.take("retain/sync-same-document-again", m, items(first), note=note)
    leaf = {"text": "Tea Leaf", "type": "CONCEPT"}
    batch = items(
        item("Team Red prefers black tea.", "notes-2", tags=["team:red"]),
        item("Assistant: I ordered tea for Team Blue.", "notes-3", tags=["team:blue", "kind:action"]),
        item("The tea room closes at 18:00.", "notes-4"),
        item("Tea is made of leaves.", "notes-5", timestamp="unset", tags=["kind:static"], entities=[leaf]),
    )
    b.take("retain/batch", m, batch)
    b.quiet()
    more = items(item("Team Red has a kettle.", "notes-2", update_mode="append", tags=["team:red"]))
    b.take("retain/append", m, more, note="The new text is joined to the stored one with a newline.")
    b.quiet()
    b.take("retain/append-result", "GET /documents/notes-2")
    untagged = items(item("Team Red has two cups.", "notes-2", update_mode="append"))
    note = "An append without tags clears the document's tags (see the next exchange)."
    b.take("retain/append-without-tags", m, untagged, note=note)
    b.quiet()
    b.take("retain/append-without-tags-result", "GET /documents/notes-2")
    b.take("retain/replace", m, items(item("Team Red prefers black tea. Team Red has a kettle.", "notes-2", tags=["team:red"])))
    b.quiet()


def retain_later(b: Client, other: Client) -> None:
    """Retaining as an operation that a worker carries out."""
    m = "POST /memories"
    later = items(item("Team Green prefers water.", "notes-6", tags=["team:green"]), **{"async": True})
    operation = b.take("retain/async", m, later)["operation_id"]
    b.take("operations/pending", f"GET /operations/{operation}")
    b.finished(operation)
    b.take("operations/completed", f"GET /operations/{operation}")
    b.send(f"DELETE /operations/{OWN_OPERATION}/delete")
    own = items(item("Team Grey drinks milk.", "notes-7"), **{"async": True, "operation_id": OWN_OPERATION})
    b.take("retain/async-own-operation-id", m, own)
    note = "Same operation_id in the same bank: the first operation is returned, nothing is queued (whatever the items)."
    b.take("retain/async-own-operation-id-again", m, own, note=note)
    twice = items(
        item("Team Grey has a cup.", "notes-7", update_mode="append"),
        item("Team Grey has a spoon.", "notes-7", update_mode="append"),
        **{"async": True},
    )
    note = "An async batch names each document once; the whole batch is refused, nothing of it is stored."
    b.take("retain/async-duplicate-documents", m, twice, note=note, expect=400)
    other.send("PUT", {})
    other.take("errors/operation-id-of-another-bank", m, own, expect=409)
    other.send("DELETE")
    b.quiet()
    blocks = item([{"type": "text", "text": "Team Blue has a plant."}], "notes-8", tags=["team:blue"])
    b.take("retain/content-blocks", m, items(blocks))
    note = "A document with no fact is stored all the same (memory_unit_count 0)."
    b.take("retain/no-facts", m, items(item("[no-facts] hm.", "notes-9")), note=note)
    b.quiet()


def operations(b: Client) -> None:
    """Looking at operations."""
    b.take("operations/list", "GET /operations", query={"limit": 3})
    b.take("operations/list-filtered", "GET /operations", query={"type": "retain", "status": "completed", "limit": 2})
    note = "An unknown id is a 200 with status 'not_found', not a 404."
    b.take("operations/unknown", "GET /operations/00000000-0000-0000-0000-000000000000", note=note)


def directives(b: Client) -> None:
    """Directives, and a reflect that obeys one."""
    tone = {"name": "tone", "content": "Always answer politely.", "priority": 5, "tags": ["team:blue"]}
    made = b.take("directives/create", "POST /directives", tone)["id"]
    b.take("directives/list", "GET /directives")
    b.take("directives/get", f"GET /directives/{made}")
    asked = {"query": "What does Team Blue prefer?", "tags": ["team:blue"], "include": {"facts": {}}}
    b.take("reflect/with-directive", "POST /reflect", asked)
    b.take("directives/update", f"PATCH /directives/{made}", {"is_active": False})
    b.take("directives/delete", f"DELETE /directives/{made}")


def webhooks(b: Client) -> None:
    """Webhooks; none is delivered."""
    events = ["retain.completed", "consolidation.completed"]
    hook = {"url": "http://127.0.0.1:9/hook", "secret": "not-a-secret", "event_types": events, "enabled": False}
    made = b.take("webhooks/create", "POST /webhooks", hook, expect=201)["id"]
    b.take("webhooks/list", "GET /webhooks")
    b.take("webhooks/update", f"PATCH /webhooks/{made}", {"event_types": ["retain.completed"]})
    b.take("webhooks/deliveries", f"GET /webhooks/{made}/deliveries")
    b.take("webhooks/delete", f"DELETE /webhooks/{made}")
    b.take("errors/webhook-private-address", "POST /webhooks", {"url": "http://10.0.0.1/hook"}, expect=400)
