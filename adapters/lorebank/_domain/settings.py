"""Settings: one model for each concern, strict. An unknown key, a number out of range or an unknown choice raises
`UsageError` at construction, naming the field, the value and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from lorebank._domain import memory as memories
from lorebank._domain.item import Item
from lorebank._domain.memory import FACTS, Budget, MemoryType
from lorebank._domain.mental_model import SEEDS, Seed
from lorebank._domain.message import Keep
from lorebank._domain.redaction import Redactor, redact
from lorebank._domain.scope import parse_tags
from lorebank.errors import LorebankError, UsageError


class Settings(BaseModel):
    """What all settings share: frozen, no unknown keys, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise UsageError(_explain(type(self), error)) from None

    @classmethod
    def parse(cls, value: Self | Mapping[str, Any] | None) -> Self:
        """These settings, from a model, a mapping or nothing (the defaults)."""
        if isinstance(value, cls):
            return value
        if value is None:
            return cls()
        if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            raise UsageError(f"{cls.__name__} must be a {cls.__name__} or a mapping; found {type(value).__name__}")
        return cls(**{str(name): each for name, each in value.items()})


def _explain(kind: type[Settings], error: ValidationError) -> str:
    """The first mistake, in words: where, what was found, what is allowed. Secrets are never shown."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{kind.__name__} has no setting `{field}`; it has {', '.join(sorted(kind.model_fields))}"
    annotation = str(kind.model_fields[str(first["loc"][0])].annotation) if first["loc"] else ""
    found = "a secret" if "Secret" in annotation else repr(first["input"])
    return f"{kind.__name__}.{field} can't be {found}: {first['msg']}"


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # a folder of zones is no zone
        raise ValueError(f"{name!r} is no time zone known here; use a name such as 'Europe/Berlin' or 'UTC'") from error
    return name


def _types(value: object) -> object:
    if isinstance(value, (list, tuple)):
        try:
            return memories.parse_types(cast("list[object]", value))
        except LorebankError as error:
            raise ValueError(str(error)) from error
    return value


def _secret(value: object) -> object:
    return SecretStr(value) if isinstance(value, str) else value


def _listed(value: object) -> object:
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _tags(value: object) -> object:
    try:
        return parse_tags(value) if value != () else ()
    except LorebankError as error:
        raise ValueError(str(error)) from error


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS = ("bank", "project", "session_id")


def _scopes(values: tuple[str, ...]) -> tuple[str, ...]:
    for name in (name for value in values for name in _PLACEHOLDER.findall(value)):
        if name not in _PLACEHOLDERS:
            raise ValueError(f"{{{name}}} is no placeholder; there are {', '.join(f'{{{each}}}' for each in _PLACEHOLDERS)}")
    return values


Seconds = Annotated[float, Field(gt=0, le=86_400)]
Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Tags = Annotated[tuple[str, ...], BeforeValidator(_tags)]
Scopes = Annotated[tuple[str, ...], BeforeValidator(_tags), AfterValidator(_scopes)]
Types = Annotated[tuple[MemoryType, ...], BeforeValidator(_types)]


class ConnectionSettings(Settings):
    """How a server is reached. Times are seconds, each a total deadline."""

    api_key: Annotated[SecretStr | None, BeforeValidator(_secret)] = None
    connect_timeout: Seconds = 5
    recall_timeout: Seconds = 30
    retain_timeout: Seconds = 60
    reflect_timeout: Seconds = 120
    timeout: Seconds = 30
    close_timeout: Annotated[float, Field(ge=0, le=3600)] = 2
    max_body_bytes: Annotated[int, Field(ge=1024)] = 8 * 1024 * 1024
    insecure_hosts: Names = ()


class RecallSettings(Settings):
    """What a recall returns, and how the automatic one is made. `None` takes the backend's own default."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 8
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    types: Types = FACTS
    budget: Budget = "mid"
    prefer_observations: bool = False
    min_score: Annotated[float, Field(allow_inf_nan=False)] | None = None
    count_tokens: Callable[[str], int] = memories.count_tokens
    auto_recall: bool = True
    recall_when: Literal["every-turn", "first-turn"] = "every-turn"
    context_turns: Annotated[int, Field(ge=1, le=100)] | None = None
    max_query_chars: Annotated[int, Field(ge=16)] | None = None
    deadline: Seconds = 2
    position: Literal["in-user", "before-user", "system"] = "in-user"
    include_source_facts: bool = False
    tell_model: bool = False
    keep_traces: Annotated[int, Field(ge=0)] = 0


class Missions(Settings):
    """What a bank on a server is told to keep (`retain`), to answer for (`reflect`) and to conclude (`observations`)."""

    retain: str | None = None
    reflect: str | None = None
    observations: str | None = None

    @classmethod
    def user(cls) -> Missions:
        """For a bank about one person."""
        return cls(
            retain="Keep what will still matter weeks from now: who the user is, what they like and dislike, what they plan, "
            "decided and promised, names, dates and places. Leave out small talk and the state of a single task.",
            reflect="Answer for an assistant that helps this user: what is known of them, as it stands now, with dates.",
            observations="Conclude what the user prefers and how they work; let a newer statement replace an older one.",
        )

    @classmethod
    def project(cls) -> Missions:
        """For a bank about a project and the people who work on it."""
        return cls(
            retain="Keep what the next person on this project needs: decisions with their reasons, conventions, how things are "
            "built and run, what failed and why, and what people prefer. Leave out the state of a single task.",
            reflect="Answer for an assistant that works on this project: what was decided and why, as it stands now.",
            observations="Conclude how this project is done; let a newer decision replace an older one.",
        )


class RetainSettings(Settings):
    """What is written, and when the automatic retain writes it. `None` takes the backend's own default.

    `missions` are what a server's bank is told when it is made; `None` takes a preset, for a user or for a project.
    """

    timezone: Annotated[str, AfterValidator(_zone)] | None = None
    redactor: Redactor | None = redact
    before_enqueue: Callable[[Item], Item | None] | None = None
    missions: Missions | None = None
    auto_retain: bool = True
    retain_mode: Literal["append", "full-session", "last-turn"] = "append"
    every_n_turns: Annotated[int, Field(ge=1)] | None = None
    overlap_turns: Annotated[int, Field(ge=0)] = 2
    keep: Keep = Keep()
    retain_context: str = "conversation"
    transcript_format: Literal["json", "text"] = "json"
    base_tags: Tags = ()
    observation_scopes: Scopes = ()
    on_cancel: Literal["user", "partial"] = "user"
    on_rewrite: Literal["append", "replace"] = "append"

    def model_post_init(self, _context: object) -> None:
        if self.on_rewrite == "replace" and self.retain_mode != "full-session":
            raise UsageError("RetainSettings.on_rewrite can be 'replace' only with retain_mode='full-session'")

    def zone(self) -> ZoneInfo | None:
        """The zone in which naive times are read; `None` is the system's."""
        return None if self.timezone is None else ZoneInfo(self.timezone)


class OutboxSettings(Settings):
    """Bounds of the outbox."""

    max_rows: Annotated[int, Field(ge=1)] = 100_000
    max_bytes: Annotated[int, Field(ge=1024)] = 256 * 1024 * 1024
    max_age_days: Annotated[float, Field(gt=0)] = 90
    batch_rows: Annotated[int, Field(ge=1, le=1000)] = 16
    batch_seconds: Seconds = 5
    lease_seconds: Seconds = 60
    max_backoff: Seconds = 300
    durable: bool = True


class MentalModelSettings(Settings):
    """Mental models: seeding, caching and rendering. `seeds` are what a bank starts with; times are in seconds."""

    enabled: bool = True
    auto_seed: bool = True
    refresh: Literal["auto", "manual"] = "auto"
    refresh_seconds: Seconds = 300
    first_wait: Annotated[float, Field(ge=0, le=60)] = 1.5
    freeze: Literal["never", "session"] = "never"
    max_render_chars: Annotated[int, Field(ge=512)] = 16_000
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_listed)] = SEEDS


Weight = Annotated[float, Field(ge=0, le=10)]


class RankingWeights(Settings):
    """What each signal adds to a memory's score, beside 1.0 for the best lexical match.

    Every signal lies between 0 and 1 (`length` may pass 1 for very long texts) and vanishes where its metadata is
    missing. Values come from the measured design (`docs/benchmarks.md`): `conversation()` are the tuned ones, most
    defaults are half of them, which generalised better to chats by real people. The three of `meaning` work where the
    bank has an embedder. `importance`, `veracity` and `recency` only order memories that match about equally.
    """

    speaker: Weight = 0.7
    around: Weight = 0.5
    reply: Weight = 0.5
    session: Weight = 0.4
    together: Weight = 0.2
    period: Weight = 0.5
    time_words: Weight = 0.3
    number: Weight = 0.3
    title: Weight = 0.4
    own: Weight = 0.15
    question: Weight = 0.15
    length: Weight = 0.15
    fact: Weight = 0.5
    meaning: Weight = 0.8
    meaning_around: Weight = 0.35
    meaning_session: Weight = 0.6
    importance: Weight = 0.2
    veracity: Weight = 0.05
    recency: Weight = 0.02

    @classmethod
    def conversation(cls) -> RankingWeights:
        """The tuned preset, for long chats between named people."""
        return cls(
            speaker=1.0,
            around=0.7,
            session=0.6,
            period=1.0,
            time_words=0.45,
            question=0.3,
            length=0.3,
        )


class FollowUp(Settings):
    """What the embedded engine does with memories in the background, and when.

    With a completer, `extraction` finds facts in what users have said; `consolidation` writes observations on its own
    (`None`: where there is a completer). Either begins with a bank when so many memories are new (`after`), the last one came
    `idle` seconds ago, or the first one `age` seconds ago. A completer is sent and gives about `tokens_per_day` tokens for
    each bank at most; what is left then waits for the next day (UTC).
    """

    extraction: bool = True
    consolidation: bool | None = None
    after: Annotated[int, Field(ge=1)] = 20
    idle: Seconds = 300
    age: Annotated[float, Field(gt=0, le=86_400 * 366)] = 86_400
    tokens_per_day: Annotated[int, Field(ge=0)] = 200_000


class MnemopiSettings(Settings):
    """The embedded engine.

    `floor` is how much of a question (0 to 1) must be answered for anything to be returned: the share of it that the best
    memory and the best session hold, more for questions about somebody, less for general requests. With an embedder,
    a memory is returned without that where it stands out in meaning: `standing` deviations beyond what the nearest of so
    many memories does by chance. A recall waits `query_timeout` seconds at most for the query's vector, then goes on by
    words.
    `synchronous="full"` makes each commit survive a power cut, not just a crash. `busy_timeout` is how long, in
    seconds, a write waits for other writers before `UnavailableError`.
    """

    ranking: RankingWeights = RankingWeights()
    floor: Annotated[float, Field(ge=0, le=1)] = 0.24
    standing: Annotated[float, Field(ge=0, le=100)] = 1.6
    query_timeout: Seconds = 1
    synchronous: Literal["normal", "full"] = "normal"
    busy_timeout: Seconds = 30
    follow_up: FollowUp = FollowUp()
