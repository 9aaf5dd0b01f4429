"""What goes wrong in memory must not break the host."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from lorebank import LorebankError, Session
from lorebank.seams import Alias

logger = logging.getLogger("lorebank")


@contextmanager
def quiet(session: Session | Alias, verb: str) -> Iterator[None]:
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
