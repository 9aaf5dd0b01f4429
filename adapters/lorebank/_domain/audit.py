"""What an audit finds in a bank: values, and the book that memories are entered in, one after the other, oldest first.

What a memory says by itself is judged by `suspicion.py`; here it is compared with the others. Of a memory only its id, digests
and the numbers of its words are kept, so that a bank is never in memory as a whole.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal, get_args

from lorebank._domain.archive import Entry
from lorebank._domain.fusion import folded
from lorebank._domain.likeness import Sketch, Sketcher, groups
from lorebank._domain.scope import PROJECT
from lorebank._domain.suspicion import echoed, fed_back, junk, secret, stale

AuditKind = Literal["junk", "duplicates", "near_duplicates", "feedback", "secrets", "stale", "contradicting"]
KINDS: tuple[AuditKind, ...] = get_args(AuditKind)


@dataclass(frozen=True, slots=True)
class Finding:
    """Memories that an audit found, by their ids, oldest first, and why, on one line that holds no secret.

    `junk` says nothing; `duplicates` say the same word for word, `near_duplicates` nearly; `feedback` is what memory itself told
    and was told again; `secrets` hold one; `stale` ones are over; `contradicting` ones can't both hold.
    """

    kind: AuditKind
    ids: tuple[str, ...]
    reason: str

    @property
    def count(self) -> int:
        """How many memories it is about."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit of a bank came to: how many memories were looked at, and what was found, by kind."""

    bank: str
    memories: int
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def counts(self) -> Mapping[AuditKind, int]:
        """How many findings there are of each kind."""
        found = Counter(finding.kind for finding in self.findings)
        return MappingProxyType({kind: found[kind] for kind in KINDS})

    def of(self, kind: AuditKind) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)


@dataclass(frozen=True, slots=True)
class _Known:
    """A memory as far as others are compared with it. Only those of one realm (type, project) are."""

    id: str
    realm: str
    digest: bytes
    sketch: Sketch
    sources: tuple[str, ...]


@dataclass(slots=True)
class Book:
    """The memories of a bank as they are entered; `terms` gives a text's search terms, `now` is the moment of the audit."""

    terms: Callable[[str], Sequence[str]]
    now: datetime
    memories: int = 0
    _findings: list[Finding] = field(default_factory=list[Finding])
    _known: list[_Known] = field(default_factory=list[_Known])
    _told: set[bytes] = field(default_factory=set[bytes])
    _sketcher: Sketcher = field(init=False)

    def __post_init__(self) -> None:
        self._sketcher = Sketcher(self.terms)

    def enter(self, entry: Entry) -> None:
        """Judges a memory by itself and by those before it. One that is no longer true is passed over."""
        if entry.invalidated_at is not None:
            return
        self.memories += 1
        self._find("secrets", entry, secret(entry.item))
        self._find("stale", entry, stale(entry, self.now))
        text = entry.item.content
        if self._find("junk", entry, junk(text)) or self._find("feedback", entry, self._fed_back(entry)):
            return  # what is to go anyway is compared with nothing
        digest = _digest(text)
        self._told.add(digest)
        self._known.append(_Known(entry.id, _realm(entry), digest, self._sketcher.sketch(text), entry.sources))

    def findings(self, contradictions: Iterable[Finding] = ()) -> tuple[Finding, ...]:
        """All that was found, by kind."""
        found = [*self._findings, *self._same(), *contradictions]
        return tuple(sorted(found, key=lambda finding: KINDS.index(finding.kind)))

    def _find(self, kind: AuditKind, entry: Entry, reason: str | None) -> bool:
        if reason is not None:
            self._findings.append(Finding(kind, (entry.id,), reason))
        return reason is not None

    def _fed_back(self, entry: Entry) -> str | None:
        if entry.type == "observation":
            return None  # it says again, on purpose, what others say
        return fed_back(entry.item.content) or echoed(entry.item, lambda piece: _digest(piece) in self._told)

    def _same(self) -> Iterator[Finding]:
        """Those that say the same, then those of the rest that nearly do."""
        alike: dict[tuple[str, bytes], list[_Known]] = {}
        for known in self._known:
            alike.setdefault((known.realm, known.digest), []).append(known)
        realms: dict[str, list[_Known]] = {}
        for (realm, _), same in alike.items():
            realms.setdefault(realm, []).append(same[0])
            if len(apart := _unrelated(same)) > 1:
                yield Finding("duplicates", tuple(each.id for each in apart), f"the same text, {len(apart)} times")
        for several in realms.values():
            for places, share in groups([known.sketch for known in several]):
                if len(apart := _unrelated([several[place] for place in places])) > 1:
                    ids = tuple(each.id for each in apart)
                    yield Finding("near_duplicates", ids, f"{share:.0%} of their words are the same")


def _realm(entry: Entry) -> str:
    return "\n".join([entry.type, *sorted(tag for tag in entry.item.tags if tag.startswith(PROJECT))])


def _digest(text: str) -> bytes:
    return hashlib.blake2b(folded(text).encode("utf-8", "replace"), digest_size=12).digest()


def _unrelated(several: Sequence[_Known]) -> list[_Known]:
    """Those of several that were not made from another of them."""
    ids = {each.id for each in several}
    return [each for each in several if ids.isdisjoint(each.sources)]
