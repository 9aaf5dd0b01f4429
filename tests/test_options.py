"""Every option of a verb reaches the backend: none is dropped on the way, and none is missing here."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, open_bank
from lorebank._domain.item import Item
from lorebank._domain.memory import RecallResult, Receipt, Writer
from lorebank._domain.requests import ListRequest, RecallRequest
from lorebank._domain.scope import Scope
from lorebank._mnemopi.backend import MnemopiBackend

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SEARCH: dict[str, dict[str, Any]] = {
    "limit": {"limit": 3},
    "max_tokens": {"max_tokens": 77},
    "types": {"types": ["observation"]},
    "tags": {"tags": ["a"]},
    "tags_match": {"tags": ["a"], "tags_match": "exact"},
    "tag_groups": {"tag_groups": [{"tags": ["b"]}]},
    "budget": {"budget": "high"},
    "query_timestamp": {"query_timestamp": NOON},
    "prefer_observations": {"prefer_observations": True},
    "include_source_facts": {"include_source_facts": True},
    "min_score": {"min_score": 0.5},
    "explain": {"explain": True},
}
PAGE: dict[str, dict[str, Any]] = {
    "limit": {"limit": 3},
    "offset": {"offset": 2},
    "types": {"types": ["world"]},
    "tags": {"tags": ["a"]},
    "tags_match": {"tags": ["a"], "tags_match": "exact"},
    "session": {"session": "s"},
    "document": {"document": "d"},
    "state": {"state": "all"},
    "before": {"before": NOON},
}
ITEM: dict[str, Any] = {
    "context": "travel",
    "tags": ("trip",),
    "metadata": {"turn": 3},
    "timestamp": NOON,
    "document_id": "d",
    "update_mode": "replace",
    "entities": ("Ana",),
    "session": "s",
    "speaker": "Ana",
    "valid_until": NOON,
    "importance": 0.9,
    "type": "experience",
}


class Heard(MnemopiBackend):
    """Keeps what it is asked, and answers nothing."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.searches: list[RecallRequest] = []
        self.pages: list[ListRequest] = []
        self.items: list[Item] = []

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        self.searches.append(request)
        return RecallResult("nothing", request.query)

    def list(self, scope: Scope, request: ListRequest) -> tuple[()]:
        self.pages.append(request)
        return ()

    def retain(self, scope: Scope, items: Any, writer: Writer) -> Receipt:
        self.items += items
        return Receipt()


@pytest.fixture
def heard(url: str) -> Heard:
    return Heard(url)


@pytest.fixture
def listened(heard: Heard) -> Iterator[Bank]:
    with open_bank(backend=heard, bank="alice") as bank:
        yield bank


def options(verb: Any) -> set[str]:
    """The keywords of a verb."""
    return {name for name, each in inspect.signature(verb).parameters.items() if each.kind is each.KEYWORD_ONLY}


def plain(request: RecallRequest) -> RecallRequest:
    """Without the moment of the call, unless that is the one that was asked for."""
    return request if request.moment == NOON else replace(request, moment=datetime.min.replace(tzinfo=UTC))


def differing(one: Any, other: Any) -> set[str]:
    return {each.name for each in fields(one) if getattr(one, each.name) != getattr(other, each.name)}


def test_every_option_of_recall_reaches_the_backend(listened: Bank, heard: Heard) -> None:
    """Each changes something of the request that no other changes, and all of the request can be changed."""
    assert set(SEARCH) == options(Bank.recall) == options(Bank.arecall)
    listened.recall("cello")
    usual = plain(heard.searches[-1])
    changed: Mapping[str, set[str]] = {}
    for name, given in SEARCH.items():
        listened.recall("cello", **given)
        changed = {**changed, name: differing(plain(heard.searches[-1]), usual)}
    assert [name for name, what in changed.items() if len(what) != 1] == []
    assert {what for each in changed.values() for what in each} | {"query", "count_tokens"} == {
        each.name for each in fields(RecallRequest)
    }
    assert len({repr(request.rule) for request in heard.searches}) == 4  # none, and one for each way to filter


def test_every_option_of_list_reaches_the_backend(listened: Bank, heard: Heard) -> None:
    """No two ask for the same page."""
    assert set(PAGE) == options(Bank.list) == options(Bank.alist)
    listened.list()
    for given in PAGE.values():
        listened.list(**given)
    assert len({repr(page) for page in heard.pages}) == 1 + len(PAGE)


def test_every_field_of_an_item_reaches_the_backend(listened: Bank, heard: Heard) -> None:
    """As a keyword of `retain`, and as part of what is retained."""
    assert set(ITEM) == options(Bank.retain) == options(Bank.aretain) == {each.name for each in fields(Item)} - {"content"}
    listened.retain("cello", **ITEM)
    listened.retain({"content": "cello", **ITEM})
    listened.retain(Item("cello", **ITEM))
    assert heard.items == [Item("cello", **ITEM)] * 3
    assert differing(heard.items[0], Item("cello")) == set(ITEM)
