"""The public doors and the async twins."""

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import langchain_lorebank
import llamaindex_lorebank
import lorebank
from lorebank import Bank, Session, seams, testing
from lorebank._handles import DirectiveHandle, DocumentHandle, OperationHandle, OutboxHandle, SessionHandle
from lorebank._mental_models import MentalModelHandle
from lorebank.seams import MemoryTools

DOORS = [lorebank, seams, testing, langchain_lorebank, llamaindex_lorebank]
HANDLES = [
    Bank,
    MentalModelHandle,
    DocumentHandle,
    OperationHandle,
    DirectiveHandle,
    OutboxHandle,
    SessionHandle,
    MemoryTools,
    Session,
]
NOT_VERBS = {
    *("joined", "named", "threads", "connections", "mental_models", "shared", "scope", "backend", "name", "session"),
    *("after_fork", "alias", "change", "forgotten", "missed", "refusal", "skip_next"),  # a session's own, without I/O
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_name_of_a_door_loads(door: Any) -> None:
    """What `__all__` lists is there, once, and sorted."""
    assert len(set(door.__all__)) == len(door.__all__)
    assert [name for name in door.__all__ if not hasattr(door, name)] == []
    assert sorted(door.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)) == door.__all__


@pytest.mark.parametrize("door", [lorebank, seams, langchain_lorebank, llamaindex_lorebank], ids=lambda door: door.__name__)
def test_the_lazy_table_holds_exactly_what_the_door_lists(door: Any) -> None:
    """A name that is listed has a home, and a home gives no name that is not listed."""
    assert sorted(name for names in door._HOMES.values() for name in names) == sorted(door.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="opne_bank"):
        lorebank.opne_bank  # noqa: B018


def test_the_version_is_the_distribution_s() -> None:
    """`lorebank.__version__` is what pyproject.toml says."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{lorebank.__version__}"' in text


def verbs(handle: type) -> list[str]:
    """The public verbs of a handle."""
    public = [name for name, value in vars(handle).items() if not name.startswith("_") and inspect.isfunction(value)]
    return [name for name in public if name not in NOT_VERBS and not (name.startswith("a") and name[1:] in public)]


@pytest.mark.parametrize("handle", HANDLES)
def test_every_verb_has_an_awaitable_twin_with_its_signature(handle: type) -> None:
    """`recall` and `arecall` take the same arguments; the twin is awaitable."""
    assert len(verbs(handle)) >= 2
    for verb in verbs(handle):
        twin = getattr(handle, f"a{verb}")
        assert inspect.iscoroutinefunction(twin), verb
        assert inspect.signature(twin) == inspect.signature(getattr(handle, verb)) or verb == "close", verb


@pytest.mark.parametrize("package", ["langchain_lorebank", "llamaindex_lorebank"])
@pytest.mark.parametrize("module", ["tools", "retriever", "messages", "models", "runs", "testing"])
def test_both_integrations_have_the_same_rooms(package: str, module: str) -> None:
    """Identical file names where the job is the same."""
    assert importlib.import_module(f"{package}.{module}").__doc__
