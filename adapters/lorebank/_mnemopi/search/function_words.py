"""Words that carry grammar rather than meaning, by language.

English ones are never indexed. Those of other languages are indexed (many are words of meaning elsewhere: German "die",
Spanish "sin"), but a query in that language is searched without them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

ENGLISH = frozenset(
    """
    a about after again all also am an and any are aren as at be because been before being both but by can cannot could
    couldn d did didn do does doesn doing don during each few for from had hadn has hasn have haven having he her here
    hers herself him himself his how however i if in into is isn it its itself just ll m may might me mine more most must my
    myself no nor not now o of off on once only onto or other our ours ourselves out over own per re s same shall she
    should shouldn since so some such t than that the their theirs them themselves then there these they this those
    through to too under until up upon us ve very was wasn we were weren what when where whether which while who whom
    whose why will with within without won would wouldn y yet you your yours yourself yourselves ever every
    """.split()  # noqa: SIM905 - a word list reads better as one text
)

ONESELF = frozenset("i me my mine myself ich mich mir mein meine meinen meinem meiner yo mi mis je moi mon ma mes".split())  # noqa: SIM905
OURS = frozenset("we our us ours wir uns unser unsere nosotros nuestro nuestra nous notre nos".split())  # noqa: SIM905
FIRST_PERSON = ONESELF | OURS
YOURS = frozenset("you your yours du dir dich dein deine deinen deinem ihr euch tu te ti tus vous votre toi ton".split())  # noqa: SIM905
THE_USER = frozenset(
    """
    user nutzer nutzers nutzerin benutzer benutzers benutzerin anwender anwenders anwenderin usuario usuaria utilisateur
    utilisatrice ユーザー ユーザ 用户 用戶 使用者
    """.split()  # noqa: SIM905
)
"""Whom an agent speaks of in a query ("the user's job"): who says "I" in the memories."""
OWN_CJK = re.compile("|".join(["[私僕俺我]", "うち", "わたし", "自分", *(word for word in THE_USER if not word.isascii())]))
"""Words of oneself, and for the user, in scripts without blanks."""

OTHERS: dict[str, frozenset[str]] = {
    "de": frozenset(
        """
        aber als am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des dich die dir du durch
        ein eine einem einen einer eines er es euch fur gab habe haben hast hat hatte ich ihm ihn ihr im in ist ja kann
        mein meine meinem meinen meiner mich mir mit nach nicht noch nur ob oder sein seine sich sie sind so uber um und
        uns unser vom von vor wann war waren warum was welche welchem welchen welcher welches wem wen wenn wer werden wie
        wieder wir wird wo wohin woher wurde zu zum zur aktuell aktuelle aktuellen aktueller aktuelles derzeit gerade jetzt
        momentan weisst erinnerst gesagt lautet lautete fruher vorher davor damals bevor
        bitte erklar erklare
        """.split()  # noqa: SIM905
    ),
    "es": frozenset(
        """
        a al algo aqui como con cual cuales cuando cuanto de del desde donde el ella ellos en era eres es esa ese eso esta
        este esto fue ha hace han hasta hay la las le les lo los mas me mi mis muy no nos o para pero por porque que quien
        quienes se ser si sin sobre son su sus te tengo tiene tu tus un una unos y ya yo actual actuales actualmente ahora
        sabes recuerdas dije antes adonde estaba estoy soy eramos
        explica explicame dime cuentame
        """.split()  # noqa: SIM905
    ),
    "fr": frozenset(
        """
        a ai as au aux avec avez avons c ce cela ces cet cette combien comment d dans de des du elle elles en es est et eu
        il ils j je l la le les leur leurs lui m ma mais me mes moi mon n ne nos notre nous on ont ou par pas pour pourquoi
        qu quand que quel quelle quelles quels qui s sa sans se ses si son sont sur t ta te tes toi ton tu un une vos votre
        vous y actuel actuelle actuels actuelles actuellement maintenant sais rappelles dit quoi suis etais etait avais avait
        avant explique
        """.split()  # noqa: SIM905
    ),
}

_FOREIGN = frozenset[str]().union(*OTHERS.values()) - ENGLISH
"""A text without one of these is in none of those languages: all its function words are English, too."""

JAPANESE = frozenset(
    """
    です ます まし した して した たの のは のが のを のか すか ます から まで ので には では とは ての にし をし でし こと もの
    それ これ どれ どこ いつ なに ない なの って たち たい いる いた ある あり った てい しま せん だっ との よう
    現在 在の 教え えて 何を 何が 何で 何の 何に 誰が 誰を 誰と 誰の 何
    """.split()  # noqa: SIM905
)
"""Pairs of characters that Japanese grammar and asking are made of."""
_HIRAGANA = re.compile("[\u3041-\u309f]{2}")

FILLERS = frozenset(
    """
    please tell know remember remind recall say said mention mentioned talk told ask asked current currently nowadays
    """.split()  # noqa: SIM905
)
"""English words of asking, for how things are now as well: all questions do that which don't ask for what was."""


def languages_of(words: Collection[str]) -> tuple[str, ...]:
    """The languages that most of the function words among these belong to, if those are more than the English ones: often one,
    more where few words tell ("Vivo en Valencia").
    """
    if _FOREIGN.isdisjoint(words):
        return ()
    spoken = frozenset(words)
    counts = {language: len(known & spoken) for language, known in OTHERS.items()}
    most = max(counts.values())
    return tuple(each for each in counts if counts[each] == most) if most > len(ENGLISH & spoken) else ()


def language_of(words: Collection[str]) -> str | None:
    """The first of these languages, if that is not English."""
    return next(iter(languages_of(words)), None)


def of_query(words: Sequence[str]) -> frozenset[str]:
    """The words that a query of these words is searched without: those of asking, of Japanese grammar, and of its language."""
    language = language_of(words)
    return FILLERS | JAPANESE | (OTHERS[language] if language else frozenset[str]())


def is_grammar(term: str) -> bool:
    """Whether a term of a query is a pair of hiragana, which Japanese writes its grammar in, and few words of meaning."""
    return _HIRAGANA.fullmatch(term) is not None
