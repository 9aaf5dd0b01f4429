"""Settings: strict, frozen, and clear about what is wrong."""

from typing import Any

import pytest
from pydantic import ValidationError

from lorebank._domain.message import Keep
from lorebank._domain.redaction import redact
from lorebank._domain.settings import (
    ConnectionSettings,
    MentalModelSettings,
    MnemopiSettings,
    OutboxSettings,
    RankingWeights,
    RecallSettings,
    RetainSettings,
    Settings,
)
from lorebank.errors import UsageError

ALL = [ConnectionSettings, RecallSettings, RetainSettings, OutboxSettings, MentalModelSettings, MnemopiSettings, RankingWeights]


def test_the_defaults_are_the_contracts() -> None:
    """What holds when nothing is said."""
    recall, retain, connection = RecallSettings(), RetainSettings(), ConnectionSettings()
    assert (recall.limit, recall.max_tokens, recall.types, recall.budget, recall.deadline) == (
        8,
        1024,
        ("world", "experience"),
        "mid",
        2,
    )
    assert (recall.recall_when, recall.position, recall.keep_traces) == ("every-turn", "in-user", 0)
    assert (retain.retain_mode, retain.overlap_turns, retain.retain_context, retain.redactor) == (
        "append",
        2,
        "conversation",
        redact,
    )
    assert (connection.connect_timeout, connection.recall_timeout, connection.retain_timeout) == (5, 30, 60)
    assert (connection.reflect_timeout, connection.timeout, connection.close_timeout) == (120, 30, 2)
    assert connection.max_body_bytes == 8 * 1024 * 1024
    outbox, models = OutboxSettings(), MentalModelSettings()
    assert (outbox.max_rows, outbox.max_bytes, outbox.max_age_days, outbox.batch_rows) == (100_000, 268_435_456, 90, 16)
    assert (models.auto_seed, models.first_wait, models.refresh_seconds, models.max_render_chars) == (True, 1.5, 300, 16_000)


@pytest.mark.parametrize("kind", ALL)
def test_an_unknown_key_is_refused(kind: type[Settings]) -> None:
    """The error names the key and what there is."""
    with pytest.raises(UsageError, match=f"{kind.__name__} has no setting `limt`; it has "):
        kind(limt=3)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (RecallSettings, {"limit": 0}),
        (RecallSettings, {"limit": 1001}),
        (RecallSettings, {"limit": True}),
        (RecallSettings, {"limit": "8"}),
        (RecallSettings, {"max_tokens": 0}),
        (RecallSettings, {"types": ()}),
        (RecallSettings, {"types": "world"}),
        (RecallSettings, {"types": ("opinion",)}),
        (RecallSettings, {"budget": "huge"}),
        (RecallSettings, {"min_score": float("nan")}),
        (RecallSettings, {"count_tokens": 3}),
        (RecallSettings, {"recall_when": "never"}),
        (RecallSettings, {"context_turns": 0}),
        (RecallSettings, {"max_query_chars": 15}),
        (RecallSettings, {"deadline": 0}),
        (RecallSettings, {"deadline": float("nan")}),
        (RecallSettings, {"position": "footer"}),
        (RecallSettings, {"keep_traces": -1}),
        (RetainSettings, {"timezone": "Mars/Olympus"}),
        (RetainSettings, {"timezone": ""}),
        (RetainSettings, {"timezone": "Europe"}),
        (RetainSettings, {"timezone": "../etc/passwd"}),
        (RetainSettings, {"redactor": "no"}),
        (RetainSettings, {"before_enqueue": 1}),
        (RetainSettings, {"retain_mode": "all"}),
        (RetainSettings, {"every_n_turns": 0}),
        (RetainSettings, {"overlap_turns": -1}),
        (RetainSettings, {"keep": "all"}),
        (RetainSettings, {"transcript_format": "xml"}),
        (RetainSettings, {"base_tags": "x"}),
        (RetainSettings, {"base_tags": ("",)}),
        (RetainSettings, {"base_tags": ("a\nb",)}),
        (RetainSettings, {"observation_scopes": ("{nobody}",)}),
        (RetainSettings, {"on_cancel": "drop"}),
        (RetainSettings, {"on_rewrite": "merge"}),
        (OutboxSettings, {"max_rows": 0}),
        (OutboxSettings, {"max_bytes": 1023}),
        (OutboxSettings, {"max_age_days": 0}),
        (OutboxSettings, {"batch_rows": 1001}),
        (OutboxSettings, {"lease_seconds": -1}),
        (OutboxSettings, {"durable": 1}),
        (MentalModelSettings, {"refresh": "often"}),
        (MentalModelSettings, {"first_wait": 61}),
        (MentalModelSettings, {"freeze": "always"}),
        (MentalModelSettings, {"max_render_chars": 511}),
        (MnemopiSettings, {"floor": 1.1}),
        (MnemopiSettings, {"synchronous": "off"}),
        (MnemopiSettings, {"busy_timeout": 0}),
        (RankingWeights, {"speaker": 11}),
        (RankingWeights, {"recency": -0.1}),
        (ConnectionSettings, {"timeout": 86_401}),
        (ConnectionSettings, {"close_timeout": -1}),
        (ConnectionSettings, {"max_body_bytes": 0}),
        (ConnectionSettings, {"insecure_hosts": "host"}),
    ],
)
def test_a_bad_value_is_refused_by_field(kind: type[Settings], values: dict[str, Any]) -> None:
    """`UsageError` at construction, naming the settings and the field."""
    with pytest.raises(UsageError, match=rf"{kind.__name__}\.{next(iter(values))}"):
        kind(**values)


def test_an_error_names_the_value_and_what_is_allowed() -> None:
    """Where, what was found, what is allowed."""
    with pytest.raises(UsageError) as caught:
        RecallSettings(budget="huge")
    assert str(caught.value) == "RecallSettings.budget can't be 'huge': Input should be 'low', 'mid' or 'high'"


@pytest.mark.parametrize("rules", [{"tool_results": "sometimes"}, {"include": "recall"}, {"user": "no"}])
def test_bad_rules_of_what_to_keep_are_refused(rules: dict[str, Any]) -> None:
    """An unknown choice inside `keep` doesn't fall back silently."""
    with pytest.raises(UsageError, match="keep"):
        RetainSettings(keep=Keep(**rules))


def test_types_are_given_as_a_list_or_tuple_with_older_names() -> None:
    """Stored in their canonical names."""
    assert RecallSettings(types=["fact", "observation"]).types == ("world", "observation")


def test_observation_scopes_may_use_the_three_placeholders() -> None:
    """`{bank}`, `{project}` and `{session_id}`."""
    given = ["{bank}", "{project}", "user:{session_id}"]
    assert RetainSettings(observation_scopes=given).observation_scopes == ("{bank}", "{project}", "user:{session_id}")


@pytest.mark.parametrize("kind", ALL)
def test_settings_are_parsed_from_a_model_a_mapping_or_nothing(kind: type[Settings]) -> None:
    """A model is taken as it is."""
    one = kind()
    assert (kind.parse(one) is one, kind.parse({}), kind.parse(None)) == (True, one, one)


@pytest.mark.parametrize("value", ["x", 5, [("limit", 3)], MnemopiSettings()])
def test_settings_from_anything_else_are_refused(value: Any) -> None:
    """The error names what was expected."""
    with pytest.raises(UsageError, match="RecallSettings must be a RecallSettings or a mapping; found"):
        RecallSettings.parse(value)


def test_a_key_that_is_no_text_is_refused() -> None:
    """A mapping with other keys is a mistake of the caller's."""
    with pytest.raises(UsageError, match="RecallSettings"):
        RecallSettings.parse({1: 2})  # type: ignore[dict-item]


def test_settings_are_frozen() -> None:
    """Nothing changes under a bank's feet."""
    with pytest.raises(ValidationError):
        RecallSettings().limit = 3  # type: ignore[misc]


def test_nested_settings_may_be_a_mapping() -> None:
    """`ranking={...}` inside Mnemopi's settings, with the same strictness."""
    assert MnemopiSettings(ranking={"speaker": 1.0}).ranking.speaker == 1.0
    with pytest.raises(UsageError, match=r"RankingWeights\.speaker"):
        MnemopiSettings(ranking={"speaker": 100.0})


def test_a_secret_never_shows() -> None:
    """Not in a repr, not in an error."""
    settings = ConnectionSettings(api_key="hunter2hunter2")
    assert "hunter2" not in repr(settings) + str(settings)
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "hunter2hunter2"
    with pytest.raises(UsageError) as caught:
        ConnectionSettings(api_key=["hunter2hunter2"])
    assert str(caught.value) == "ConnectionSettings.api_key can't be a secret: Input should be a valid string"


def test_a_zone_is_the_named_one_or_the_systems() -> None:
    """`None` is the system's zone."""
    assert str(RetainSettings(timezone="Europe/Berlin").zone()) == "Europe/Berlin"
    assert RetainSettings().zone() is None


def test_the_conversation_preset_is_stronger() -> None:
    """The tuned weights for long chats between named people."""
    preset = RankingWeights.conversation()
    assert (preset.speaker, preset.session, preset.period, preset.importance) == (1.0, 0.6, 1.0, 0.2)
