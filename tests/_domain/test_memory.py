"""What goes into a bank and what comes out."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from lorebank._domain.item import ITEM_FIELDS, Item, parse_item, parse_items
from lorebank._domain.memory import (
    APPLICATION,
    EXTRACTION,
    TOOL,
    TRANSCRIPT,
    Memory,
    Outcome,
    RecallResult,
    Receipt,
    Removal,
    Writer,
    count_tokens,
    parse_count,
    parse_moment,
    parse_number,
    parse_text,
    parse_type,
    parse_types,
)
from lorebank.errors import UsageError


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("world", "world"),
        ("experience", "experience"),
        ("observation", "observation"),
        ("fact", "world"),
        ("episode", "experience"),
    ],
)
def test_types_and_their_older_names(given: str, stored: str) -> None:
    """`fact` and `episode` are accepted for the first two."""
    assert parse_type(given) == stored


@pytest.mark.parametrize("value", ["opinion", "", "World", None, 1, ["world"]])
def test_an_unknown_type_is_refused(value: object) -> None:
    """The error names the field, the choices and the value."""
    with pytest.raises(UsageError, match=r"`type` must be one of world, experience, observation"):
        parse_type(value)


def test_types_lose_repeats() -> None:
    """A type and its older name are one."""
    assert parse_types(["fact", "world", "episode"]) == ("world", "experience")


def test_no_types_are_refused() -> None:
    """`types=()` could only find nothing."""
    with pytest.raises(UsageError, match="`types` is empty"):
        parse_types(())


def test_types_as_one_text_are_refused() -> None:
    """A text is not a list of letters."""
    with pytest.raises(UsageError, match="`types` must be a sequence"):
        parse_types("world")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "is blank"),
        (" \n\t", "is blank"),
        (None, "must be text; found NoneType"),
        (b"x", "must be text; found bytes"),
        ("x" * 65_537, "has 65,537 characters; the limit is 65,536"),
        ("x\ud800", "lone surrogate"),
    ],
)
def test_a_bad_text_is_refused_by_name(value: object, why: str) -> None:
    """Nothing blank, too long or unstorable gets past the door."""
    with pytest.raises(UsageError, match="`query`") as caught:
        parse_text(value, "query")
    assert why in str(caught.value)


def test_a_text_at_the_limit_is_returned_as_it_is() -> None:
    """65,536 characters are allowed and nothing is trimmed."""
    text = " " + "x" * 65_534 + "\n"
    assert parse_text(text, "content") == text


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), True, "0.5", None])
def test_a_number_out_of_range_is_refused(value: object) -> None:
    """The error names the field, the bounds and the value."""
    with pytest.raises(UsageError, match=r"`importance` must be a number from 0 to 1; found"):
        parse_number(value, "importance", 0, 1)


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None])
def test_a_count_below_one_is_refused(value: object) -> None:
    """Limits are whole numbers of at least one."""
    with pytest.raises(UsageError, match=r"`limit` must be a whole number of at least 1; found"):
        parse_count(value, "limit")


def test_naive_times_are_read_in_the_zone_and_stored_in_utc() -> None:
    """Aware ones keep their instant."""
    naive, east = datetime.fromisoformat("2026-03-04T12:00"), timezone(timedelta(hours=5))
    assert parse_moment(naive, "timestamp", ZoneInfo("Europe/Berlin")) == datetime(2026, 3, 4, 11, tzinfo=UTC)
    assert (
        parse_moment(naive.replace(tzinfo=east), "timestamp", ZoneInfo("Europe/Berlin")).isoformat()
        == "2026-03-04T07:00:00+00:00"
    )


@pytest.mark.parametrize("value", ["2026-03-04", 5, None])
def test_a_time_that_is_no_datetime_is_refused(value: object) -> None:
    """The error names the field."""
    with pytest.raises(UsageError, match="`timestamp` must be a datetime"):
        parse_moment(value, "timestamp")


def test_a_time_outside_of_the_calendar_is_refused() -> None:
    """Year 1 in the east has no UTC time."""
    with pytest.raises(UsageError, match="`timestamp` is out of the calendar's range"):
        parse_moment(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), "timestamp")


def test_an_item_needs_only_content() -> None:
    """What is not given stays open."""
    item = Item("Ana prefers aisle seats.")
    assert (item.content, item.tags, item.entities, item.context, item.importance) == (
        "Ana prefers aisle seats.",
        (),
        (),
        None,
        None,
    )


def test_an_items_values_are_stored_in_their_parsed_shape() -> None:
    """Tuples, trimmed names, plain JSON, canonical types."""
    given: dict[str, Any] = {"tags": [" trip ", "trip"], "metadata": {"turn": (1, 2)}, "entities": ["Ana", "Ana"]}
    item = Item("x", document_id=" d ", type="fact", importance=1, **given)
    assert (item.tags, item.metadata, item.document_id, item.entities) == (("trip",), {"turn": [1, 2]}, "d", ("Ana",))
    assert (item.type, item.importance) == ("world", 1.0)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"content": ""}, "`content`"),
        ({"content": "x" * 65_537}, "`content`"),
        ({"context": " "}, "`context`"),
        ({"context": 5}, "`context`"),
        ({"tags": "trip"}, "`tags`"),
        ({"tags": [""]}, "`tags`"),
        ({"tags": [5]}, "`tags`"),
        ({"metadata": [1]}, "`metadata`"),
        ({"metadata": {1: "a"}}, "`metadata`"),
        ({"metadata": {"": "a"}}, "`metadata`"),
        ({"metadata": {"a": {1, 2}}}, "`metadata`"),
        ({"metadata": {"a": float("nan")}}, "`metadata`"),
        ({"metadata": {"a": "\ud800"}}, "`metadata`"),
        ({"timestamp": "2026-03-04"}, "`timestamp`"),
        ({"valid_until": 5}, "`valid_until`"),
        ({"document_id": ""}, "`document_id`"),
        ({"document_id": "a\nb"}, "`document_id`"),
        ({"session": "x" * 513}, "`session`"),
        ({"session": 5}, "`session`"),
        ({"speaker": "a\x00b"}, "`speaker`"),
        ({"entities": "Ana"}, "`entities`"),
        ({"entities": [" "]}, "`entities`"),
        ({"importance": 1.5}, "`importance`"),
        ({"importance": "high"}, "`importance`"),
        ({"type": "opinion"}, "`type`"),
        ({"update_mode": "merge", "document_id": "d"}, "`update_mode`"),
        ({"update_mode": "append"}, "`document_id`"),
    ],
)
def test_a_bad_item_is_refused_by_field(fields: dict[str, Any], named: str) -> None:
    """Each mistake names its field, before anything is written."""
    with pytest.raises(UsageError, match=named):
        Item(**({"content": "x"} | fields))


def test_endless_metadata_is_refused() -> None:
    """A mapping that holds itself is no JSON."""
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(UsageError, match="`metadata` holds what JSON can't"):
        Item("x", metadata=loop)


def test_metadata_is_a_copy() -> None:
    """Later changes of the caller's mapping don't reach the item."""
    given = {"a": [1]}
    item = Item("x", metadata=given)
    given["a"].append(2)
    assert item.metadata == {"a": [1]}


def test_an_items_fields_are_the_contracts() -> None:
    """The keys that a mapping may have."""
    assert ITEM_FIELDS == (
        "content", "context", "tags", "metadata", "timestamp", "document_id", "update_mode", "entities", "session", "speaker",
        "valid_until", "importance", "type",
    )  # fmt: skip


def test_defaults_fill_only_what_an_item_leaves_out() -> None:
    """An item's own values win, a zero included."""
    filled = Item("x", tags=["own"], importance=0).filled({"tags": ("call",), "importance": 0.9, "context": "travel"})
    assert (filled.tags, filled.importance, filled.context) == (("own",), 0.0, "travel")


def test_a_located_item_has_its_times_in_utc() -> None:
    """Naive times are read in the given zone."""
    said, until = datetime.fromisoformat("2026-07-01T02:00"), datetime.fromisoformat("2026-07-02T02:00")
    item = Item("x", timestamp=said, valid_until=until).located(ZoneInfo("Europe/Berlin"))
    assert (item.timestamp, item.valid_until) == (datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 7, 2, tzinfo=UTC))


def test_items_may_be_texts_items_mappings_and_mixed() -> None:
    """All spellings give items."""
    assert parse_items("a", {}) == (Item("a"),)
    assert parse_items(Item("a"), {}) == (Item("a"),)
    assert parse_items({"content": "a", "tags": ["x"]}, {}) == (Item("a", tags=["x"]),)
    assert parse_items(iter(["a", Item("b"), {"content": "c"}]), {"context": "k"}) == (
        Item("a", context="k"),
        Item("b", context="k"),
        Item("c", context="k"),
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "empty list"),
        (None, "found NoneType"),
        (5, "found int"),
        (b"x", "found int"),
        (["a", 5], "found int"),
        ([["a"]], "found list"),
        ({"text": "a"}, "no key 'text'"),
        ({"tags": ["a"]}, "needs `content`"),
        ({"content": "a", 5: 6}, "no key 5"),
        ("", "`content` is blank"),
        (["a", " "], "`content` is blank"),
    ],
)
def test_what_is_no_item_is_refused(value: object, why: str) -> None:
    """One bad item refuses the call, before anything is written."""
    with pytest.raises(UsageError, match=why):
        parse_items(value, {})


def test_an_item_is_returned_as_it_is() -> None:
    """Parsing an `Item` copies nothing."""
    item = Item("a")
    assert parse_item(item) is item


def test_the_writers_are_the_contracts() -> None:
    """Who writes what on Mnemopi."""
    writers = [APPLICATION, TOOL, EXTRACTION, TRANSCRIPT]
    assert writers == [
        Writer("app", 0.7, "stated", "world"),
        Writer("agent-retain", 0.75, "tool", "world"),
        Writer("extraction", 0.6, "inferred", "world"),
        Writer("transcript", 0.5, "unknown", "experience"),
    ]


def test_a_receipt_counts_its_items_and_is_never_false() -> None:
    """`len(receipt)` items; an empty receipt is still a receipt."""
    one = (Outcome("1"),)
    assert len(Receipt(one, one, one, (Outcome(None, "no"), Outcome(None, "no")))) == 5
    assert bool(Receipt()) is True
    assert (len(Removal(("a",))), bool(Removal(()))) == (1, True)


def test_a_result_is_a_sequence_of_its_memories() -> None:
    """Iterate, index, count; nothing found is false."""
    memories = (Memory("1", "a"), Memory("2", "b"))
    result = RecallResult("found", "q", memories)
    assert (list(result), len(result), result[0].id, bool(result)) == (list(memories), 2, "1", True)
    assert bool(RecallResult("nothing", "q")) is False


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語", 3), ("日本ab", 3), ("한국", 2), ("ひらがな", 4), ("𠮷𠮷𠮷𠮷", 4)],
)
def test_tokens_are_estimated(text: str, tokens: int) -> None:
    """One for each CJK character, one for each four others."""
    assert count_tokens(text) == tokens
