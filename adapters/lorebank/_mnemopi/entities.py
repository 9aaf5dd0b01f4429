"""The names in a text, by rule: people, places, products, tickets. They are read when a memory is shown, and stored nowhere.

A name is a word in capitals within a sentence, or several of them in a row ("Ana Silva", "Bay of Biscay"), an abbreviation
(UCLA), a mixed word (PostgreSQL), a ticket (PAY-1423) or an address (ana@example.org, @ana). The first word of a sentence
tells nothing by its capital; it counts where the text has it elsewhere, or where it begins a longer name. In German, where
every noun has a capital, a single word is no sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lorebank._mnemopi.search.function_words import ENGLISH

AT_MOST = 16
"""Names of one text, the first."""
READ = 4_000
"""Characters of a text that are read."""
SHOUTED = 3
"""Words in capitals above which they are no name."""
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+|@\w[\w.-]*\w")
_EDGES = ".,;:!?…\"'“”‘’«»()[]{}<>¿¡*•–—-/"
_ENDS = frozenset(".!?:;…*•–—-")
_JOINERS = frozenset("of the de da do del della di du la le van von der den y bin al".split())  # noqa: SIM905
_GERMAN = frozenset("der die das und ich wir nicht ein eine im mit auf ist nach zu".split())  # noqa: SIM905
_COMMON = ENGLISH | frozenset(
    """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
    january february march april may june july august september october november december mon tue wed thu fri sat sun
    today tomorrow yesterday christmas easter ok okay hi hey hello thanks thank yes no oh wow sure sorry please well
    great lol btw haha mr mrs ms dr i
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_CONTRACTED = re.compile(r"['’](?:s|m|ve|d|ll|re|t)$")


def entities_of(text: str) -> tuple[str, ...]:
    """The names in a text, in order, each once; at most `AT_MOST`."""
    tokens = text[:READ].replace("\n", " . ").split()
    capitals = [place for place, token in enumerate(tokens) if not token.islower() and _is_capital(token)]
    addressed = [place for place, token in enumerate(tokens) if "@" in token] if "@" in text else []
    if not (capitals or addressed) or (len(tokens) > SHOUTED and text.isupper()):
        return ()
    runs = list(_runs(tokens, frozenset(capitals)))
    inside = {name for place, name in runs if not _first(tokens, place)}
    german = len(runs) > 1 and sum(token in _GERMAN for token in tokens) > 1
    found = [(place, tokens[place].strip(_EDGES)) for place in addressed if _ADDRESS.search(tokens[place])]
    for place, name in runs:
        single = " " not in name and name[1:].islower()
        if not single or (not german and (name in inside or not _first(tokens, place))):
            found.append((place, name))
    return tuple(dict.fromkeys(name for _, name in sorted(found)))[:AT_MOST]


def _is_capital(token: str) -> bool:
    core = token.strip(_EDGES)
    return core[:1].isupper() and "@" not in token and _whole(core.lower()) not in _COMMON


def _runs(tokens: Sequence[str], capitals: frozenset[int]) -> Iterator[tuple[int, str]]:
    """The runs of words in capitals, with the place of the first, each without what stands around and clings to it."""
    taken = -1
    for start in sorted(capitals):
        if start <= taken:
            continue
        taken = last = start
        while tokens[last][-1] not in _EDGES and (following := _next(tokens, last, capitals)):
            taken = last = following
        run = " ".join(tokens[start : last + 1]).strip(_EDGES)
        if last - start < SHOUTED or not run.isupper():
            yield start, _whole(run)


def _next(tokens: Sequence[str], last: int, capitals: frozenset[int]) -> int:
    """The place of the next word of a name: right behind its last one, or behind joining words; a number ends it. 0 for none."""
    for place in range(last + 1, min(last + 4, len(tokens))):
        if place in capitals:
            return place
        if tokens[place].strip(_EDGES).isdigit() and place == last + 1 and last in capitals:
            return place
        if tokens[place] not in _JOINERS:
            return 0
    return 0


def _whole(name: str) -> str:
    """A name without what is contracted with it ("Anna's")."""
    return _CONTRACTED.sub("", name) if "'" in name or "’" in name else name


def _first(tokens: Sequence[str], place: int) -> bool:
    """Whether a sentence begins at a place."""
    return place == 0 or tokens[place - 1].rstrip("\"'”’)»")[-1:] in _ENDS or tokens[place][0] in '"“«¿¡'
