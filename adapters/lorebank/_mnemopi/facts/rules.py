"""Facts that a text states, found by rules: precise before greedy, one sentence at a time.

A rule reads a sentence of the first person ("I live in Bergen"). Sentences about somebody else ("Ana lives in Bergen",
"the user's favourite colour is green") are first turned into that form, with the somebody as the subject. Nothing is taken
from questions, wishes, conditions, or what somebody is quoted as saying, nor from what an assistant says. Rules know
English, German, Spanish and French.

A fact answers a slot: a subject's relation. Most slots hold one value at a time (where somebody lives, the port of the
staging server); a liking holds or does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lorebank._mnemopi.facts.patterns import ANCHORS, CUT, FACTS, LEAD, NAMED, OURS, OWN, SLOTS, UNSURE, Rule
from lorebank._mnemopi.search.function_words import ENGLISH
from lorebank._mnemopi.search.terms import terms, words

USER = "user"
MAX_TEXT = 4_000
"""Characters of a text that is read for facts: longer ones are documents, not statements about somebody."""
MAX_VALUE = 8
"""Terms of a value: what is longer is a story."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement: the subject's relation has this value, or (`holds` is false) has it no longer.

    `value` are the value's terms, sorted; empty for relations that just hold or don't.
    """

    subject: str
    relation: str
    value: tuple[str, ...] = ()
    holds: bool = True


_END = re.compile(r"[.](?!\w)|[!?;\n。！？]")
_THIRD = {
    "lives": "live", "works": "work", "prefers": "prefer", "loves": "love", "likes": "like", "enjoys": "enjoy", "hates": "hate",
    "dislikes": "dislike", "drives": "drive", "uses": "use", "eats": "eat", "drinks": "drink", "is": "am", "moved": "moved",
    "relocated": "relocated", "switched": "switched", "quit": "quit", "stopped": "stopped", "started": "started",
    "does not": "do not", "doesn't": "do not", "can not": "can not", "no longer": "no longer", "goes by": "go by",
    "turned": "turned", "gave up": "gave up", "resides": "live", "became": "became", "now": "now",
}  # fmt: skip
"""How what is said of somebody else begins, and how that one would say it."""
_ABOUT = re.compile(
    r"(?:^|(?<=[.!?;\n] )|(?<=\n))(?:(?P<user>(?:[Tt]he )?[Uu]ser)|(?P<name>[^\W\d_a-z][\w-]+(?: [^\W\d_a-z][\w-]+)?))"
    rf"(?: (?P<verb>{'|'.join(sorted(_THIRD, key=len, reverse=True))})\b|(?P<own>'s)\b)"
)
_ABOUT_CUES = frozenset(
    "user favourite favorite longer doesn".split()  # noqa: SIM905
) | frozenset(verb for verb in _THIRD if " " not in verb and "'" not in verb) - {"is", "now"}
_RULES = (*FACTS, *SLOTS)
_BY_CUE: dict[str, list[int]] = {}
for _number, _rule in enumerate(_RULES):
    for _cue in _rule.cues:
        _BY_CUE.setdefault(_cue, []).append(_number)
_NO_NAME = frozenset(
    "i we he she it they this that there here who what which where when today the my our your his her their".split()  # noqa: SIM905
)
_MANY = frozenset(
    """
    friend brother sister colleague cousin kid child son daughter cat dog pet neighbour neighbor problem question point issue idea
    reason thing answer hobby book song film movie guess fault turn best worst rest other one two kids friends only next last same
    first second whole way trick fun truth difference result
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
"""What one may have several of: two statements about it don't contradict each other."""
_ONE = frozenset(
    """
    phone car laptop bike email address number password plan doctor dentist boss manager landlord size bank gym team shift salary
    rent deadline diet timezone zone language editor browser server database branch port version budget price rate limit wifi name
    username login birthday job employer router host region status owner framework colour color theme font licence license
    supervisor tutor therapist coach room office class major telefon handy auto adresse passwort chef arzt miete gehalt sprache
    stadt coche movil contraseña jefe alquiler ciudad voiture patron loyer ville
    """.split()  # noqa: SIM905
)
"""What has one value at a time."""


def facts_of(text: str, spoken: Sequence[str], speaker: str | None = None) -> tuple[Fact, ...]:
    """The facts that a text with these words states, those of one kind in the order of the text, each once."""
    if len(text) > MAX_TEXT or (subject := _subject(speaker)) is None:
        return ()
    plain = text.replace("’", "'")
    found = list(_found(plain, spoken, subject))
    if not _ABOUT_CUES.isdisjoint(spoken):
        found = [fact for said, somebody in _turned(plain) for fact in _found(said, words(said), somebody)] + found
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=4096)
def _subject(speaker: str | None) -> str | None:
    """Whose words they are: the user's, or a named person's. What an assistant says of itself is no fact."""
    named = (speaker or USER).casefold().strip()
    if named in ("assistant", "ai", "system", "tool"):
        return None
    return USER if named in ("user", "human") else next(iter(words(named)), USER)


def _turned(text: str) -> Iterator[tuple[str, str]]:
    """The sentences about somebody as if that one said them, and who it is."""
    for about in _ABOUT.finditer(text):
        name, verb = about["name"], about["verb"]
        if name is not None and name.split()[0].casefold() in _NO_NAME:
            continue
        end = _END.search(text, about.end())
        rest = text[about.end() : end.end() if end else len(text)]
        if verb == "no longer":
            first, _, rest = rest.strip().partition(" ")
            rest = f" {_THIRD.get(first, first)} {rest}"
        begun = "my" if verb is None else f"i {_THIRD[verb]}"
        yield begun + rest, USER if name is None else words(name)[0]


def _found(text: str, spoken: Sequence[str], subject: str) -> Iterator[Fact]:
    """What the rules find in a text of the first person with these words."""
    rules = sorted({number for cue in _near(spoken) & _BY_CUE.keys() for number in _BY_CUE[cue]})
    taken: set[int] = set()
    for number in rules:
        slot = number >= len(FACTS)
        if slot and _ONE.isdisjoint(spoken) and OURS.isdisjoint(spoken) and not any(word[0] <= "9" for word in spoken):
            continue
        for match in _RULES[number].pattern.finditer(text):
            begin, sentence = _around(text, match)
            if (slot and begin in taken) or sentence[-1:] in ("?", "？") or UNSURE.search(sentence):
                continue
            if fact := _fact(_RULES[number], match, subject):
                taken.add(begin)
                yield fact


def _near(spoken: Sequence[str]) -> set[str]:
    """The words that stand near one that a fact begins with: patterns are slow, and most texts state nothing."""
    near: set[str] = set()
    for at, word in enumerate(spoken):
        if word in ANCHORS:
            near.update(spoken[at : at + ANCHORS[word]])
    return near


def _around(text: str, match: re.Match[str]) -> tuple[int, str]:
    """Where the sentence of a match begins, and the sentence."""
    begin = max((end.end() for end in _END.finditer(text, 0, match.start())), default=0)
    end = _END.search(text, match.end())
    return begin, text[begin : end.end() if end else len(text)].strip()


def _fact(rule: Rule, match: re.Match[str], subject: str) -> Fact | None:
    """The fact that a rule found, unless what it found is no value."""
    relation = rule.relation
    told = LEAD.sub("", match["v"]) if "{head}" in relation else match["v"]
    told = CUT.sub("", told).strip()
    if rule.named:
        told = named[0].strip() if (named := NAMED.match(told)) else ""
    value = terms(told) if told else []
    if not value or len(value) > MAX_VALUE:
        return None
    if "{head}" in relation:
        if relation.startswith("prefers") and len(value) > 1:
            return Fact(subject, relation.format(head=value[-1]), _sorted(value))
        return Fact(subject, f"likes {value[-1]}", (), rule.holds)
    if "{n}" in relation:
        return _slot(relation, match, subject, told)
    return Fact(subject, relation, _sorted(value), rule.holds)


def _slot(relation: str, match: re.Match[str], subject: str, value: str) -> Fact | None:
    """What something is that somebody has, where it can be one thing at a time only."""
    noun = match["n"].casefold().replace("colour", "color")
    named = terms(noun)[-2:]
    own = (match["who"] or "my").casefold() in OWN
    if not named or (relation.startswith("is ") and not _single(noun.split(), value, own=own)):
        return None
    whose = subject if own else ""
    return Fact(whose, relation.format(n=" ".join(sorted(named))), _sorted(terms(value)))


def _single(noun: Sequence[str], value: str, *, own: bool) -> bool:
    """Whether a thing has one value at a time: known ones do, and others where the value is a number or a name."""
    first, _, _ = value.partition(" ")
    if noun[-1] in _MANY or noun[0] in _MANY or (first.casefold() in ENGLISH and first not in ("a", "an", "the")):
        return False
    return any(map(str.isdigit, value)) or (first[0].isupper() and value.count(" ") < 4) or (own and noun[-1] in _ONE)


def _sorted(value: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(value)))
