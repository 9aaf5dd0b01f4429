"""What goes wrong in memory must not break the host."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from lorebank._session.alias import Alias
from lorebank._session.session import Session
from lorebank.errors import LorebankError

logger = logging.getLogger("lorebank")


@contextmanager
def quiet(session: Session | Alias, verb: str) -> Generator[None]:
    """Keeps failures of the code inside from the host. Lorebank's own errors get through where the application wants them: the
    session has kept all others.
    """
    try:
        yield
    except LorebankError:
        raise
    except Exception as error:
        logger.debug("%s failed", verb, exc_info=error)
        session.missed(verb, error)


def missed(session: Session, verb: str, error: BaseException) -> None:
    """Tells of a failure that must not reach the host."""
    try:
        session.missed(verb, error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
    except LorebankError:
        logger.warning("%s came too late: its bank is closed", verb)
