"""What goes into a bank: items, parsed once and trusted afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, tzinfo
from typing import Any, cast, get_args

from lorebank._domain.memory import (
    MemoryType,
    UpdateMode,
    parse_metadata,
    parse_moment,
    parse_name,
    parse_number,
    parse_text,
    parse_type,
)
from lorebank._domain.scope import parse_tags
from lorebank.errors import UsageError


def _names(values: Any, name: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"`{name}` must be a list of texts; found {values!r}")
    return tuple(dict.fromkeys([parse_name(value, name) for value in cast("Iterable[object]", values)]))


def _datetime(value: object, name: str) -> datetime:
    """A datetime in UTC; a naive one as it is, since only the settings know in which zone it is to be read."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    return parse_moment(value, name)


@dataclass(frozen=True, slots=True)
class Item:
    """One text to retain.

    `Item("Ana prefers aisle seats.", tags=["trip"])`. Only `content` is needed. `session` and `speaker` say which
    conversation the text comes from and who said it; items of one session are neighbours in the order of their
    arrival. `timestamp` is when it was said (default: now; naive ones in the `timezone` setting). `importance` is from
    0 to 1. Bad values raise `UsageError` here, before anything is written.
    """

    content: str
    context: str | None = field(default=None, kw_only=True)
    tags: Sequence[str] = field(default=(), kw_only=True)
    metadata: Mapping[str, Any] | None = field(default=None, kw_only=True)
    timestamp: datetime | None = field(default=None, kw_only=True)
    document_id: str | None = field(default=None, kw_only=True)
    update_mode: UpdateMode | None = field(default=None, kw_only=True)
    entities: Sequence[str] = field(default=(), kw_only=True)
    session: str | None = field(default=None, kw_only=True)
    speaker: str | None = field(default=None, kw_only=True)
    valid_until: datetime | None = field(default=None, kw_only=True)
    importance: float | None = field(default=None, kw_only=True)
    type: MemoryType | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        parse_text(self.content, "content")
        for name, parse in _PARSERS:
            value = getattr(self, name)
            if value is not None and value != ():
                object.__setattr__(self, name, parse(value, name))
        if self.update_mode is not None:
            self._check_update_mode()

    def _check_update_mode(self) -> None:
        if self.update_mode not in get_args(UpdateMode):
            raise UsageError(f"`update_mode` must be replace or append; found {self.update_mode!r}")
        if self.document_id is None:
            raise UsageError("`update_mode` needs a `document_id`: it says what happens to that document")

    def filled(self, defaults: Mapping[str, Any]) -> Item:
        """The item with what it leaves out taken from `defaults`."""
        missing = {name: value for name, value in defaults.items() if getattr(self, name) in (None, ())}
        return replace(self, **missing) if missing else self

    def rewritten(self, **values: Any) -> Item:
        """A copy with some fields replaced as they are: they have been checked."""
        copied = object.__new__(Item)
        for name, slot in _SLOTS:
            slot.__set__(copied, values[name] if name in values else slot.__get__(self))
        return copied

    def stamped(self, tags: Sequence[str]) -> Item:
        """The item with these tags, too."""
        missing = tuple(tag for tag in tags if tag not in self.tags)
        return self.rewritten(tags=(*self.tags, *missing)) if missing else self

    def located(self, zone: tzinfo | None) -> Item:
        """The item with its times in UTC."""
        stamp, until = self.timestamp, self.valid_until
        if (stamp is None or stamp.tzinfo is not None) and (until is None or until.tzinfo is not None):
            return self
        said = None if stamp is None else parse_moment(stamp, "timestamp", zone)
        until = None if until is None else parse_moment(until, "valid_until", zone)
        return self.rewritten(timestamp=said, valid_until=until)


_PARSERS: tuple[tuple[str, Callable[[Any, str], object]], ...] = (
    ("context", parse_text),
    ("tags", lambda value, _: parse_tags(value)),
    ("metadata", lambda value, _: parse_metadata(value)),
    ("timestamp", _datetime),
    ("document_id", parse_name),
    ("entities", _names),
    ("session", parse_name),
    ("speaker", parse_name),
    ("valid_until", _datetime),
    ("importance", lambda value, name: parse_number(value, name, 0, 1)),
    ("type", lambda value, _: parse_type(value)),
)
"""How each field that was given is checked and brought into its stored shape."""
ITEM_FIELDS = tuple(f.name for f in fields(Item))
_SLOTS: tuple[tuple[str, Any], ...] = tuple((name, getattr(Item, name)) for name in ITEM_FIELDS)


def parse_item(value: object, defaults: Mapping[str, Any] | None = None) -> Item:
    """An `Item` as it is, a text, or a mapping with an item's keys; `defaults` fill what it leaves out."""
    known = defaults or {}
    if isinstance(value, Item):
        return value.filled(known) if known else value
    if isinstance(value, str):
        return Item(value, **known)
    if not isinstance(value, Mapping):
        raise UsageError(f"an item must be text, an `Item` or a mapping; found {type(value).__name__}")
    mapping = cast("Mapping[str, Any]", value)
    if unknown := [key for key in mapping if key not in ITEM_FIELDS]:
        raise UsageError(f"an item has no key {unknown[0]!r}; it may have {', '.join(ITEM_FIELDS)}")
    if "content" not in mapping:
        raise UsageError("an item needs `content`")
    return Item(**mapping).filled(known)


def parse_items(value: object, defaults: Mapping[str, Any]) -> tuple[Item, ...]:
    """One text or item, or a list of them; `defaults` fill what an item leaves out."""
    if isinstance(value, (str, Item, Mapping)):
        return (parse_item(cast("object", value), defaults),)
    if not isinstance(value, Iterable):
        raise UsageError(f"`retain` takes text, an item or a list of them; found {type(value).__name__}")
    items = tuple(parse_item(each, defaults) for each in cast("Iterable[object]", value))
    if not items:
        raise UsageError("`retain` was given an empty list: there is nothing to retain")
    return items
