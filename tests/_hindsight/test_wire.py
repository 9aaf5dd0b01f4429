"""What is sent, and what recorded answers of two server versions are read as."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebank._domain.item import Item
from lorebank._domain.memory import count_tokens
from lorebank._domain.mental_model import MentalModel
from lorebank._domain.requests import RecallRequest, ReflectRequest
from lorebank._domain.scope import Every, Leaf, Neither, Scope, parse_tag_groups, scope_by_tag
from lorebank._domain.settings import RetainSettings
from lorebank._hindsight import answers, asking
from lorebank._hindsight.wire import envelope, explicit, item_body
from lorebank.errors import GarbledError, UnsupportedError, UsageError

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
SCOPE = scope_by_tag("alice", "global", None)
TAGGED = scope_by_tag("alice", "per-project-tagged", "x")
NONE = RetainSettings()
RECORDED = Path(__file__).parents[1] / "server" / "hindsight"


def test_an_item_is_sent_whole() -> None:
    """Everything that the server can keep is in the body; the time is when it was said."""
    item = Item("Ana likes tea.", context="c", tags=("t",), metadata={"n": 1}, entities=("Ana",), session="s", speaker="ana")
    body = item_body(item, TAGGED, RetainSettings(base_tags=("base", "t")), now=NOW)
    assert body == {
        "content": "Ana likes tea.",
        "document_id": body["document_id"],
        "update_mode": "replace",
        "tags": ["t", "project:x", "base"],
        "metadata": {"n": "1", "session_id": "s", "speaker": "ana"},
        "timestamp": "2026-03-04T12:00:00+00:00",
        "context": "c",
        "entities": [{"text": "Ana"}],
        "observation_scopes": [["project:x"]],
    }
    assert explicit(body["document_id"])


def test_the_same_thing_said_again_has_the_same_document() -> None:
    """Order of tags and the time don't count; bank, content, context and tags do."""
    first = item_body(Item("a", tags=("x", "y")), SCOPE, NONE, now=NOW)["document_id"]
    again = item_body(Item("a", tags=("y", "x"), timestamp=NOW), SCOPE, NONE, now=NOW.replace(hour=1))["document_id"]
    others = [
        item_body(Item("b", tags=("x", "y")), SCOPE, NONE, now=NOW),
        item_body(Item("a", tags=("x",)), SCOPE, NONE, now=NOW),
        item_body(Item("a", tags=("x", "y"), context="c"), SCOPE, NONE, now=NOW),
        item_body(Item("a", tags=("x", "y")), Scope("bob", ("bob",)), NONE, now=NOW),
    ]
    assert first == again
    assert len({first, *(other["document_id"] for other in others)}) == 5


@pytest.mark.parametrize("field", [{"type": "world"}, {"importance": 0.5}, {"valid_until": NOW}])
def test_what_the_server_lacks_is_refused(field: Mapping[str, Any]) -> None:
    """Never silently dropped."""
    with pytest.raises(UnsupportedError, match=f"Hindsight has no `{next(iter(field))}`"):
        item_body(Item("a", **field), SCOPE, NONE, now=NOW)


def test_an_append_names_its_document() -> None:
    """And is not taken for an item without one."""
    body = item_body(Item("a", document_id="lorebank:s:0", update_mode="append"), SCOPE, NONE, now=NOW)
    assert (body["document_id"], body["update_mode"]) == ("lorebank:s:0", "append")
    assert not explicit("lorebank:s:0")
    assert not explicit("lorebank:item:0")


def test_observation_scopes_are_filled_in() -> None:
    """A placeholder without a value leaves its scope out; each scope stands alone."""
    settings = RetainSettings(observation_scopes=("user:{bank}", "p:{project}", "s:{session_id}"))
    assert item_body(Item("a"), TAGGED, settings, now=NOW)["observation_scopes"] == [["user:alice"], ["p:x"]]
    own = scope_by_tag("alice", "per-project", "y")
    assert item_body(Item("a", session="1"), own, settings, now=NOW)["observation_scopes"] == [
        ["user:alice::y"],
        ["p:y"],
        ["s:1"],
    ]


def test_base_tags_stay_out_of_observation_scopes() -> None:
    """Without any other tag, observations are shared."""
    settings = RetainSettings(base_tags=("base",))
    assert item_body(Item("a"), SCOPE, settings, now=NOW)["observation_scopes"] == "shared"
    assert "observation_scopes" not in item_body(Item("a", tags=("x",)), SCOPE, NONE, now=NOW)


def test_the_envelope_is_asynchronous_and_idempotent() -> None:
    """Non-ASCII text stays as it is."""
    assert json.loads(envelope([{"content": "ä"}], "id")) == {"items": [{"content": "ä"}], "async": True, "operation_id": "id"}
    assert "ä".encode() in envelope([{"content": "ä"}], "id")


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@given(texts, st.dictionaries(st.text(min_size=1, max_size=5), texts, max_size=3))
def test_text_and_text_metadata_come_back_as_they_went(content: str, metadata: dict[str, str]) -> None:
    """The round trip through the wire changes nothing that is text."""
    metadata = {key: value for key, value in metadata.items() if key not in ("session_id", "speaker") and key.isprintable()}
    item = Item(content, metadata=metadata, session="s", speaker="ana", tags=("t",), timestamp=NOW)
    sent = json.loads(envelope([item_body(item, SCOPE, NONE, now=NOW)], "id"))["items"][0]
    unit = {"id": "1", "text": sent["content"], "type": "world", "tags": sent["tags"], "metadata": sent["metadata"]}
    memory = answers.read(answers.Unit, {**unit, "mentioned_at": sent["timestamp"]}).memory("alice")
    assert (memory.text, memory.metadata, memory.session, memory.speaker) == (content, metadata, "s", "ana")
    assert (memory.tags, memory.mentioned_at) == (("t",), NOW)


def request(**fields: Any) -> RecallRequest:
    given: dict[str, Any] = {"limit": 8, "max_tokens": 1024, "types": ("world",), "moment": NOW, "count_tokens": count_tokens}
    return RecallRequest(query="q", **given | fields)


def test_a_recall_says_what_differs_between_servers() -> None:
    """`include`, `prefer_observations` and `trace` are explicit; huge bounds are capped."""
    body = asking.recall_body(request(max_tokens=10**9, min_score=0.5), Leaf(("a",), "any"))
    assert body == {
        "query": "q",
        "types": ["world"],
        "budget": "mid",
        "max_tokens": 100_000,
        "query_timestamp": "2026-03-04T12:00:00+00:00",
        "prefer_observations": False,
        "include": {"entities": None, "chunks": None, "source_facts": None},
        "trace": False,
        "min_scores": {"final": 0.5},
        "tag_groups": [{"tags": ["a"], "match": "any"}],
    }


def test_rules_are_sent_in_the_servers_grammar() -> None:
    """Groups that were parsed come out as they were typed."""
    groups = [{"or": [{"tags": ["a"], "match": "exact"}, {"not": {"tags": ["b"], "match": "all"}}]}]
    [rule] = parse_tag_groups(groups)
    assert asking.tag_groups(rule) == groups
    assert asking.tag_groups(Every((Leaf(("a",)), rule))) == [{"tags": ["a"], "match": "any_strict"}, *groups]


@pytest.mark.parametrize("rule", [Leaf(()), Every(()), Neither(Leaf(())), Every((Leaf(("a",)), Leaf(())))])
def test_a_rule_that_is_empty_is_refused(rule: Any) -> None:
    """A server reads an empty list as "no filter"."""
    with pytest.raises(UsageError, match="without tags"):
        asking.tag_groups(rule)


@given(st.text(max_size=3000))
def test_a_shortened_query_is_short_and_a_beginning(query: str) -> None:
    """Under 500 tokens for any tokenizer: no token is shorter than a byte."""
    short = asking.shortened(query)
    assert query.startswith(short)
    assert len(re.findall(r"[A-Za-z]{1,4}|[^A-Za-z\s]", short)) <= asking.LONG_QUERY
    assert asking.is_long(query) or short == query.rstrip() or short == query


def test_reflect_reads_no_mental_model_under_a_rule() -> None:
    """Its content may rest on what the rule forbids."""
    body = asking.reflect_body(ReflectRequest(request(), "when?"), Leaf(("a",)))
    assert body["query"] == "q\n\nAdditional context:\nwhen?"
    assert body["exclude_mental_models"]
    assert "exclude_mental_models" not in asking.reflect_body(ReflectRequest(request()), None)
    with pytest.raises(UsageError, match="type 'object'"):
        asking.reflect_body(ReflectRequest(request(), None, {"type": "array"}), None)


def test_a_model_with_the_scopes_tags_reads_what_the_scope_reads() -> None:
    """Without that, the server would leave untagged memories out."""
    model = MentalModel("m", "M", "q?", tags=("project:x",))
    assert asking.model_body(model, TAGGED)["trigger"]["tags_match"] == "any"
    assert "tags_match" not in asking.model_body(MentalModel("m", "M", "q?"), TAGGED)["trigger"]
    with pytest.raises(UnsupportedError, match="from 256 to 8192"):
        asking.model_body(MentalModel("m", "M", "q?", max_tokens=64), TAGGED)


KINDS: Mapping[str, type[answers.Answer]] = {
    r"recall/": answers.Recall,
    r"reflect/": answers.Reflect,
    r"retain/async": answers.Retained,
    r"memories/list": answers.Units,
    r"memories/(get|edit|invalidate|revert)": answers.Unit,
    r"operations/list": answers.Works,
    r"operations/(completed|pending|failed|unknown)|mental-models/operation": answers.Work,
    r"documents/list": answers.Papers,
    r"documents/get|retain/append-(without-tags-)?result": answers.Paper,
    r"mental-models/list": answers.Curation,
    r"mental-models/(get|update)": answers.Curated,
    r"mental-models/(create|refresh)": answers.Begun,
    r"directives/list": answers.Standings,
    r"directives/(create|get|update)": answers.Standing,
    r"tags/list": answers.TagCounts,
    r"banks/stats": answers.Counts,
    r"banks/config": answers.Config,
    r"banks/list": answers.Banks,
    r"server/version": answers.Version,
}


def recorded() -> list[Any]:
    """Every recorded answer that one of the models is for."""
    found: list[Any] = []
    for folder in ("exchanges", "exchanges-0.9.1"):
        for path in sorted((RECORDED / folder).rglob("*.json")):
            name = path.relative_to(RECORDED / folder).with_suffix("").as_posix()
            kinds = [kind for pattern, kind in KINDS.items() if re.match(pattern, name)]
            if kinds:
                found.append(pytest.param(path, kinds[0], id=f"{folder}/{name}"))
    return found


@pytest.mark.parametrize(("path", "kind"), recorded())
def test_recorded_answers_are_read(path: Path, kind: type[answers.Answer]) -> None:
    """Both versions' answers fit the same models."""
    response = json.loads(path.read_text(encoding="utf-8"))["response"]
    if response["status"] == 200:
        answers.read(kind, response["body"])


def test_both_versions_are_recorded() -> None:
    """The test above has something to read."""
    assert len(recorded()) > 80


def test_an_answer_of_another_shape_is_no_answer() -> None:
    """The error names the field, never what it holds."""
    with pytest.raises(GarbledError, match=r"results: missing") as caught:
        answers.read(answers.Recall, {"secret": "Ana"})
    assert "Ana" not in str(caught.value)


def test_times_are_in_utc_and_replacements_are_read_back() -> None:
    """An offset is converted; a list's entities are a text with commas."""
    unit = {"id": "1", "text": "t", "fact_type": "world", "entities": "Ana, Bob", "mentioned_at": "2026-03-04T13:00:00+01:00"}
    other = "00000000-0000-4000-8000-000000000000"
    withdrawn = {"state": "invalidated", "invalidation_reason": f"superseded by {other}", "invalidated_at": "2026-03-05T00:00:00"}
    memory = answers.read(answers.Unit, unit | withdrawn).memory("b")
    assert (memory.mentioned_at, memory.entities, memory.superseded_by) == (NOW, ("Ana", "Bob"), other)
    assert memory.invalidated_at == datetime(2026, 3, 5, tzinfo=UTC)
