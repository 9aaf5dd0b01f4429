"""Answers that a completer writes: asking it, and the record of what each line of an answer was written from.

The completer is a user's own model: it takes its time, so it is never asked inside a transaction. What it was shown is
compared, by each memory's version, with what is there when its answer is written down.

A record stands in a mental model's `based_on`. A list of ids is the record of ranked memories, one a line; an object gives
for each id its version, the lines that cite the memory and the lines that *echo* it. A line echoes a memory that it does
not cite where that one explains words of it that neither the question nor its citations do: models cite carelessly, and
forgetting must reach every line that repeats what is forgotten.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, or_, select

from lorebank._domain.memory import Memory, Reflection, count_tokens
from lorebank._domain.ports import Completer
from lorebank._domain.requests import ReflectRequest
from lorebank._domain.scope import Scope, TagRule
from lorebank._domain.synthesis import (
    SCHEMA,
    Statement,
    bullets,
    corrected,
    model_prompt,
    parse_object,
    parse_statements,
    reflect_prompt,
    sentences,
    structured_prompt,
    within,
)
from lorebank._domain.toolbook import NOTHING_TO_REFLECT
from lorebank._mnemopi.rows import tags_of, to_memory
from lorebank._mnemopi.schema import banks, memories
from lorebank._mnemopi.search.terms import terms
from lorebank.errors import GarbledError, UnavailableError, UsageError

T = TypeVar("T")
_AT_ONCE = 500


def checked(completer: object) -> Completer | None:
    """The completer, if it is one; `UsageError` otherwise."""
    if completer is None:
        return None
    complete = getattr(completer, "complete", None)
    if isinstance(completer, type) or not callable(complete) or not _takes(complete):
        raise UsageError(
            "`completer` must be an object with `complete(prompt, *, schema=None, max_tokens) -> str` "
            f"(lorebank.seams.Completer); found {_named(completer)}"
        )
    if inspect.iscoroutinefunction(complete):
        raise UsageError(
            "`completer.complete` must be a plain function, not an async one: lorebank calls it in a thread of its own"
        )
    return cast("Completer", completer)


def _named(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _takes(complete: Callable[..., object]) -> bool:
    """Whether it can be called as a completer; one that does not tell is believed."""
    try:
        inspect.signature(complete).bind("", schema=None, max_tokens=1)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a completer."""

    prompt: str
    schema: Mapping[str, Any]
    max_tokens: int


def ask(completer: Completer, asked: Asked, parse: Callable[[str], T]) -> T:
    """The completer's answer, read; where it can't be read, the completer is asked once more.

    `UnavailableError` where it fails, `GarbledError` where the second answer can't be read either.
    """
    try:
        return parse(_complete(completer, asked, asked.prompt))
    except GarbledError as error:
        reason = str(error)
    try:
        return parse(_complete(completer, asked, corrected(asked.prompt, reason)))
    except GarbledError as error:
        raise GarbledError(
            f"the completer was asked twice, and {error}: use a model that follows a JSON Schema, or allow it more tokens"
        ) from error


def _complete(completer: Completer, asked: Asked, prompt: str) -> str:
    try:
        reply = cast("object", completer.complete(prompt, schema=asked.schema, max_tokens=asked.max_tokens))
    except GarbledError as error:
        raise GarbledError("its model gave no answer of the asked shape") from error
    except Exception as error:
        raise UnavailableError(f"the completer failed ({type(error).__name__}): see the chained error, and try again") from error
    if not isinstance(reply, str):
        raise GarbledError(f"the answer is no text but {type(reply).__name__}")
    return reply


def reflection(completer: Completer, request: ReflectRequest, found: tuple[Memory, ...]) -> Reflection:
    """An answer from the memories that were found. With a schema of the caller's, it is based on all of them."""
    if not found:
        return Reflection(NOTHING_TO_REFLECT)
    question, bound = request.recall.query, request.recall.max_tokens
    if request.response_schema is not None:
        prompt = structured_prompt(question, request.context, found)
        told = ask(completer, Asked(prompt, request.response_schema, bound), parse_object)
        return Reflection(json.dumps(told, ensure_ascii=False), found, told)
    prompt = reflect_prompt(question, request.context, found)
    statements = ask(completer, Asked(prompt, SCHEMA, bound), lambda reply: parse_statements(reply, len(found)))
    cited = {number for statement in statements for number in statement.cited}
    based_on = tuple(memory for number, memory in enumerate(found, 1) if number in cited)
    return Reflection(sentences(statements) or NOTHING_TO_REFLECT, based_on)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an answer with the ids of the memories that it cites and of those that it echoes."""

    text: str
    cited: tuple[str, ...] = ()
    echoed: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        return self.cited + self.echoed


@dataclass(frozen=True, slots=True)
class Written:
    """An answer, line by line; `versions` are those of its sources when it was written, where they are known."""

    lines: tuple[Line, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def content(self) -> str:
        return "\n".join(line.text for line in self.lines)

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(source for line in self.lines for source in line.sources)

    def without(self, gone: AbstractSet[str]) -> Written:
        """The lines that owe nothing to these memories."""
        return Written(tuple(line for line in self.lines if gone.isdisjoint(line.sources)), self.versions)

    def changed(self, now: Mapping[str, str]) -> frozenset[str]:
        """The sources that are no longer what they were, by the versions of now."""
        return frozenset(source for source in self.sources if source not in now or now[source] != self.versions.get(source))

    def record(self) -> str | None:
        places = dict[str, tuple[list[int], list[int]]]()
        for place, line in enumerate(self.lines):
            for kind, sources in enumerate((line.cited, line.echoed)):
                for source in sources:
                    places.setdefault(source, ([], []))[kind].append(place)
        found = {source: (self.versions.get(source), *lines) for source, lines in places.items()}
        return json.dumps(found, separators=(",", ":")) if found else None


def written(content: str, record: str | None) -> Written:
    """An answer as it stands in the database. What was written by hand owes nothing to any memory."""
    texts = content.split("\n") if content else []
    found: object = json.loads(record) if record else []
    if isinstance(found, list):
        ids = tuple(cast("list[str]", found))
        return Written(tuple(Line(text, each) for text, each in zip(texts, _ranked(ids, len(texts)), strict=True)))
    entries = cast("dict[str, tuple[str | None, list[int], list[int]]]", found)
    lines = tuple(
        Line(
            text,
            tuple(source for source, (_, cited, _) in entries.items() if place in cited),
            tuple(source for source, (_, _, echoed) in entries.items() if place in echoed),
        )
        for place, text in enumerate(texts)
    )
    return Written(lines, {source: version for source, (version, _, _) in entries.items() if version is not None})


def _ranked(ids: tuple[str, ...], count: int) -> list[tuple[str, ...]]:
    """What each line of ranked memories owes: one memory each, or, where the numbers don't fit, any of them."""
    return [(each,) for each in ids] if len(ids) == count else [ids] * count


def cited(record: str | None) -> tuple[str, ...]:
    """The ids of the memories that a recorded answer cites."""
    found: object = json.loads(record) if record else []
    if isinstance(found, list):
        return tuple(cast("list[str]", found))
    entries = cast("dict[str, tuple[str | None, list[int], list[int]]]", found)
    return tuple(source for source, (_, lines, _) in entries.items() if lines)


def standing(connection: Connection, scope: Scope, ids: AbstractSet[str], now: int) -> dict[str, dict[str, Any]]:
    """The rows of those of these memories that are there and valid, in the banks that the scope reads."""
    wanted, found = sorted(ids), dict[str, dict[str, Any]]()
    valid = (memories.c.invalidated_at.is_(None), or_(memories.c.valid_until.is_(None), memories.c.valid_until > now))
    joined = select(memories, banks.c.name.label("bank_name")).join(banks, banks.c.number == memories.c.bank)
    for start in range(0, len(wanted), _AT_ONCE):
        part = memories.c.id.in_(wanted[start : start + _AT_ONCE])
        rows = connection.execute(joined.where(banks.c.name.in_(scope.searched), part, *valid)).mappings()
        found |= {row["id"]: dict(row) for row in rows}
    return found


def versions(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What tells a memory from itself after a change of its text or its tags."""
    return {identity: bytes(row["digest"]).hex() for identity, row in rows.items()}


@dataclass(frozen=True, slots=True)
class Task:
    """One standing question to be answered: for which scope, from what, within how many tokens, at what time (in ticks)."""

    scope: Scope
    question: str
    rule: TagRule | None
    max_tokens: int
    now: int

    def admits(self, tags: tuple[str, ...]) -> bool:
        return self.scope.admits(tags) and (self.rule is None or self.rule.admits(tags))


@dataclass(frozen=True, slots=True)
class Material:
    """What a completer is shown: memories, numbered from 1, and the lines of the present answer that still hold."""

    task: Task
    memories: tuple[Memory, ...]
    present: tuple[Line, ...]
    versions: Mapping[str, str]

    def prompt(self) -> str:
        numbers = {memory.id: number for number, memory in enumerate(self.memories, 1)}
        present = [
            Statement(line.text.removeprefix("- "), tuple(sorted(numbers[each] for each in line.cited))) for line in self.present
        ]
        return model_prompt(self.task.question, self.memories, present, self.task.max_tokens)


def gathered(connection: Connection, task: Task, recalled: tuple[Memory, ...], former: Written) -> Material:
    """The recalled memories and the lines of the former answer whose sources are all there for this scope and model.

    Memories that only these lines cite are shown beside the recalled ones, within a bound of their own.
    """
    rows = standing(connection, task.scope, former.sources | {memory.id for memory in recalled}, task.now)
    held = {source for source in former.sources if source in rows and task.admits(tags_of(rows[source]["tags"]))}
    shown = {memory.id: memory for memory in recalled}
    present: list[Line] = []
    left = task.max_tokens
    for line in former.lines:
        fresh = {each: to_memory(rows[each], rows[each]["bank_name"]) for each in line.cited if each in held.difference(shown)}
        cost = sum(count_tokens(memory.text) for memory in fresh.values())
        if line.text.strip() and held.issuperset(line.sources) and cost <= left:
            left -= cost
            shown |= fresh
            present.append(line)
    return Material(task, tuple(shown.values()), tuple(present), versions(rows))


def answered(completer: Completer, material: Material) -> Written:
    """What the completer makes of the material, within the bound."""
    bound = material.task.max_tokens
    count = len(material.memories)
    statements = ask(completer, Asked(material.prompt(), SCHEMA, bound), lambda reply: parse_statements(reply, count))
    said = {memory.id: frozenset(terms(f"{memory.speaker or ''} {memory.text}")) for memory in material.memories}
    lines = tuple(_line(statement, material, said) for statement in within(statements, bound))
    return Written(lines, material.versions)


def _line(statement: Statement, material: Material, said: Mapping[str, frozenset[str]]) -> Line:
    """A statement as a line of content, with the memories that it cites and those that it echoes."""
    ids = tuple(material.memories[number - 1].id for number in statement.cited)
    explained = frozenset(terms(material.task.question)).union(*(said[each] for each in ids))
    strange = frozenset(terms(statement.text)) - explained
    echoed = [each for each, spoken in said.items() if not strange.isdisjoint(spoken)]
    for line in material.present:
        echoed += line.sources if not strange.isdisjoint(terms(line.text)) else ()
    return Line(bullets([statement]), ids, tuple(each for each in dict.fromkeys(echoed) if each not in ids))
