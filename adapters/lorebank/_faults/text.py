"""From text to facts and from words to scores: what a deterministic model would answer.

One fact for each sentence, its text the sentence. `Assistant:` in front makes it an `experience`, an ISO date in it an
event, capitalised words its entities. A JSON chat transcript counts by its turns. `[no-facts]` in the content gives no
fact, `[fail]` or `[llm-error]` a failing extraction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

__all__ = ["ExtractionFailedError", "Sentence", "moment", "sentences", "tokens", "words"]

WORD = re.compile(r"[^\W_]+")
BORDER = re.compile(r"(?<=[.!?])\s+|\n+")
SPEAKER = re.compile(r"^(user|human|assistant):\s*", re.IGNORECASE)
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?\b")
NAME = re.compile(r"[A-Z][\w-]*(?: [A-Z][\w-]*)*")
FAILING = re.compile(r"\[(?:fail|llm-error)\]")
ENDINGS = ("ing", "ies", "ed", "es", "s")
COMMON_WORDS = (
    "a an and are as at be by did do does for from had has have he her his how i in is it its me my of on or our she so that"
    " the their them they this to was we were what when where which who why will with you your about"
)
COMMON = frozenset(COMMON_WORDS.split())


class ExtractionFailedError(Exception):
    """The content asks for a failing model."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a text as the model understood it."""

    text: str
    type: str
    start: datetime | None
    end: datetime | None
    entities: tuple[str, ...]


def sentences(content: str) -> tuple[Sentence, ...]:
    """The facts of a text, each once; `ExtractionFailedError` where it asks for a failure."""
    text = _spoken(content)
    if mark := FAILING.search(text):
        problem = f"InternalServerError: Error code: 500 - asked to fail by {mark.group()} in the content"
        raise ExtractionFailedError(f"Fact extraction failed: 1/1 chunks failed. First failures: chunk 0: {problem}")
    if "[no-facts]" in text:
        return ()
    found: dict[str, Sentence] = {}
    for part in BORDER.split(text):
        sentence = _sentence(part.strip())
        if WORD.search(sentence.text):
            found.setdefault(sentence.text, sentence)
    return tuple(found.values())


def words(text: str) -> frozenset[str]:
    """Word stems, without the common words unless there are no others.

    >>> sorted(words("Who likes green teas?"))
    ['green', 'lik', 'tea']
    """
    every = [match.group().lower() for match in WORD.finditer(text)]
    return frozenset(_stem(word) for word in every if word not in COMMON) or frozenset(every)


def tokens(text: str) -> int:
    """About how many tokens a text has: four characters each, at least one."""
    return max(1, -(-len(text) // 4))


def moment(text: str) -> datetime:
    """An ISO date or time; UTC where it names no zone. `ValueError` where it is none."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _sentence(text: str) -> Sentence:
    speaker = SPEAKER.match(text)
    said = text[speaker.end() :] if speaker else text
    kind = "experience" if speaker and speaker.group(1).lower() == "assistant" else "world"
    dates = [date for each in DATE.findall(said) if (date := _date(each))]
    return Sentence(said, kind, dates[0] if dates else None, dates[-1] if dates else None, _names(said))


def _date(text: str) -> datetime | None:
    try:
        return moment(text)
    except ValueError:
        return None


def _names(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in NAME.finditer(text):
        first, _, rest = match.group().partition(" ")
        name = rest if first.lower() in COMMON else match.group()
        if name:
            found[name] = None
    return tuple(found)


def _spoken(content: str) -> str:
    if not content.lstrip().startswith(("[", "{")):
        return content
    lines = [_turn(line) for line in content.splitlines()]
    return "\n".join(lines)


def _turn(line: str) -> str:
    try:
        parsed = json.loads(line)
    except ValueError:
        return line
    turns = cast("Sequence[Any]", parsed) if isinstance(parsed, list) else (parsed,)
    return "\n".join(_line(cast("Mapping[str, Any]", each)) if isinstance(each, dict) else str(each) for each in turns)


def _line(turn: Mapping[str, Any]) -> str:
    said = turn.get("content") or turn.get("text") or ""
    text = said if isinstance(said, str) else json.dumps(said)
    return f"Assistant: {text}" if turn.get("role") == "assistant" else text


def _stem(word: str) -> str:
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
