"""From new messages to documents: which document a message goes into, and what a server is sent of it.

`append` (the default) extends segments of a session's transcript; `full-session` sends the whole transcript in place of
itself; `last-turn` sends the turns since the last release, with some before them. What was retained is never taken back:
a transcript that is not handed over whole any more goes on in segments beside its document, unless documents are to follow
edits (`on_rewrite="replace"`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from lorebank._domain.item import Item
from lorebank._domain.memory import MAX_TEXT
from lorebank._domain.message import Line, Transcript
from lorebank._domain.session import DocumentWrite, Progress
from lorebank._domain.settings import RetainSettings

SEGMENT_TURNS = 50
SEGMENT_BYTES = 64 * 1024
ROLE = "role"
SOURCES = "sources"
"""The metadata keys under which a message's role, and the ids of what an answer was made from, are kept."""
_ENDS = re.compile(r"\n\s*\n|(?<=[.!?。！？…])\s+|\n|\s+")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message that may be retained, as an item, and its identity. `turn` counts user messages of the session."""

    item: Item
    identity: bytes
    user: bool = False


@dataclass(frozen=True, slots=True)
class Handed:
    """All messages that a host has handed over: `complete` where all that was ever retained is among them, `full` where the
    host says that it is the whole history.
    """

    history: Sequence[Spoken]
    complete: bool
    full: bool


def split_text(text: str, limit: int = MAX_TEXT) -> list[str]:
    """The text in parts of at most `limit` characters, cut at the last paragraph, sentence or word border that fits."""
    parts: list[str] = []
    while len(text) > limit:
        cut = _border(text, limit)
        parts.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [part for part in (*parts, text) if part]


def _border(text: str, limit: int) -> int:
    """Where to cut: paragraphs before sentences before words, but never in the first half for any of them."""
    best = {0: 0, 1: 0, 2: 0, 3: 0}
    for found in _ENDS.finditer(text, limit // 2, limit + 1):
        if found.end() > limit:
            break
        blank = found.group().count("\n")
        kind = 0 if blank > 1 else 1 if text[found.start() - 1] in ".!?。！？…" else 2 if blank else 3
        best[kind] = found.end()
    return next((cut for cut in best.values() if cut), limit)


def document_name(session: str, label: str | None) -> str:
    """The first part of a session's document ids. Sessions of one bank that belong to two projects have two."""
    name = f"lorebank:{_escaped(session)}"
    return name if label is None else f"{name}@{_escaped(label)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A").replace("@", "%40")


def appended(name: str, spoken: Sequence[Spoken], progress: Progress) -> tuple[list[DocumentWrite], Progress]:
    """New messages, each in the segment that is open when it comes; a segment ends before a user message."""
    writes: list[DocumentWrite] = []
    for each in spoken:
        full = progress.segment_turns >= SEGMENT_TURNS or progress.segment_bytes >= SEGMENT_BYTES
        if each.user and full:
            progress = replace(progress, segment=progress.segment + 1, segment_turns=0, segment_bytes=0)
        document = f"{name}:{progress.segment}"
        size = progress.segment_bytes + len(each.item.content.encode())
        progress = replace(progress, segment_turns=progress.segment_turns + each.user, segment_bytes=size)
        former = writes.pop() if writes and writes[-1].document_id == document else None
        items = (*(former.fresh if former else ()), each.item)
        writes.append(DocumentWrite(document, items, items))
    return writes, progress


def whole_session(
    name: str, spoken: Sequence[Spoken], handed: Handed, progress: Progress, *, follows: bool
) -> tuple[list[DocumentWrite], Progress]:
    """The whole transcript, in place of the document's former text. Where it can't be sent any more, and documents are not to
    follow, what is new goes on in segments beside the document.
    """
    if not follows and (progress.apart or not handed.complete):
        return appended(f"{name}:more", spoken, replace(progress, apart=1))
    fresh = tuple(each.item for each in spoken)
    everything = tuple(each.item for each in handed.history)
    return [DocumentWrite(name, fresh, everything, "replace", not handed.complete and follows)], progress


def last_turn(
    name: str, spoken: Sequence[Spoken], handed: Handed, progress: Progress, overlap: int
) -> tuple[list[DocumentWrite], Progress]:
    """The turns since the last release, after `overlap` turns that came before them. Where a history was rewritten, what waits
    stays, and another window begins.
    """
    history = handed.history
    places = {each.identity: place for place, each in enumerate(history)}
    stays = progress.window in places and (handed.complete or not handed.full)
    first = progress.window if stays and progress.window is not None else spoken[0].identity
    start = places.get(first, 0)
    turns = [place for place, each in enumerate(history[:start]) if each.user]
    begin = (turns[-overlap] if len(turns) >= overlap else 0) if overlap else start
    fresh = tuple(each.item for each in spoken)
    window = tuple(each.item for each in history[begin:])
    return [DocumentWrite(f"{name}:{first.hex()[:16]}", fresh, window, "replace")], replace(progress, window=first)


def documents(
    settings: RetainSettings, name: str, spoken: Sequence[Spoken], handed: Handed, progress: Progress
) -> tuple[list[DocumentWrite], Progress]:
    """What becomes of which document, by the retain mode. Only a full history can tell of edits."""
    if not spoken:
        return [], progress
    if settings.retain_mode == "append":
        return appended(name, spoken, progress)
    if settings.retain_mode == "full-session":
        return whole_session(name, spoken, handed, progress, follows=settings.on_rewrite == "replace" and handed.full)
    return last_turn(name, spoken, handed, progress, settings.overlap_turns)


def packed(write: DocumentWrite, settings: RetainSettings) -> list[Item]:
    """The items that a server is sent for a document: transcripts of all its lines, in pieces that it takes."""
    pieces = list(_pieces(write.whole))
    if write.update_mode == "replace" and len(pieces) > 1:
        modes = ["replace", *["append"] * (len(pieces) - 1)]
    else:
        modes = [write.update_mode] * len(pieces)
    return [_pack(write.document_id, piece, mode, settings) for piece, mode in zip(pieces, modes, strict=True)]


def _pieces(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """The items in groups of at most half of what one item may hold; JSON may double a text."""
    sizes = list(accumulate(len(item.content) for item in items))
    pieces: list[tuple[Item, ...]] = []
    start = 0
    for place in range(len(items)):
        before = sizes[start - 1] if start else 0
        if place > start and sizes[place] - before > MAX_TEXT // 4:
            pieces.append(tuple(items[start:place]))
            start = place
    return [*pieces, tuple(items[start:])]


def _pack(document: str, items: Sequence[Item], mode: object, settings: RetainSettings) -> Item:
    transcript = Transcript(tuple(_line(item) for item in items))
    text = transcript.as_json() if settings.transcript_format == "json" else transcript.as_text()
    first = items[0]
    times = [item.timestamp for item in items if item.timestamp is not None]
    return first.rewritten(
        content=text,
        document_id=document,
        update_mode=mode,
        timestamp=min(times) if times else None,
        speaker=None,
        entities=(),
        metadata={key: value for key, value in (first.metadata or {}).items() if key not in (ROLE, SOURCES)} or None,
    )


def _line(item: Item) -> Line:
    told = item.metadata or {}
    role = told.get(ROLE, "user")
    sources = tuple(told[SOURCES].split("\n")) if SOURCES in told else ()
    return Line(role, item.content, item.timestamp, item.speaker if item.speaker != role else None, sources)
