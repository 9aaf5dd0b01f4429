"""Request bodies and parameters, checked as the server checks them: every complaint at once, with its place."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from lorebank._faults.tags import MODES
from lorebank._faults.text import WORD, moment
from lorebank._faults.wire import RefusalError

__all__ = ["Checks", "Place", "a_uuid"]

Place = tuple[str | int, ...]
TAG_GROUPS = (("TagGroupLeaf", "tags"), ("TagGroupAnd", "and"), ("TagGroupOr", "or"), ("TagGroupNot", "not"))


class Checks:
    """Collects complaints about one request; `done` refuses with 422 where there are any."""

    def __init__(self) -> None:
        self._found: list[dict[str, Any]] = []

    def done(self) -> None:
        """Nothing, or the refusal."""
        if self._found:
            raise RefusalError(422, self._found)

    def complain(self, kind: str, place: Place, message: str, given: Any, **context: Any) -> None:
        """One entry of the list."""
        entry = {"type": kind, "loc": list(place), "msg": message, "input": given}
        self._found.append({**entry, "ctx": context} if context else entry)

    def wrong(self, place: Place, message: str, given: Any) -> None:
        """A value that has the right type and is not accepted."""
        self.complain("value_error", place, f"Value error, {message}", given, error={})

    def mapping(self, value: Any, place: Place) -> Mapping[str, Any]:
        """An object; empty where it is none."""
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        message = "Input should be a valid dictionary or object to extract fields from"
        self.complain("model_attributes_type", place, message, value)
        return {}

    def required(self, body: Mapping[str, Any], name: str, place: Place = ("body",)) -> bool:
        """Whether a field is there."""
        if name not in body:
            self.complain("missing", (*place, name), "Field required", body)
        return name in body

    def text(self, body: Mapping[str, Any], name: str, place: Place = ("body",)) -> str | None:
        """A text or null."""
        value = body.get(name)
        if value is not None and not isinstance(value, str):
            self.complain("string_type", (*place, name), "Input should be a valid string", value)
            return None
        return value

    def needed_text(self, body: Mapping[str, Any], name: str) -> str:
        """A text that must be there."""
        if not self.required(body, name):
            return ""
        if body[name] is None:
            self.complain("string_type", ("body", name), "Input should be a valid string", None)
        return self.text(body, name) or ""

    def listed(self, body: Mapping[str, Any], name: str, place: Place = ("body",)) -> Sequence[Any] | None:
        """A list or null."""
        value = body.get(name)
        if isinstance(value, list):
            return cast("Sequence[Any]", value)
        if value is not None:
            self.complain("list_type", (*place, name), "Input should be a valid list", value)
        return None

    def texts(self, body: Mapping[str, Any], name: str, place: Place = ("body",)) -> tuple[str, ...] | None:
        """A list of texts, each once, or null."""
        values = self.listed(body, name, place)
        if values is None:
            return None
        for index, value in enumerate(values):
            if not isinstance(value, str):
                self.complain("string_type", (*place, name, index), "Input should be a valid string", value)
        return tuple(dict.fromkeys(value for value in values if isinstance(value, str)))

    def text_map(self, body: Mapping[str, Any], name: str, place: Place) -> dict[str, str]:
        """Texts by text."""
        value = body.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.complain("dict_type", (*place, name), "Input should be a valid dictionary", value)
            return {}
        pairs = cast("dict[str, Any]", value)
        for key, each in pairs.items():
            if not isinstance(each, str):
                self.complain("string_type", (*place, name, key), "Input should be a valid string", each)
        return pairs

    def flag(self, body: Mapping[str, Any], name: str, default: bool) -> bool:
        """True or false."""
        value = body.get(name)
        if value is not None and not isinstance(value, bool):
            self.complain("bool_parsing", ("body", name), "Input should be a valid boolean, unable to interpret input", value)
        return default if value is None else bool(value)

    def one_of(self, value: Any, place: Place, options: Sequence[str], default: str, kind: str = "literal_error") -> str:
        """One of a few texts."""
        if value is None or (isinstance(value, str) and value in options):
            return default if value is None else str(value)
        *others, last = (f"'{each}'" for each in options)
        expected = f"{', '.join(others)} or {last}"
        self.complain(kind, place, f"Input should be {expected}", value, expected=expected)
        return default

    def whole(self, value: Any, place: Place, default: int, *, least: int | None = None, most: int | None = None) -> int:
        """A whole number between two bounds."""
        if value is None:
            return default
        try:
            number = int(value)
        except (TypeError, ValueError):
            message = "Input should be a valid integer, unable to parse string as an integer"
            self.complain("int_parsing", place, message, value)
            return default
        if least is not None and number < least:
            self.complain("greater_than_equal", place, f"Input should be greater than or equal to {least}", value, ge=least)
        if most is not None and number > most:
            self.complain("less_than_equal", place, f"Input should be less than or equal to {most}", value, le=most)
        return number

    def question(self, body: Mapping[str, Any]) -> str:
        """The query of a recall: it has a word character."""
        query = self.needed_text(body, "query")
        if isinstance(body.get("query"), str) and not WORD.search(query):
            self.wrong(("body", "query"), "query must contain at least one word character after normalization", query)
        return query

    def tag_groups(self, body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
        """Groups of the right shape, not beside `tags`."""
        groups = self.listed(body, "tag_groups")
        for index, group in enumerate(groups or []):
            self._group(group, ("body", "tag_groups", index))
        if groups is not None and body.get("tags") is not None:
            self.wrong(
                ("body",), "'tags' and 'tag_groups' are mutually exclusive. Use 'tag_groups' for compound filtering.", body
            )
        return groups

    def time(self, value: Any, place: Place) -> None:
        """An ISO time, null or `unset`."""
        if value is None or value == "unset":
            return
        if not isinstance(value, str):
            self.wrong(place, f"timestamp must be a string or datetime, got {type(value).__name__}", value)
            return
        try:
            moment(value)
        except ValueError:
            wanted = "Expected ISO format like '2024-01-15T10:30:00' or '2024-01-15T10:30:00Z', or 'unset'."
            self.wrong(place, f"Invalid timestamp/event_date format: '{value}'. {wanted}", value)

    def _group(self, group: Any, place: Place) -> None:
        checked = self.mapping(group, place)
        kind = next((each for each in TAG_GROUPS if each[1] in checked), None)
        if kind is None:
            for name, key in TAG_GROUPS:
                self.complain("missing", (*place, name, key), "Field required", group)
            return
        name, key = kind
        if key == "tags":
            self.texts(checked, "tags", (*place, name))
            self.one_of(checked.get("match"), (*place, name, "match"), MODES, "any_strict")
            self.one_of(checked.get("resolve"), (*place, name, "resolve"), ("exact", "fuzzy"), "exact")
        elif key == "not":
            self._group(checked["not"], (*place, name, "not"))
        else:
            parts = self.listed(checked, key, (*place, name)) or ()
            if checked[key] == []:
                raise RefusalError(500, f"Failed to search memories: `{key}` has no part")
            for index, part in enumerate(parts):
                self._group(part, (*place, name, key, index))


def a_uuid(text: str, name: str) -> str:
    """The canonical form; 400 where it is no UUID."""
    try:
        return str(uuid.UUID(text))
    except ValueError as error:
        problem = (
            f"Invalid operation_id format: {text}" if name == "operation_id" else f"Invalid {name}: '{text}' is not a valid UUID"
        )
        raise RefusalError(400, problem) from error
