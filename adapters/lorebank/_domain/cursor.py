"""Which messages of a conversation are new: a set of identities, never a position.

A message has up to three identities, and is known once one of them is taken:

- *id*: the host's message id with a digest of the content, so that an edited message is new;
- *chain*: in a full history, the digest of everything up to and including the message. Resending, rewinding and coming
  back to an old branch lead to the same chains; the same words said again stand in another place and have another one;
- *run*: within one run, the n-th message of this role and content, so that two observers of a run record it once.

A history that was compacted or trimmed has new chains. Its messages are then aligned with the last history seen: the
longest run of messages that ends that history is known. What is in doubt is new: said twice is better than lost. Only what
was skipped on purpose stays skipped in doubt.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lorebank._domain import blocks
from lorebank._domain.message import Message

SIZE = 16
"""Bytes of an identity."""
SHORT = 8
"""Bytes by which a history's messages are compared."""
CONVINCING = 40
"""Characters that a run of messages must have at least to be taken for one that was seen before."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells a message apart: its content's digest, and its identities by id and by place."""

    digest: bytes
    id: bytes | None = None
    chain: bytes | None = None
    length: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """An identity that is taken: in which run, under which host id (`None`: by a message without one), whether its message was
    retained (`kept`) or passed over, and when it was first `seen`, in seconds since 1970.
    """

    run: bytes | None = None
    holder: bytes | None = None
    kept: bool = True
    seen: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """An identity to be taken, and by the message at which place."""

    identity: bytes
    place: int
    run: bytes | None = None
    holder: bytes | None = None
    kept: bool = True
    seen: float | None = None


Lookup = Callable[[Sequence[bytes]], Mapping[bytes, Known]]
"""Gives those of some identities that are taken."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """The places of the new messages, those of messages that were passed over before, when others were first seen, the
    identities to take, and what the running run has said so far.

    `anchor` is the last place of a message that is surely known, -1 where there is none; `moved` are new messages of a history
    that was rewritten whose words stand in the last one.
    """

    fresh: tuple[int, ...]
    passed: frozenset[int]
    seen: Mapping[int, float]
    claims: tuple[Claim, ...]
    counted: Counter[bytes]
    anchor: int
    moved: frozenset[int]


@dataclass(frozen=True, slots=True)
class Aligned:
    """What is known of a rewritten history by the last one: the places of known messages, of those among them that were skipped
    on purpose, and of messages whose words stand somewhere in the last one.
    """

    known: tuple[int, ...] = ()
    skipped: frozenset[int] = frozenset()
    moved: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Past:
    """What is known beside identities.

    `last` asks for the digests of the last full history, `length` messages, whose chain is `head`. `before` messages, all known,
    stand ahead of those that are sifted; `counted` are those of them that belong to the running run. `opened` is the user
    message that the running turn began with.
    """

    last: Callable[[], Sequence[bytes]]
    length: int
    head: bytes | None = None
    before: int = 0
    counted: Counter[bytes] = field(default_factory=Counter[bytes])
    opened: bytes | None = None


def digest_of(message: Message) -> bytes:
    """The digest of a message's role and content, our own blocks left out: a host may hand over the copy that the model saw."""
    calls = repr(message.tool_calls) if message.tool_calls else ""
    parts = (message.role, message.name or "", blocks.strip(message.text).strip(), calls, str(message.images))
    return _hash(*[part.encode("utf-8", "surrogatepass") for part in parts])


def run_of(run_id: str) -> bytes:
    """A run's id in the cursor."""
    return hashlib.blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=SHORT).digest()


def marks_of(messages: Sequence[Message], *, full: bool, before: bytes = b"") -> list[Mark]:
    """The marks of messages; in a full history `before` is the chain of what stands ahead of them."""
    marks: list[Mark] = []
    chain = before
    for message in messages:
        digest = digest_of(message)
        chain = _hash(b"chain", chain, digest)
        named = None if message.id is None else _hash(b"id", message.id.encode("utf-8", "surrogatepass"), digest)
        marks.append(Mark(digest, named, chain if full else None, len(message.text)))
    return marks


def spoken_in(run: bytes, mark: Mark) -> bytes:
    """What a message without an id is called by that is known by its run alone."""
    return _hash(b"spoken", run, mark.digest)


def skipped(mark: Mark, place: int = 0) -> Claim:
    """The claim by which a message without an id stays skipped when its place is in doubt."""
    return Claim(_hash(b"skip", mark.digest), place, kept=False)


def sift(marks: Sequence[Mark], *, run: bytes | None, lookup: Lookup, past: Past) -> Sifted:
    """Parts what is new from what is known."""
    taken = lookup([identity for mark in marks for identity in (mark.id, mark.chain) if identity is not None])
    named = [_by_name(mark, taken) for mark in marks]
    known: dict[int, Known | None] = {place: row for place, row in enumerate(named) if row is not None}
    aligned = _aligned(marks, known, lookup, past)
    known |= dict.fromkeys(aligned.known)
    runs, counted = ({}, Counter[bytes]()) if run is None else _runs(marks, known, run, past.counted)
    observed = lookup(list(runs.values()))
    fresh: list[int] = []
    times = {place: row.seen for place, row in known.items() if row is not None and row.seen is not None}
    passed = {place for place, row in known.items() if row is not None and not row.kept} | aligned.skipped
    claims: dict[bytes, Claim] = {}
    for place, mark in enumerate(marks):
        seen = observed.get(runs.get(place, b""))
        again = (mark.id is not None and mark.id in claims) or (seen is not None and _same(mark, seen))
        if place not in known and not again:
            fresh.append(place)
        elif seen is not None:
            passed |= set() if seen.kept else {place}
            times |= {} if seen.seen is None else {place: seen.seen}
        row = known.get(place)
        own_run = run if row is None else row.run
        for identity in (mark.chain if mark.id is None else mark.id, runs.get(place)):
            if identity is not None and identity not in taken and identity not in observed:
                claims.setdefault(identity, Claim(identity, place, own_run, mark.id, place not in passed, times.get(place)))
    anchor = max(set(range(len(marks))) - set(fresh) - aligned.skipped, default=-1)
    moved = aligned.moved.intersection(fresh)
    return Sifted(tuple(fresh), frozenset(passed), times, tuple(claims.values()), counted, anchor, moved)


def _by_name(mark: Mark, taken: Mapping[bytes, Known]) -> Known | None:
    if mark.id is not None and (found := taken.get(mark.id)) is not None:
        return found
    found = taken.get(mark.chain) if mark.chain is not None else None
    return found if found is not None and _same(mark, found) else None


def _same(mark: Mark, found: Known) -> bool:
    """Whether what took an identity may be this message: messages with two host ids are two messages."""
    return mark.id is None or found.holder is None or found.holder == mark.id


def _runs(
    marks: Sequence[Mark], known: Mapping[int, Known | None], run: bytes, counted: Counter[bytes]
) -> tuple[dict[int, bytes], Counter[bytes]]:
    """The run identities of the messages whose run is not known, and how often each was said. Those known to be of the same run
    count as said before.
    """
    said = Counter(counted)
    found: dict[int, bytes] = {}
    for place, mark in enumerate(marks):
        row = known.get(place)
        if row is not None and row.run != run:
            continue
        if row is None:
            found[place] = _hash(b"run", run, mark.digest, str(said[mark.digest]).encode())
        said[mark.digest] += 1
    return found, said


def _aligned(marks: Sequence[Mark], known: Mapping[int, Known | None], lookup: Lookup, past: Past) -> Aligned:
    """What else is known of a full history whose beginning has changed, of its messages without ids."""
    doubtful = [place for place, mark in enumerate(marks) if place not in known and mark.id is None and mark.chain is not None]
    if not doubtful:
        return Aligned()
    if _goes_on(marks, doubtful[0], past):
        return Aligned()
    last = past.last()
    start, length = tail(last, [mark.digest[:SHORT] for mark in marks])
    convincing = sum(mark.length for mark in marks[start : start + length]) >= CONVINCING
    found = [place for place in doubtful if convincing and start <= place < start + length]
    if not past.before and 0 not in known:  # compacted while the turn was running: a branch would begin with what is known
        found += [place for place in doubtful if marks[place].digest == past.opened][-1:]
    sure = range(start + length, len(marks)) if convincing else range(0)
    names = {place: skipped(marks[place]).identity for place in doubtful if place not in sure}
    skips = lookup(list(names.values()))
    left_out = frozenset(place for place, name in names.items() if name in skips)
    heard = {*last}
    moved = [place for place in doubtful if marks[place].length >= CONVINCING and marks[place].digest[:SHORT] in heard]
    return Aligned(tuple({*found, *left_out}), left_out, frozenset(moved))


def _goes_on(marks: Sequence[Mark], end: int, past: Past) -> bool:
    """Whether a history is the last one, up to the place `end` at most, and what was said since."""
    at = past.length - past.before - 1
    return at < 0 or (at < end and marks[at].chain == past.head)


def tail(last: Sequence[bytes], now: Sequence[bytes]) -> tuple[int, int]:
    """Where in `now` the longest run stands that `last` ends with, and its length; the latest of equal ones.

    Linear, by the Z-function of both read backwards.
    """
    joined: list[bytes] = [*reversed(last), b"", *reversed(now)]
    lengths = [0] * len(joined)
    left = right = 0
    for i in range(1, len(joined)):
        size = min(right - i, lengths[i - left]) if i < right else 0
        while i + size < len(joined) and joined[size] == joined[i + size]:
            size += 1
        lengths[i] = size
        if i + size > right:
            left, right = i, i + size
    ends = lengths[len(last) + 1 :]
    if not ends or not (best := max(ends)):
        return 0, 0
    return len(now) - ends.index(best) - best, best


def _hash(*parts: bytes) -> bytes:
    sized = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hashlib.blake2b(sized, digest_size=SIZE).digest()
