"""German compounds by their last words: "Bestellnummer" is a number, and about an order ("Bestell-")."""

from __future__ import annotations

from functools import cache

from lorebank._mnemopi.search.terms import normalize, stem_in

LEAST = 3
"""Letters that stand before the last word of a compound at least; that itself has more."""
_HEADS = """
    abend abteilung adresse anbieter angebot anlage anschluss anzug apfel arbeit arbeiter arbeitszeit artikel arzt ärztin
    auftrag ausflug ausgabe ausstellung ausweis auto automat bach bahn bahnhof ball band bank bauer baum becken bein berater
    bereich berg beruf besuch betrag bett bier bild blatt blume boden bogen boot brief brille brot bruder brücke buch büro
    chef chor code creme dach datei datum decke dienst dorf dose dusche ecke eltern ende erklärung essen fabrik fach fahrt
    fahrer fahrzeug fall familie farbe feier feld fenster ferien fest film firma fisch flasche fleisch fliese flug flugzeug
    form foto frage frau freund freundin freizeit frist frühstück führer führung gang garten gast gebühr gebiet gefühl geld
    gemüse gerät gericht geruch geschäft geschenk geschichte gesellschaft gewicht glas grenze größe grund gruppe gürtel hafen
    halle handel haus heft heim heizung helfer hemd herr hilfe höhe holz hose hotel hund idee insel institut jacke jahr junge
    kabel kaffee karte kasse kasten katze keller kette kind kino kirche kissen kiste klasse klausur kleid kleidung klinik koch
    koffer kohl kollege kollegin konto konzert kopf korb kosten kraft kuchen kunde kunst kurs lager lampe land laden leben
    lehre lehrer lehrerin leiste leiter leiterin leitung liebe lied liste löffel lohn luft mann mannschaft markt maschine
    material mehl meister meisterin messer miete mieter milch minute mittel möbel monat motor musik mutter nachbar nachbarin
    nacht name netz nummer nuss obst ofen oper ordner paket papier park partner pass pause person pflanze pflege plan platte
    platz praxis preis problem probe programm projekt prüfung pulver punkt raum rechner rechnung regal regel reise rezept rind
    ring rock rolle rucksack runde saal sache saft salat salbe satz schaden schein schicht schiff schild schlüssel schloss
    schnitt schokolade schrank schuh schule schüler schutz schwester seite sekunde sendung sessel sohn soße speise spiel
    spieler sport sprache stadt stand stein stelle steuer stift stock stoff straße strecke strom stück studium stufe stuhl
    stunde suche suppe system tarif tasche tasse teil telefon teller teppich termin test text theater tier tisch titel tochter
    topf torte tour training traum treffen treppe tuch turm turnier umzug unfall unterlagen unterricht urlaub vater verein
    vereinbarung vermieter versicherung vertrag viertel vogel wagen wald wand wanderung ware wasser wechsel wein welt werk
    werkstatt wert wetter woche wohnung wort wunsch wurst zahl zahn zahlung zeichen zeit zeitung zelt zettel zeug ziel zimmer
    zutat
""".split()  # noqa: SIM905 - a word list reads better as one text


def parts_of(word: str) -> tuple[str, ...]:
    """The stems of what a lower-case German word is made of, as far as its last word is known: none, or two."""
    for start in range(LEAST, len(word) - LEAST):
        if (head := stem_in("de", word[start:])) in _heads():
            return normalize(stem_in("de", word[:start])), normalize(head)
    return ()


@cache
def _heads() -> frozenset[str]:
    return frozenset(stem_in("de", head) for head in _HEADS)
