"""What `configure` said, and the banks at the places that are named."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from lorebank import Bank, LorebankError, UsageError
from lorebank.seams import Places

HindsightError = LorebankError
"""What `except HindsightError` catches."""
SETTINGS = {
    "budget": "recall={{'budget': {0!r}}}",
    "max_tokens": "recall={{'max_tokens': {0!r}}}",
    "context": "retain={{'retain_context': {0!r}}}",
    "mission": "retain={{'missions': {{'retain': {0!r}, 'reflect': {0!r}}}}}",
}
"""The argument of `open_bank` that an argument of theirs is."""
_places = Places()


@dataclass
class HindsightLlamaIndexConfig:
    """What holds where an argument is left at its default. `verbose` changes nothing: the `lorebank` logger has levels."""

    hindsight_api_url: str | None = None
    api_key: str | None = None
    budget: str = "mid"
    max_tokens: int = 4096
    tags: list[str] | None = None
    recall_tags: list[str] | None = None
    recall_tags_match: str = "any"
    context: str = "llamaindex"
    mission: str | None = None
    verbose: bool = False


DEFAULTS = HindsightLlamaIndexConfig()
_configured: list[HindsightLlamaIndexConfig] = []


def configure(  # noqa: PLR0917 - theirs
    hindsight_api_url: str | None = None,
    api_key: str | None = None,
    budget: str = "mid",
    max_tokens: int = 4096,
    tags: list[str] | None = None,
    recall_tags: list[str] | None = None,
    recall_tags_match: str = "any",
    context: str = "llamaindex",
    mission: str | None = None,
    verbose: bool = False,
) -> HindsightLlamaIndexConfig:
    """Says where memory is, and what holds for tools and memories that are made from now on."""
    given = dict(locals())
    config = HindsightLlamaIndexConfig(**{each.name: given[each.name] for each in fields(HindsightLlamaIndexConfig)})
    _configured[:] = [config]
    return config


def get_config() -> HindsightLlamaIndexConfig | None:
    """What `configure` said; `None` where it was not called."""
    return next(iter(_configured), None)


def reset_config() -> None:
    """Forgets what `configure` said."""
    _configured.clear()


def chosen(name: str, given: Any) -> Any:
    """An argument; one that is as by default is what `configure` said."""
    default = getattr(DEFAULTS, name)
    return getattr(get_config() or DEFAULTS, name) if given is None or given == default else given


def opened(url: str | None, key: str | None, **settings: Any) -> Bank:
    """The bank at a place, opened once for all that want the same of it."""
    return _places.opened(chosen("hindsight_api_url", url), chosen("api_key", key), **settings)


def missions(mission: str | None) -> dict[str, Any]:
    """What a server's bank is told to keep and to answer for."""
    return {"missions": {"retain": mission, "reflect": mission}} if mission else {}


def refuse_others(bank: Bank, **wanted: Any) -> None:
    """Raises where a bank's own settings are not what is asked for."""
    recall, retain = bank.connections.settings.recall, bank.connections.settings.retain
    mission = None if retain.missions is None else retain.missions.retain
    own = {"budget": recall.budget, "max_tokens": recall.max_tokens, "context": retain.retain_context, "mission": mission}
    for name, value in wanted.items():
        if value not in (getattr(DEFAULTS, name), own[name]):
            raise UsageError(
                f"`{name}` is a setting of the bank: leave it out, and pass client=open_bank(..., {SETTINGS[name].format(value)})"
            )
