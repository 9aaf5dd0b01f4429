"""Reading a conversation file.

JSON: one object with `turns` and, where there are questions, `qa`. JSON Lines: one message or question a line. A
message has `speaker` and `text`, and where known `id`, `session`, `date` (ISO) and `caption` (of a picture). A question
has `question`, and where known `answer` and `evidence` (ids of the messages that hold the answer).
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lorebank import Item, UsageError


class Turn(BaseModel):
    """One message of the file."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    speaker: str
    text: str
    id: str = ""
    session: str = "1"
    date: datetime | None = None
    caption: str = ""

    def item(self, name: str) -> Item:
        """The message as something to retain; sessions carry the conversation's name."""
        text = f"{self.speaker}: {self.text}" + (f" [photo: {self.caption}]" if self.caption else "")
        session = f"{name}/{self.session}"
        return Item(text, session=session, speaker=self.speaker, timestamp=self.date, metadata={"turn": self.id})


class Question(BaseModel):
    """One question of the file."""

    question: str
    answer: Any = None
    category: str = ""
    evidence: list[str] = Field(default_factory=list)


class Conversation(BaseModel):
    """A whole file."""

    id: str
    turns: list[Turn]
    qa: list[Question] = Field(default_factory=list)


def read_conversation(path: Path) -> Conversation:
    """The conversation in a file; `UsageError` that says where it does not fit."""
    try:
        text = path.read_text(encoding="utf-8")
        return _whole(text, path.stem) if text.lstrip()[:1] == "{" and _is_json(text) else _lines(text, path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"`{path}` can't be read: {error}") from error
    except (ValidationError, json.JSONDecodeError) as error:
        raise UsageError(f"`{path}` is no conversation file: {error}") from error


def _is_json(text: str) -> bool:
    try:
        return "turns" in json.loads(text)
    except json.JSONDecodeError:
        return False


def _whole(text: str, name: str) -> Conversation:
    found = json.loads(text)
    return _numbered(Conversation.model_validate({"id": name, **found}))


def _lines(text: str, name: str) -> Conversation:
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    turns = [Turn.model_validate(row) for row in rows if "question" not in row]
    if not turns:
        raise UsageError("the file holds no message")
    return _numbered(Conversation(id=name, turns=turns, qa=[Question.model_validate(row) for row in rows if "question" in row]))


def _numbered(conversation: Conversation) -> Conversation:
    """Messages without an id get their number."""
    for number, turn in enumerate(conversation.turns, 1):
        turn.id = turn.id or str(number)
    return conversation
