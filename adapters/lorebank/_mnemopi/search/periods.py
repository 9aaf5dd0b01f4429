"""Which time a query names: "in May 2023", "on 12 March", "last week", "three days ago", "2024年5月".

Pure rules over the query's words. A month without a year means that month of any year near the anchor, since memories
may be old. Days are those of the anchor's time zone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

Span = tuple[datetime, datetime]
"""A start (included) and an end (excluded)."""

_YEARS_BACK = 12

_MONTH_NAMES = {
    1: "january jan januar enero janvier",
    2: "february feb februar febrero février fevrier",
    3: "march mar märz marz marzo mars",
    4: "april apr abril avril",
    5: "may mai mayo",
    6: "june jun juni junio juin",
    7: "july jul juli julio juillet",
    8: "august aug agosto août aout",
    9: "september sep sept septiembre septembre",
    10: "october oct oktober octubre octobre",
    11: "november nov noviembre novembre",
    12: "december dec dezember diciembre décembre decembre",
}
_MONTHS = {name: number for number, names in _MONTH_NAMES.items() for name in names.split()}
_SURE = {name for names in _MONTH_NAMES.values() for name in names.split()[:1]} - {"march", "may"}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_DAYS = {name: n for n, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}

_MONTH = "|".join(sorted(map(re.escape, _MONTHS), key=len, reverse=True))
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\.?"
_COUNT = r"(?P<count>\d{1,4}|" + "|".join(_NUMBERS) + r")"
_UNIT = r"(?P<unit>day|week|month|year)s?"


@dataclass(frozen=True, slots=True)
class Period:
    """The time a query names: `spans` hit fully, `near` by half (the month around a named day)."""

    spans: tuple[Span, ...]
    near: tuple[Span, ...] = ()

    def closeness(self, moment: datetime) -> float:
        """How well a moment fits: 1 inside the spans, 0.5 near them, else 0."""
        if any(start <= moment < end for start, end in self.spans):
            return 1.0
        return 0.5 if any(start <= moment < end for start, end in self.near) else 0.0


_ASKS_WHEN = re.compile(
    r"\bwhen\b|\bhow long\b|\b(?:what|which) (?:date|day|month|year|time|week|season)\b"
    r"|\bwann\b|\bcuándo\b|\bquand\b|いつ|何時|何月|何日|什么时候",
    re.IGNORECASE,
)


def asks_when(query: str) -> bool:
    """Whether the query asks for a time."""
    return _ASKS_WHEN.search(unicodedata.normalize("NFC", query)) is not None


def find_period(query: str, anchor: datetime) -> Period | None:
    """The period a query names, seen from `anchor` (an aware datetime), or `None`."""
    text = unicodedata.normalize("NFC", query).casefold()
    if _NAMES_TIME.search(text) is None:
        return None
    for pattern, rule in _RULES:
        for match in pattern.finditer(text):
            try:
                period = rule(match, anchor)
            except (ValueError, OverflowError):  # no such day in the calendar
                continue
            if period is not None:
                return period
    return None


def _days(first: date, last: date, anchor: datetime) -> Span:
    """The span from the beginning of one day to the end of another, in the anchor's zone."""
    start = datetime.combine(first, time(), anchor.tzinfo)
    return start, datetime.combine(last + timedelta(days=1), time(), anchor.tzinfo)


def _month(year: int, month: int, anchor: datetime, length: int = 1) -> Span:
    total = year * 12 + month - 1 + length
    return _days(date(year, month, 1), date(total // 12, total % 12 + 1, 1) - timedelta(days=1), anchor)


def _years(match: re.Match[str], anchor: datetime) -> Iterable[int]:
    """The year a phrase names, else every year near the anchor, newest first."""
    named = match.groupdict().get("year")
    return [int(named)] if named else range(anchor.year, anchor.year - _YEARS_BACK, -1)


def _existing(years: Iterable[int], month: int, day: int) -> list[date]:
    """That day of each year that has it."""
    found: list[date] = []
    for year in years:
        try:
            found.append(date(year, month, day))
        except ValueError:  # 29 February exists in some years only
            continue
    return found


def _named_day(match: re.Match[str], anchor: datetime) -> Period | None:
    month = _MONTHS[match["month"]]
    days = _existing(_years(match, anchor), month, int(match["day"]))
    spans = tuple(_days(each - timedelta(days=1), each + timedelta(days=1), anchor) for each in days)
    near = tuple(_month(year, month, anchor) for year in _years(match, anchor))
    return Period(spans, near) if spans else None


def _named_month(match: re.Match[str], anchor: datetime) -> Period | None:
    name, month = match["month"], _MONTHS[match["month"]]
    if not match.groupdict().get("year") and not match.groupdict().get("in") and name not in _SURE:
        return None
    return Period(tuple(_month(year, month, anchor) for year in _years(match, anchor)))


def _season(match: re.Match[str], anchor: datetime) -> Period:
    first = _SEASONS[match["season"]]
    if match["last"]:
        ended = [year for year in range(anchor.year, anchor.year - 3, -1) if _month(year, first, anchor, 3)[1] <= anchor]
        return Period((_month(ended[0], first, anchor, 3),))
    return Period(tuple(_month(year, first, anchor, 3) for year in _years(match, anchor)))


def _year(match: re.Match[str], anchor: datetime) -> Period:
    return Period((_month(int(match["year"]), 1, anchor, 12),))


def _iso(match: re.Match[str], anchor: datetime) -> Period:
    year, month = int(match["year"]), int(match["m"])
    around = _month(year, month, anchor)
    if not match["d"]:
        return Period((around,))
    named = date(year, month, int(match["d"]))
    return Period((_days(named, named, anchor),), (around,))


def _numeric(match: re.Match[str], anchor: datetime) -> Period | None:
    """With dots and hyphens the day comes first; "5/6/2024" may be the fifth of June or the sixth of May."""
    first, second = int(match["first"]), int(match["second"])
    read = {(first, second), (second, first)} if match["sep"] == "/" else {(first, second)}
    named = [each for day, month in sorted(read) if month <= 12 for each in _existing(_years(match, anchor), month, day)]
    near = tuple(_month(each.year, each.month, anchor) for each in named)
    return Period(tuple(_days(each, each, anchor) for each in named), near) if named else None


def _cjk(match: re.Match[str], anchor: datetime) -> Period | None:
    month = int(match["m"])
    if not match["d"]:
        return Period(tuple(_month(year, month, anchor) for year in _years(match, anchor)))
    named = _existing(_years(match, anchor), month, int(match["d"]))
    if not named:
        return None
    return Period(tuple(_days(each, each, anchor) for each in named), tuple(_month(each.year, month, anchor) for each in named))


_RELATIVE_DAYS = {
    "today": 0, "tonight": 0, "heute": 0, "hoy": 0, "今日": 0,
    "yesterday": -1, "last night": -1, "gestern": -1, "ayer": -1, "昨日": -1, "昨天": -1,
    "tomorrow": 1, "明日": 1, "明天": 1,
}  # fmt: skip


def _relative_day(match: re.Match[str], anchor: datetime) -> Period:
    day = anchor.date() + timedelta(days=_RELATIVE_DAYS[" ".join(match[0].split())])
    return Period((_days(day, day, anchor),))


def _ago(match: re.Match[str], anchor: datetime) -> Period:
    count, today = _count(match), anchor.date()
    unit = match["unit"]
    if unit in ("day", "week"):
        day = today - timedelta(days=count * (7 if unit == "week" else 1))
        slack = timedelta(days=0 if unit == "day" else 3)
        return Period((_days(day - slack, day + slack, anchor),))
    months = anchor.year * 12 + anchor.month - 1 - count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    return Period((_month(year, 1, anchor, 12) if unit == "year" else _month(year, month + 1, anchor),))


def _recent(match: re.Match[str], anchor: datetime) -> Period:
    days = _count(match) * {"day": 1, "week": 7, "month": 31, "year": 366}[match["unit"]]
    return Period((_days(anchor.date() - timedelta(days=days), anchor.date(), anchor),))


def _count(match: re.Match[str]) -> int:
    return int(match["count"]) if match["count"].isdigit() else _NUMBERS[match["count"]]


def _shifted(match: re.Match[str], anchor: datetime) -> Period:
    """Whole calendar units ("last week", "this month", "next year"), weeks from Monday."""
    step = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1}[match["which"]]
    today, unit = anchor.date(), match["unit"]
    if unit in ("week", "weekend"):
        monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
        return Period((_days(monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6), anchor),))
    if unit == "year":
        return Period((_month(anchor.year + step, 1, anchor, 12),))
    year, month = divmod(anchor.year * 12 + anchor.month - 1 + step, 12)
    return Period((_month(year, month + 1, anchor),))


def _weekday(match: re.Match[str], anchor: datetime) -> Period:
    back = (anchor.weekday() - _DAYS[match["name"]]) % 7
    ahead = match["which"] == "next"
    day = anchor.date() + timedelta(days=7 - back if ahead else -(back or 7))
    return Period((_days(day, day, anchor),))


Rule = Callable[[re.Match[str], datetime], "Period | None"]
_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (rf"\b{_YEAR}[-/](?P<m>\d{{1,2}})(?:[-/](?P<d>\d{{1,2}}))?\b", _iso),
        (rf"(?<![\d./-])(?P<first>\d{{1,2}})(?P<sep>[./-])(?P<second>\d{{1,2}})(?P=sep){_YEAR}(?![\d/-])", _numeric),
        (r"\b(?:am|vom|zum|bis|seit|den)\s+(?P<first>\d{1,2})(?P<sep>\.)(?P<second>\d{1,2})\.(?!\d)", _numeric),
        (rf"(?:{_YEAR}年)?(?P<m>\d{{1,2}})月(?:(?P<d>\d{{1,2}})日)?", _cjk),
        (rf"\b{_DAY}\s*(?:of\s+|de\s+)?(?P<month>{_MONTH})\b\.?(?:,?\s*(?:de\s+)?{_YEAR}\b)?", _named_day),
        (rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY}(?!\d)(?:\s*,?\s*{_YEAR}\b)?", _named_day),
        (
            rf"\b(?P<in>(?:in|during|last|since|of|im|en|seit)\s+)?(?P<month>{_MONTH})\b\.?(?:,?\s*(?:of\s+|de\s+)?{_YEAR}\b)?",
            _named_month,
        ),
        (rf"\b(?P<last>last\s+)?(?P<season>{'|'.join(_SEASONS)})\b(?:\s+(?:of\s+)?{_YEAR}\b)", _season),
        (rf"\b(?P<last>last\s+)(?P<season>{'|'.join(_SEASONS)})\b", _season),
        (rf"\b{_COUNT}\s+(?:of\s+)?{_UNIT}\s+ago\b", _ago),
        (rf"\b(?:last|past|previous)\s+{_COUNT}\s+(?:of\s+)?{_UNIT}\b", _recent),
        (r"\b(?P<which>last|past|previous|this|next)\s+(?P<unit>weekend|week|month|year)\b", _shifted),
        (rf"\b(?P<which>last|this|next|on)\s+(?P<name>{'|'.join(_DAYS)})\b", _weekday),
        (r"|".join(rf"\b{w}\b" if w.isascii() else w for w in _RELATIVE_DAYS).replace(" ", r"\s+"), _relative_day),
        (rf"(?<![\w.,-]){_YEAR}(?![\w-]|[.,]\d)", _year),
    )
)

_NAMES_TIME = re.compile(
    rf"\d|\b(?:{_MONTH}|{'|'.join([*_DAYS, *_SEASONS])}|ago|last|past|previous|this|next)\b"
    + "".join(f"|{word.replace(' ', chr(92) + 's+')}" for word in _RELATIVE_DAYS)
)
"""What every time phrase has in it: most queries name no time, and are spared the rules."""
