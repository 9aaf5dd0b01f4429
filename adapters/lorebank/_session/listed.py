"""The texts of the messages that the model sees anyway, kept while a history grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from lorebank._domain.fusion import folded
from lorebank._domain.injection import Seen, words_of
from lorebank._domain.message import Message, project
from lorebank._domain.settings import RetainSettings
from lorebank._session.view import Call

RECENT = 40
"""Messages of a host that hands over deltas, kept for the context of queries."""


class Recent:
    """What was said in earlier runs, where a host hands over the messages of one run only."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque(maxlen=RECENT)

    def add(self, call: Call, fresh: Sequence[Message]) -> None:
        """Keeps a delta's new messages."""
        if not call.full:
            self._messages.extend(fresh)

    def conversation(self, call: Call) -> Sequence[Message]:
        """What a query is made from: the messages handed over, after those of earlier runs that a delta leaves out."""
        if call.full:
            return call.messages
        return (*(message for message in self._messages if message not in call.messages), *call.messages)


class Listed:
    """What the last history handed over says."""

    def __init__(self) -> None:
        self._keys: tuple[int, ...] = ()
        self._texts: set[str] = set()
        self._words: set[str] = set()

    def seen(self, session: str, call: Call, settings: RetainSettings, *, complete: bool) -> Seen:
        """What is seen anyway with a call's messages; of a history that has grown only the new ones are read."""
        if not self._keys or call.keys[: len(self._keys)] != self._keys:
            self._keys, self._texts, self._words = (), set(), set()
        for message in call.messages[len(self._keys) :]:
            text = project(message, settings.keep) or message.text
            clean = text if settings.redactor is None else settings.redactor(text)[0]
            self._texts.add(folded(clean))
            self._words.update(words_of(clean))
        self._keys = call.keys
        return Seen(session, self._texts, self._words, complete)
