"""Everything lorebank raises, sorted by what the caller can do about it.

LorebankError
├─ UsageError              the caller's mistake; raised at construction where possible
│  └─ UnsupportedError     this backend can't do that
├─ UnavailableError        not now: refused connections, a busy database; safe to retry
│  ├─ DeadlineError        the bound was over first
│  ├─ RateLimitedError     carries how long to wait
│  └─ OutboxFullError      nothing was half-written
├─ RefusedError            understood, and the answer is no
│  ├─ MissingError         no such bank, memory, mental model
│  └─ ForbiddenError       credentials or scope
└─ GarbledError            the reply could not be understood (wire, database, model output)
"""

from __future__ import annotations

__all__ = [
    "DeadlineError",
    "ForbiddenError",
    "GarbledError",
    "LorebankError",
    "MissingError",
    "OutboxFullError",
    "RateLimitedError",
    "RefusedError",
    "UnavailableError",
    "UnsupportedError",
    "UsageError",
]


class LorebankError(Exception):
    """The root of the tree: catch it to catch everything of lorebank's.

    `status` is the HTTP status where a server answered, `detail` what it said, `retry_after` the seconds it asked to
    wait; each is `None` where it is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        detail: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after


class UsageError(LorebankError):
    """The call was wrong and stays wrong until the caller changes it."""


class UnsupportedError(UsageError):
    """The call is fine, but this backend has no such ability."""


class UnavailableError(LorebankError):
    """Memory can't answer now; the same call may succeed later."""


class DeadlineError(UnavailableError):
    """The time bound was over before the answer came."""


class RateLimitedError(UnavailableError):
    """The server asked for a pause; `retry_after` says how long."""


class OutboxFullError(UnavailableError):
    """The outbox has no room; nothing of the call was written."""


class RefusedError(LorebankError):
    """The call was understood and the answer is no."""


class MissingError(RefusedError):
    """There is no such bank, memory or mental model."""


class ForbiddenError(RefusedError):
    """The credentials or the scope don't allow it."""


class GarbledError(LorebankError):
    """What came back could not be understood, so it is not taken for an answer."""
