"""How facts are told, language by language: the table that `rules` works with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PARTS = {
    "WHO": r"\b(?P<who>i|we)\b"
    r"(?:'ve|(?: (?:now|currently|still|just|really|actually|also|recently|always|absolutely|simply|have|both|finally)))*",
    "AM": r"(?:'m|'re| am| are)(?: (?:now|currently|still|finally|officially|just))*",
    "NOT": r"(?: do not| don't|'m not| am not| are not|'re not)(?: (?:really|even|actually))*",
    "NOW": r"(?: (?:now|currently|still|officially|just|actually))*",
    "MY": r"\b(?P<who>my|our|the)\b(?: (?:new|current|home|full|first|main|own|latest))*",
    "JETZT": r"(?: (?:jetzt|nun|inzwischen|gerade|aktuell|seit \w+|im \w+|letzte[ns]? \w+))*",
    "AHORA": r"(?: (?:ahora|actualmente|ya))*",
    "MAINTENANT": r"(?: (?:maintenant|désormais))*",
    "NOUN": r"(?P<n>(?:[\w&-]+(?:'s)? ){0,2}?[\w-]+)",
    "WORD": r"(?P<v>[\w-]+)",
    "VALUE": r"(?P<v>[^,;.!?()\n](?:[^,;!?()\n.]|\.(?=\w))*)",
}
"""What stands in the patterns in capitals: `who` is whose fact it is, `v` its value, `n` what the value is of."""


_NAMES = re.compile("|".join(_PARTS))


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to tell a fact. Sentences with none of the `cues` (words as `words()` gives them) are not looked at.

    `relation` may name what it found: `{n}` stands for the terms of what the value is of, `{head}` for the value's last
    term. With `named`, the value is the capitalised words that it begins with.
    """

    relation: str
    cues: frozenset[str]
    pattern: re.Pattern[str]
    named: bool = False
    holds: bool = True


def _rules(*told: tuple[str, str, str]) -> Iterator[Rule]:
    """Rules from relation, cues and pattern: a relation with `!` holds a name, one that begins with `no ` ends a fact."""
    for relation, cues, pattern in told:
        whole = _NAMES.sub(lambda part: _PARTS[part[0]], _NAMES.sub(lambda part: _PARTS[part[0]], pattern))
        plain = relation.removeprefix("no ").rstrip("!")
        yield Rule(
            plain,
            frozenset(cues.split()),
            re.compile(whole, re.IGNORECASE),
            relation.endswith("!"),
            not relation.startswith("no "),
        )


_DIET = r"(?P<v>vegetarian|vegan|pescatarian|keto|gluten-free)\b"
_DISLIKE = (
    r" hate| dislike| detest| can't stand| cannot stand|AM sick of|NOT (?:like|enjoy|eat|drink|love|into)|"
    r" no longer (?:like|love|enjoy|eat|drink)|"
    r" stopped (?:liking|eating|drinking)| quit| gave up| given up|AM allergic to| (?:can't|cannot) (?:eat|drink)|AM off"
)
_RISES = (
    r"(?:moved|changed|set|pushed(?: back)?|slipped|raised|increased|reduced|lowered|bumped|renamed|switched|postponed|rose|"
    r"dropped|went(?: up| down)?)"
)

FACTS = (
    *_rules(
        ("home!", "live reside based living", r"WHO(?: live| reside|AM based|AM living)NOW (?:in|at|near) VALUE"),
        (
            "home!",
            "moved relocated moving relocating",
            (
                r"\b(?P<who>i)\b(?:'ve|'m| have| am| recently| just| finally)* (?:moved|relocated|moving|relocating)"
                r" (?:house |back |over |permanently )*(?:from .{2,40}? )?to VALUE"
            ),
        ),
        ("no home!", "live", r"WHO(?:NOT live| no longer live) in VALUE"),
        ("home", "address town hometown", r"MY (?:address|home town|hometown|home address)NOW isNOW (?:in |at )?VALUE"),
        ("work!", "work working employed", r"WHO(?: work|AM working|AM employed)NOW (?:as [^,.]{1,40}? )?(?:at|for|with) VALUE"),
        (
            "work!",
            "started start began",
            r"WHO (?:started|start|began)(?: working| a (?:new )?job| my new job)? (?:at|with) VALUE",
        ),
        (
            "work!",
            "job position role",
            r"WHO (?:got|accepted|took|have) a (?:new )?(?:job|position|role)(?: as [^,.]{1,40}?)? (?:at|with) VALUE",
        ),
        ("no work!", "work job", r"WHO(?:NOT work (?:at|for)| no longer work (?:at|for)| (?:quit|left) my job at) VALUE"),
        ("work", "employer company", r"MY (?:employer|company) isNOW VALUE"),
        ("role", "work working", r"WHO(?: work|AM working)NOW as (?:an? |the )?VALUE"),
        ("role", "promoted", r"WHO (?:got|was|been) promoted to (?:be )?(?:an? |the )?VALUE"),
        (
            "role",
            "job role title position occupation profession",
            r"MY (?:job|role|job title|title|position|occupation|profession) isNOW VALUE",
        ),
        ("name!", "name", r"MY name isNOW VALUE"),
        ("name!", "called by call", r"\b(?:(?P<who>i)(?:AM called| go by)|call me) VALUE"),
        ("age", "old turned", r"WHO(?:AM| turned) (?P<v>\d{1,3})(?: years old| today| yesterday| last \w+|$)"),
        ("diet", "vegetarian vegan pescatarian keto gluten", rf"WHO(?:AM| became| went) (?:an? )?{_DIET}"),
        ("no diet", "vegetarian vegan pescatarian keto gluten", rf"WHO(?:AM no longer|NOT)(?: an?)? {_DIET}"),
        ("favourite {n}", "favourite favorite", r"MY (?:all-time )?favou?rite (?P<n>[\w-]+(?: [\w-]+)?) (?:is|are)NOW VALUE"),
        (
            "favourite {n}",
            "favourite favorite",
            (
                r"(?:^|(?<=[.!?;\n] ))(?P<v>[^,;.!?()\n]{1,60}?) (?:is|are)NOW (?P<who>my) (?:new |all-time )?favou?rite"
                r" (?P<n>[\w-]+)"
            ),
        ),
        ("car", "drive driving", r"WHO(?: drive|AM driving)NOW (?:an? |my )?VALUE"),
        (
            "use {n}",
            "use using switched moved migrated",
            (
                r"WHO(?: use|AM using| switched to| moved to| migrated to)NOW VALUE (?:for|as) (?:my |our |the )?"
                r"(?P<n>[\w-]+(?: [\w-]+)?)"
            ),
        ),
        (
            "likes {head}",
            "love like enjoy adore eat drink into",
            r"WHO(?: love| like| enjoy| adore| eat| drink|AM (?:really )?into)NOW VALUE",
        ),
        ("prefers {head}", "prefer", r"WHO preferNOW VALUE"),
        (
            "no likes {head}",
            "hate dislike detest stand sick like enjoy eat drink love into stopped quit gave given allergic off",
            rf"WHO(?:{_DISLIKE}) VALUE",
        ),
    ),
    *_rules(
        ("home!", "wohne lebe wohnen leben", r"\b(?P<who>ich|wir) (?:wohne|lebe|wohnen|leben)JETZT in VALUE"),
        ("home!", "gezogen umgezogen", r"\b(?P<who>ich|wir) (?:bin|sind)JETZT (?:von \w+ )?nach WORD (?:um)?gezogen"),
        ("home!", "ziehe ziehen", r"\b(?P<who>ich|wir) (?:ziehe|ziehen)JETZT nach VALUE"),
        ("work!", "arbeite", r"\b(?P<who>ich) arbeiteJETZT(?: als [\w-]+)? (?:bei|für) (?:der |dem )?VALUE"),
        ("role", "arbeite", r"\b(?P<who>ich) arbeiteJETZT als WORD"),
        ("name!", "heisse heiße name", r"\b(?P<who>ich hei(?:ß|ss)e|mein name ist) VALUE"),
        ("favourite {n}", "mein meine", r"\b(?P<who>mein|meine) (?:neue[rs]? )?lieblings(?P<n>\w+) (?:ist|sind)JETZT VALUE"),
        ("no likes {head}", "mag esse trinke", r"\b(?P<who>ich) (?:mag|esse|trinke)JETZT keine?[nm]? WORD"),
        ("no likes {head}", "mag esse trinke", r"\b(?P<who>ich) (?:mag|esse|trinke)JETZT WORD (?:gar |überhaupt )?nicht"),
        (
            "likes {head}",
            "mag liebe esse trinke",
            (
                r"\b(?P<who>ich) (?:mag|liebe|esse|trinke)JETZT(?: gerne?| sehr| am liebsten)* (?!kein)WORD"
                r"(?! (?:gar |überhaupt )?nicht)"
            ),
        ),
    ),
    *_rules(
        ("home!", "vivo vivimos", r"(?:^|\b(?P<who>yo) )(?:vivo|vivimos)AHORA en VALUE"),
        ("home!", "mude mudado mudamos", r"\b(?P<who>me|nos) (?:mud[eé]|he mudado|hemos mudado|mudamos) a VALUE"),
        ("work!", "trabajo", r"\b(?P<who>)trabajoAHORA (?:en|para) VALUE"),
        ("name!", "llamo", r"\b(?P<who>me llamo) VALUE"),
        (
            "favourite {n}",
            "favorito favorita preferido preferida",
            r"\b(?P<who>mi) (?:nuev[oa] )?(?P<n>\w+) (?:favorit|preferid)[oa] esAHORA VALUE",
        ),
        ("no likes {head}", "gusta gustan", r"\bno (?P<who>me) gustan? (?:el |la |los |las )?WORD"),
        (
            "likes {head}",
            "gusta gustan encanta encantan",
            r"(?<!no )\b(?P<who>me) (?:gustan?|encantan?) (?:el |la |los |las )?WORD",
        ),
    ),
    *_rules(
        ("home!", "habite habitons vis", r"\b(?P<who>j'habite|nous habitons|je vis)MAINTENANT (?:à|a|en|au) VALUE"),
        ("home!", "demenage", r"\b(?P<who>j'ai) déménagé (?:à|a|en|au) VALUE"),
        ("work!", "travaille", r"\b(?P<who>je) travailleMAINTENANT (?:chez|pour) VALUE"),
        ("name!", "appelle", r"\b(?P<who>je m'appelle) VALUE"),
        ("favourite {n}", "prefere preferee", r"\b(?P<who>mon|ma) (?P<n>\w+) préférée? estMAINTENANT VALUE"),
        ("no likes {head}", "aime", r"\b(?P<who>je) n'aime (?:pas|plus) (?:le |la |les )?WORD"),
        ("likes {head}", "aime adore", r"\b(?P<who>j'aime|j'adore) (?:le |la |les |beaucoup )*WORD"),
    ),
)
"""Facts with a relation of their own."""

SLOTS = tuple(
    _rules(
        ("is {n}", "is are", r"MY NOUN (?:is|are)NOW VALUE"),
        (
            "is {n}",
            "to",
            rf"MY NOUN (?:has |have |was |were |is |are |got |has been |had to be )*{_RISES} (?:from .{{1,40}}? )?to VALUE",
        ),
        (
            "is {n}",
            "ist es est",
            (
                r"\b(?P<who>mein|meine|unser|unsere|der|die|das|mi|nuestr[oa]|el|la|mon|ma|notre|le) "
                r"(?:neue[rs]? |nuev[oa] |nouve(?:l|lle|au) )?(?P<n>[\w-]+) (?:ist|es|est)"
                r"(?: (?:jetzt|nun|inzwischen|ahora|maintenant))? VALUE"
            ),
        ),
    )
)
"""What something is: only where the sentence states none of `FACTS`."""

OURS = frozenset("my our ich wir mein meine mi mon ma unser unsere".split())  # noqa: SIM905
ANCHORS = {
    **dict.fromkeys("i we yo me j je nous call vivo vivimos trabajo".split(), 6),  # noqa: SIM905
    **dict.fromkeys(OURS, 9),
    **dict.fromkeys("the der die das el la le nuestro nuestra notre is are".split(), 6),  # noqa: SIM905
}
"""Where facts begin, and within how many words the first of a rule's cues stands."""
OWN = frozenset("my i mein meine mi mon ma".split())  # noqa: SIM905
"""The words of a `who` that make something the speaker's own, not a group's."""

UNSURE = re.compile(
    r"""\b(?:if|whether|wish|would|could|might|maybe|perhaps|probably|used\ to|hope|want\ to|wanted\ to|planning|thinking\ of|
    considering|dream|imagine|pretend|suppose|when\ i\ lived|said|says|told|wenn|falls|w[uü]rde|vielleicht|fr[uü]her|quiz[aá]s?|
    si\ yo|antes|peut-[eê]tre|avant)\b|["“„«]""",
    re.IGNORECASE | re.VERBOSE,
)
CUT = re.compile(
    r" (?:and|but|because|since|so|while|which|who|where|when|after|before|until|although|though|with|without|during|from|for|"
    r"as|than|und|aber|weil|seit|mit|da|denn|porque|pero|desde|y|con|parce|depuis|mais|et|avec|every|these days|right now|"
    r"at the moment|anymore|any more|any longer|now|instead|rather|over|to|in|on|at|again|nowadays|jetzt|"
    r"nun|ahora|maintenant)\b.*$",
    re.IGNORECASE,
)
"""Where a value ends."""
LEAD = re.compile(
    r"^(?:(?:\w+ing|to \w+) (?:at |in |to |on )?)?(?:the |a |an |my |our |any |some |all |that |this )*", re.IGNORECASE
)
"""What stands before the thing that somebody likes."""
NAMED = re.compile(r"(?:(?:[^\W\d_a-zß-ÿ]|&|(?:of|de|da|am|la|le|und|and|the) (?=[^\W\d_a-z]))[\w'&.-]* ?)*")
"""The capitalised words that a text begins with."""
