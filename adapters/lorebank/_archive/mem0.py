"""Exports of mem0: what its `get_all` gives, a list of memories or an object with `results`. Pure."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from lorebank._archive.reading import Identities, Read, Tolerant, Wanted, clean, label, moment, shaped
from lorebank._domain.archive import IMPORTED, Entry, item_of
from lorebank._domain.memory import MAX_TEXT, parse_metadata, parse_text, storable
from lorebank._domain.message import substantive
from lorebank._domain.scope import parse_tags
from lorebank.errors import UsageError

_OWNERS = ("user_id", "agent_id", "app_id")


class _Remembered(Tolerant):
    """One memory of an export."""

    memory: str
    id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    metadata: dict[str, Any] | None = None
    categories: list[str] | None = Field(default=None)
    created_at: str | int | float | None = None
    updated_at: str | int | float | None = None
    expiration_date: str | None = None


def read_mem0(memories: list[object], wanted: Wanted) -> Read:
    """The memories of an export, or of one of its users. An export of several users has to say whose are meant: a bank is
    one user's.
    """
    told = [shaped(_Remembered, each, f"results[{number}]") for number, each in enumerate(memories)]
    users = {each.user_id for each in told if each.user_id is not None}
    if wanted.only is None and len(users) > 1:
        raise UsageError(
            f"the file holds memories of {len(users)} users: name the one whose bank this is (only=...), so that nobody's "
            "memories reach another"
        )
    if wanted.only is not None and wanted.only not in users:
        raise UsageError(f"the file holds no memory of the user {wanted.only!r}")
    read, identities = Read(), Identities()
    for number, each in enumerate(told):
        if wanted.only not in (None, each.user_id):
            continue
        if substantive(each.memory):
            read.entries.append(_entry(each, f"results[{number}]", identities))
        else:
            read.skipped += 1
    return read


def _entry(told: _Remembered, place: str, identities: Identities) -> Entry:
    said = moment(told.created_at) or moment(told.updated_at)
    owners = {name: value for name in _OWNERS if (value := getattr(told, name))}
    try:
        item = item_of(
            content=parse_text(storable(told.memory), "memory", limit=MAX_TEXT),
            tags=parse_tags([tag for each in told.categories or () if (tag := label(each)) is not None]),
            metadata=parse_metadata(clean({**(told.metadata or {}), **owners})) or None,
            timestamp=said,
            session=label(told.run_id),
            speaker=label(told.actor_id),
            valid_until=moment(told.expiration_date),
            type=IMPORTED.type,
        )
    except UsageError as error:
        raise UsageError(f"`{place}`: {error}. Nothing was imported") from None
    named = identities.digest("mem0", told.user_id or "", told.memory).hex()[:16]
    return Entry(label(told.id, named) or named, item, said=said)
