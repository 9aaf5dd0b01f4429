"""The wire models against what the running server says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest
from hindsight_server import Hindsight

from lorebank._domain.item import Item
from lorebank._domain.memory import count_tokens
from lorebank._domain.mental_model import MentalModel
from lorebank._domain.requests import RecallRequest, ReflectRequest
from lorebank._domain.scope import Leaf, scope_by_tag
from lorebank._domain.settings import RetainSettings
from lorebank._hindsight import answers, naming
from lorebank._hindsight.asking import model_body, recall_body, reflect_body
from lorebank._hindsight.wire import item_body

NOW = datetime(2026, 3, 4, tzinfo=UTC)
SCOPE = scope_by_tag("b", "per-project-tagged", "x")
Schema = dict[str, Any]

ANSWERS: dict[str, type[answers.Answer]] = {
    "RecallResponse": answers.Recall,
    "RecallResult": answers.Unit,
    "MemoryUnitListItem": answers.Unit,
    "ListMemoryUnitsResponse": answers.Units,
    "ReflectResponse": answers.Reflect,
    "RetainResponse": answers.Retained,
    "OperationStatusResponse": answers.Work,
    "OperationsListResponse": answers.Works,
    "DocumentResponse": answers.Paper,
    "ListDocumentsResponse": answers.Papers,
    "DirectiveResponse": answers.Standing,
    "DirectiveListResponse": answers.Standings,
    "ListTagsResponse": answers.TagCounts,
    "MentalModelResponse": answers.Curated,
    "MentalModelListResponse": answers.Curation,
    "BankStatsResponse": answers.Counts,
    "BankConfigResponse": answers.Config,
    "BankListResponse": answers.Banks,
    "VersionResponse": answers.Version,
    "EntityListItem": naming.Named,
    "EntityListResponse": naming.Names,
    "EntityGraphEdgeData": naming.Pair,
    "EntityGraphEdge": naming.Edge,
    "EntityGraphResponse": naming.Graph,
}

UNPROMISED = ("operation_id", "type", "text")
"""Optional on paper: an asynchronous retain always names its operation, and no memory was seen without type and text."""


@pytest.fixture(scope="module")
def schemas(hindsight: Hindsight) -> Schema:
    return cast("Schema", httpx.get(f"{hindsight.url}/openapi.json", timeout=30).json()["components"]["schemas"])


def names(model: type[answers.Answer]) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Each field of a model: its own name, its names on the wire, whether it must be there."""
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        wire = tuple(map(str, getattr(alias, "choices", ()))) or (name,)
        yield name, wire, field.is_required()


@pytest.mark.parametrize(("schema", "model"), ANSWERS.items(), ids=ANSWERS)
def test_what_we_need_is_promised(schemas: Schema, schema: str, model: type[answers.Answer]) -> None:
    """A field that we can't do without is one that the server always sends, under one of the names that we read."""
    described = schemas[schema]
    for name, wire, required in names(model):
        found = [each for each in wire if each in described["properties"]]
        assert found or not required, (schema, name)
        if required and name not in UNPROMISED:
            assert set(found) & set(described["required"]), (schema, name)


def kinds(schemas: Schema, schema: Schema) -> set[str]:
    """The JSON types that a property may have."""
    found = {schema["type"]} if "type" in schema else set[str]()
    for part in schema.get("anyOf", ()):
        found |= kinds(schemas, part)
    return found | (kinds(schemas, schemas[schema["$ref"].rpartition("/")[2]]) if "$ref" in schema else set())


TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object", type(None): "null"}


def check(schemas: Schema, schema: Schema, body: Schema) -> None:
    """Each field of a body is known to the schema, with a type that it accepts."""
    for name, value in body.items():
        assert name in schema["properties"], name
        allowed = kinds(schemas, schema["properties"][name])
        sent = TYPES[type(value)]
        assert not allowed or sent in allowed or (sent == "integer" and "number" in allowed), (name, sent, allowed)


BODIES: dict[str, Schema] = {
    "MemoryItem": item_body(
        Item("c", context="c", metadata={"a": "b"}, entities=("E",)), SCOPE, RetainSettings(base_tags=("t",)), now=NOW
    ),
    "RetainRequest": {"items": [], "async": True, "operation_id": "x"},
    "RecallRequest": recall_body(
        RecallRequest("q", 8, 100, ("world",), NOW, count_tokens, min_score=0.5, include_source_facts=True), Leaf(("a",))
    ),
    "ReflectRequest": reflect_body(
        ReflectRequest(RecallRequest("q", 8, 100, ("world",), NOW, count_tokens), None, {"type": "object"}), Leaf(("a",))
    ),
    "CreateMentalModelRequest": model_body(MentalModel("m", "M", "q?", tags=("project:x",)), SCOPE),
    "MentalModelTrigger-Input": model_body(MentalModel("m", "M", "q?", tags=("project:x",)), SCOPE)["trigger"],
    "UpdateMentalModelRequest": {"name": "N", "source_query": "q", "max_tokens": 300, "tags": []},
    "CreateDirectiveRequest": {"name": "n", "content": "c", "priority": 0, "is_active": True, "tags": []},
    "UpdateDirectiveRequest": {"name": "n", "content": "c", "priority": 0, "is_active": True, "tags": []},
    "UpdateMemoryRequest": {"text": "t", "state": "invalidated", "reason": "r"},
    "UpdateDocumentRequest": {"tags": []},
    "CreateBankRequest": {"retain_mission": "a", "reflect_mission": "b", "observations_mission": "c"},
}


@pytest.mark.parametrize("name", BODIES)
def test_what_we_send_is_known(schemas: Schema, name: str) -> None:
    """The server would pass over a field that it doesn't know, with a 200."""
    check(schemas, schemas[name], BODIES[name])
    assert set(schemas[name].get("required", ())) <= set(BODIES[name]) | {"content"}
