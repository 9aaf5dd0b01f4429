"""The exception tree: what callers may catch, and what an error carries."""

import pickle

import pytest

from lorebank import errors

PARENTS = {
    "LorebankError": "Exception",
    "UsageError": "LorebankError",
    "UnsupportedError": "UsageError",
    "UnavailableError": "LorebankError",
    "DeadlineError": "UnavailableError",
    "RateLimitedError": "UnavailableError",
    "OutboxFullError": "UnavailableError",
    "RefusedError": "LorebankError",
    "MissingError": "RefusedError",
    "ForbiddenError": "RefusedError",
    "GarbledError": "LorebankError",
}


@pytest.mark.parametrize(("name", "parent"), PARENTS.items())
def test_each_error_stands_at_its_place_in_the_tree(name: str, parent: str) -> None:
    """Callers decide by class, so the tree is fixed."""
    assert [base.__name__ for base in getattr(errors, name).__bases__] == [parent]


def test_the_module_exports_exactly_the_tree() -> None:
    """`__all__` names every error and nothing else, sorted."""
    assert errors.__all__ == sorted(PARENTS)


def test_an_error_carries_what_is_known_of_the_reply() -> None:
    """`status`, `detail` and `retry_after` are plain data on the error."""
    error = errors.RateLimitedError("slow down", status=429, detail="too many", retry_after=2.5)
    assert (str(error), error.status, error.detail, error.retry_after) == ("slow down", 429, "too many", 2.5)


def test_what_is_not_known_is_none() -> None:
    """An error without a reply has none of its data."""
    error = errors.LorebankError("no")
    assert (error.status, error.detail, error.retry_after) == (None, None, None)


def test_an_error_survives_pickling() -> None:
    """Errors cross process borders whole."""
    copy = pickle.loads(pickle.dumps(errors.RateLimitedError("wait", status=429, retry_after=3.0)))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), copy.status, copy.retry_after) == (errors.RateLimitedError, "wait", 429, 3.0)
