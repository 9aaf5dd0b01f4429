"""The small Hindsight: which request reaches which verb, and how refusals and ignored fields look."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from lorebank._faults import banks, directives, documents, memories, mental_models, naming, operations, recalling, retaining
from lorebank._faults.call import Call
from lorebank._faults.checks import Checks
from lorebank._faults.state import Banks
from lorebank._faults.wire import Answer, RefusalError, Request, as_json

__all__ = ["Hindsight"]

Verb = Callable[[Banks, Call], Any]
BANKS = "/v1/default/banks"


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, the verb behind it, and the names it knows. `body` None: it reads none."""

    method: str
    pattern: re.Pattern[str]
    verb: Verb
    query: frozenset[str]
    body: frozenset[str] | None
    optional: bool


def _route(method: str, path: str, verb: Verb, *, query: str = "", body: str | None = None, optional: bool = False) -> Route:
    """`{bank}` and `{id}` are one segment, `{id*}` may hold slashes."""
    pattern = re.escape(path).replace(r"\{bank\}", "(?P<bank>[^/]+)")
    pattern = pattern.replace(r"\{id\}", "(?P<id>[^/]+)").replace(r"\{id\*\}", "(?P<id>.+)")
    names = None if body is None else frozenset(body.split())
    return Route(method, re.compile(pattern, re.DOTALL), verb, frozenset(query.split()), names, optional)


B = f"{BANKS}/{{bank}}"
TAGGED = "tags tags_match limit offset"
RETAIN = "items async operation_id document_tags"
RECALL = (
    "query types prefer_observations budget max_tokens trace query_timestamp include tags tags_match tag_groups min_scores"
    " temporal_window"
)
REFLECT = (
    "reflect_search_observations_max_tokens reflect_search_observations_include_entities query budget context max_tokens include"
    " response_schema tags tags_match tag_groups apply_all_directives fact_types exclude_mental_models exclude_mental_model_ids"
)
MEMORY = "text context occurred_start occurred_end mentioned_at fact_type entities resolve_entities state reason"
LISTING = "type q document_id entity_id state tags tags_match time_field end_date limit offset"
ROUTES = (
    _route("GET", "/health", banks.health),
    _route("GET", "/health/ready", banks.health),
    _route("GET", "/health/live", banks.live),
    _route("GET", "/version", banks.version),
    _route("GET", BANKS, banks.list_, query="q limit offset"),
    _route("PUT", B, banks.create, body=banks.BANK_FIELDS),
    _route("PATCH", B, banks.update, body=banks.BANK_FIELDS),
    _route("DELETE", B, banks.delete),
    _route("GET", f"{B}/profile", banks.profile),
    _route("PUT", f"{B}/profile", banks.profile, body="", optional=True),
    _route("GET", f"{B}/config", banks.show_config),
    _route("PATCH", f"{B}/config", banks.change_config, body="updates"),
    _route("DELETE", f"{B}/config", banks.reset_config),
    _route("GET", f"{B}/stats", banks.stats, query="refresh"),
    _route("POST", f"{B}/consolidate", banks.consolidate, body="", optional=True),
    _route("POST", f"{B}/memories", retaining.retain, body=RETAIN),
    _route("DELETE", f"{B}/memories", memories.clear, query="type"),
    _route("POST", f"{B}/memories/recall", recalling.recall, body=RECALL),
    _route("GET", f"{B}/memories/list", memories.list_, query=LISTING),
    _route("GET", f"{B}/memories/{{id}}", memories.get),
    _route("PATCH", f"{B}/memories/{{id}}", memories.change, body=MEMORY),
    _route("POST", f"{B}/reflect", recalling.reflect, body=REFLECT),
    _route("GET", f"{B}/documents", documents.list_, query=f"q {TAGGED}"),
    _route("GET", f"{B}/documents/{{id*}}/chunks", documents.list_chunks, query="limit offset"),
    _route("GET", f"{B}/documents/{{id*}}", documents.get),
    _route("PATCH", f"{B}/documents/{{id*}}", documents.change, body="tags observation_scopes"),
    _route("DELETE", f"{B}/documents/{{id*}}", documents.delete),
    _route("GET", f"{B}/operations", operations.list_, query="status type limit offset exclude_parents"),
    _route("GET", f"{B}/operations/{{id}}", operations.get, query="include_payload"),
    _route("DELETE", f"{B}/operations/{{id}}", operations.cancel),
    _route("POST", f"{B}/operations/{{id}}/retry", operations.retry, body="", optional=True),
    _route("DELETE", f"{B}/operations/{{id}}/delete", operations.delete),
    _route("GET", f"{B}/tags", memories.list_tags, query="q limit offset"),
    _route("GET", f"{B}/entities", naming.list_entities, query="limit offset"),
    _route("GET", f"{B}/entities/graph", naming.graph, query="limit min_count"),
    _route("GET", f"{B}/entities/{{id}}", naming.get_entity),
    _route("GET", f"{B}/mental-models", mental_models.list_, query=f"detail {TAGGED}"),
    _route("POST", f"{B}/mental-models", mental_models.create, body=mental_models.CREATE),
    _route("GET", f"{B}/mental-models/{{id}}", mental_models.get, query="detail"),
    _route("PATCH", f"{B}/mental-models/{{id}}", mental_models.change, body=mental_models.UPDATE),
    _route("DELETE", f"{B}/mental-models/{{id}}", mental_models.delete),
    _route("GET", f"{B}/mental-models/{{id}}/history", mental_models.history),
    _route("POST", f"{B}/mental-models/{{id}}/refresh", mental_models.refresh, body="mode", optional=True),
    _route("GET", f"{B}/directives", directives.list_, query=f"active_only {TAGGED}"),
    _route("POST", f"{B}/directives", directives.create, body=directives.FIELDS),
    _route("GET", f"{B}/directives/{{id}}", directives.get),
    _route("PATCH", f"{B}/directives/{{id}}", directives.change, body=directives.FIELDS),
    _route("DELETE", f"{B}/directives/{{id}}", directives.delete),
)
WHOLE = "webhooks|aliases|import|export|clone|files|transfer|document-transfer|knowledge-base|audit-logs|llm-requests|graph"
PARTS = "documents/.+/(history|reprocess)|memories/[^/]+/(history|observations)|mental-models/[^/]+/(clear|dry-run-refresh)"
ABSENT = re.compile(rf"{BANKS}/[^/]+/(({WHOLE}|observations|consolidation)(/.*)?|{PARTS}|memories/dry-run-extract)", re.DOTALL)


class Hindsight(Banks):
    """Answers requests from memory, one at a time."""

    def answer(self, request: Request) -> Answer:
        """The JSON that Hindsight 1.1.0 would give; 501 for what is not in the small one."""
        try:
            route, call = _called(request)
        except RefusalError as refusal:
            return as_json({"detail": refusal.detail}, refusal.status, refusal.headers)
        ignored = _ignored(route, request, call)
        headers = {"x-ignored-params": ", ".join(ignored)} if ignored else {}
        try:
            with self.lock:
                return as_json(route.verb(self, call), headers=headers)
        except RefusalError as refusal:
            return as_json({"detail": refusal.detail}, refusal.status, headers)

    def hold(self) -> None:
        """Operations stay pending."""
        with self.lock:
            self.held = True

    def release(self) -> None:
        """What is pending runs."""
        with self.lock:
            self.held = False
            operations.run_held(self)


def _called(request: Request) -> tuple[Route, Call]:
    path = unquote(request.path)
    if ABSENT.fullmatch(path):
        raise RefusalError(501, f"The small Hindsight of the fault server has no {request.method} {path}")
    here = [(route, match) for route in ROUTES if (match := route.pattern.fullmatch(path))]
    for route, match in here:
        if route.method == request.method:
            names = match.groupdict()
            return route, Call(names.get("bank", ""), names.get("id", ""), request.query, _body(route, request))
    if not here:
        raise RefusalError(404, "Not Found")
    raise RefusalError(405, "Method Not Allowed", {"allow": here[0][0].method})


def _body(route: Route, request: Request) -> Mapping[str, Any]:
    if route.body is None or (route.optional and not request.body):
        return {}
    checks = Checks()
    if not request.body:
        checks.complain("missing", ("body",), "Field required", None)
    body = checks.mapping(_parsed(checks, request.body or b"{}"), ("body",))
    checks.done()
    return body


def _parsed(checks: Checks, body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        place, problem = (error.pos, error.msg) if isinstance(error, json.JSONDecodeError) else (0, str(error))
        checks.complain("json_invalid", ("body", place), "JSON decode error", {}, error=problem)
        return {}


def _ignored(route: Route, request: Request, call: Call) -> list[str]:
    unknown = [name for name in request.query if name not in route.query]
    known = route.body
    return unknown if known is None else unknown + [name for name in call.body if name not in known]
