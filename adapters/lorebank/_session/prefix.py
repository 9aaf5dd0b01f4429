"""The mental models of one bank, cached for the process: read in the background, the last good ones kept.

The first turn waits a moment for them; later ones never. On Mnemopi, models are answered anew when the bank has changed; on
a server that is the server's work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late

from lorebank._domain.blocks import render_mental_models
from lorebank._domain.events import ModelRefreshed, Skipped
from lorebank._domain.instructions import instructions
from lorebank._domain.mental_model import MentalModel
from lorebank._domain.requests import Stats
from lorebank._domain.session import MATRIX, Mode
from lorebank._domain.toolbook import Offer
from lorebank._mental_models import MentalModelHandle
from lorebank._session.home import Home
from lorebank.errors import LorebankError

logger = logging.getLogger("lorebank")
AGAIN = 15.0
"""Seconds after which models that could not be read are tried again."""


class ModelCache:
    """What a bank's sessions put in front of the system message."""

    def __init__(self, home: Home, clock: Callable[[], float]) -> None:
        self._home, self._clock = home, clock
        self._lock = threading.Lock()
        self._block: str | None = None
        self._due = 0.0
        self._waited = False
        self._running: Future[None] | None = None
        self._state: Stats | None = None

    def block(self, wait: float) -> str | None:
        """The block as it is known; `None` before the models could be read, for which `wait` seconds are spent the first time."""
        settings = self._home.settings.mental_models
        if not settings.enabled:
            return ""
        if self._block is None or settings.refresh == "auto":
            running = self._begun()
            if self._block is None and running is not None and not self._waited:
                self._waited = True
                _wait(running, min(wait, settings.first_wait))
        return self._block

    def drop(self) -> None:
        """Forgets what was read: something of the bank was deleted."""
        with self._lock:
            self._block, self._state, self._waited, self._due = None, None, False, 0.0

    def reload(self) -> None:
        """Reads the models now; raises where that can't be done."""
        self._load()

    def _begun(self) -> Future[None] | None:
        """Reads in the background when it is time; gives what is under way."""
        with self._lock:
            if (self._running is None or self._running.done()) and self._clock() >= self._due:
                self._due = self._clock() + AGAIN
                self._running = self._home.opened().threads.submit(self._quietly, "automatic")
            return self._running

    def _quietly(self) -> None:
        """Reads the models; where that fails the last good ones stay."""
        try:
            self._load()
        except LorebankError as error:
            bank = self._home.scope.bank
            logger.warning("the mental models of bank %s could not be read: %s", bank, type(error).__name__)
            self._home.connections.tell(Skipped(bank, "mental_models", type(error).__name__))

    def _load(self) -> None:
        home, settings = self._home, self._home.settings.mental_models
        handle = MentalModelHandle(home.opened, home.scope, home.scoping, home.label)
        if settings.auto_seed:
            self._seed(handle)
        models = handle.list()
        if home.backend.name == "mnemopi":
            models = self._answered(models)
        block = render_mental_models(models, max_chars=settings.max_render_chars)
        with self._lock:
            if self._block is not None and block != self._block:
                home.opened().tell(ModelRefreshed(home.scope.bank, "*", changed=True))
            self._block, self._due = block, self._clock() + settings.refresh_seconds

    def _seed(self, handle: MentalModelHandle) -> None:
        """Makes the models that a bank starts with; where that fails, those that are there are shown all the same."""
        try:
            handle.ensure(self._home.settings.mental_models.seeds)
        except LorebankError as error:
            bank = self._home.scope.bank
            logger.warning("the mental models of bank %s could not be made: %s", bank, type(error).__name__)
            self._home.connections.tell(Skipped(bank, "seed", type(error).__name__))

    def _answered(self, models: Sequence[MentalModel]) -> tuple[MentalModel, ...]:
        """The models, those answered anew that the bank has outgrown."""
        backend, scope = self._home.backend, self._home.scope
        before, self._state = self._state, backend.stats(scope)
        return tuple(
            backend.models.refresh(scope, model.id) if _outgrown(model, before, self._state) else model for model in models
        )


class Prefix:
    """One session's instructions and mental models: what belongs at the start of the system message."""

    def __init__(self, home: Home, models: ModelCache) -> None:
        self._home, self._models = home, models
        self._frozen: str | None = None

    def text(self, mode: Mode, offer: Offer, wait: float) -> tuple[str, str]:
        """The prefix, and the block of mental models in it; with `freeze="session"` the models that were there first stay."""
        settings, recalls = self._home.settings, MATRIX[mode].recall
        block = self._models.block(wait) if recalls else ""
        if recalls and settings.mental_models.freeze == "session":
            if self._frozen is None:
                self._frozen = block
            block = self._frozen
        blocks = recalls and (settings.recall.auto_recall or bool(block))
        return "\n\n".join(filter(None, (instructions(mode, offer, blocks=blocks), block))), block or ""

    def reload(self) -> None:
        """Reads the models now; raises where that can't be done."""
        self._models.reload()
        self._frozen = None


def _outgrown(model: MentalModel, before: Stats | None, now: Stats) -> bool:
    """Whether the bank may know something that the model does not say."""
    if before is not None:
        return (before.memories, before.invalidated) != (now.memories, now.invalidated)
    told = model.refreshed_at
    return bool(now.memories) and (not model.content or told is None or (now.newest is not None and now.newest > told))


def _wait(running: Future[None], seconds: float) -> None:
    try:
        running.result(timeout=max(seconds, 0.0))
    except Late:
        logger.info("a turn goes on before the mental models are there")
