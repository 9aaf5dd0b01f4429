"""Which time a query names."""

import unicodedata
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from lorebank._mnemopi.search.periods import Period, asks_when, find_period

ANCHOR = datetime(2024, 5, 15, 12, tzinfo=UTC)
"""A Wednesday."""


def span(query: str, anchor: datetime = ANCHOR) -> tuple[str, str]:
    """The first span a query names: first and last day."""
    period = find_period(query, anchor)
    assert period is not None, query
    start, end = period.spans[0]
    assert (start.timetz(), end.timetz()) == (time(tzinfo=anchor.tzinfo), time(tzinfo=anchor.tzinfo))
    return start.date().isoformat(), (end.date() - timedelta(days=1)).isoformat()


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("What happened in May 2023?", "2023-05-01", "2023-05-31"),
        ("February 2024", "2024-02-01", "2024-02-29"),
        ("dec 2023", "2023-12-01", "2023-12-31"),
        ("Im März 2023", "2023-03-01", "2023-03-31"),
        ("en février 2023", "2023-02-01", "2023-02-28"),
        ("mayo de 2023", "2023-05-01", "2023-05-31"),
        ("2023-05", "2023-05-01", "2023-05-31"),
        ("on 2023-05-09", "2023-05-09", "2023-05-09"),
        ("on 09.05.2023", "2023-05-09", "2023-05-09"),
        ("9-5-2023", "2023-05-09", "2023-05-09"),
        ("on 05/19/2023", "2023-05-19", "2023-05-19"),
        ("on 19/05/2023", "2023-05-19", "2023-05-19"),
        ("am 9.5. war", "2024-05-09", "2024-05-09"),
        ("2024年5月", "2024-05-01", "2024-05-31"),
        ("2023年5月9日", "2023-05-09", "2023-05-09"),
        ("2024年2月29日", "2024-02-29", "2024-02-29"),
        ("in 2023?", "2023-01-01", "2023-12-31"),
        ("summer of 2023", "2023-06-01", "2023-08-31"),
        ("winter 2022", "2022-12-01", "2023-02-28"),
        ("last summer", "2023-06-01", "2023-08-31"),
        ("last winter", "2023-12-01", "2024-02-29"),
    ],
)
def test_a_named_period(query: str, first: str, last: str) -> None:
    """Months, years, seasons and days by their names and numbers."""
    assert span(query) == (first, last)


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("today", "2024-05-15", "2024-05-15"),
        ("yesterday", "2024-05-14", "2024-05-14"),
        ("last  night", "2024-05-14", "2024-05-14"),
        ("tomorrow", "2024-05-16", "2024-05-16"),
        ("昨日何をした", "2024-05-14", "2024-05-14"),
        ("three days ago", "2024-05-12", "2024-05-12"),
        ("a week ago", "2024-05-05", "2024-05-11"),
        ("a couple of weeks ago", "2024-04-28", "2024-05-04"),
        ("2 months ago", "2024-03-01", "2024-03-31"),
        ("five months ago", "2023-12-01", "2023-12-31"),
        ("a year ago", "2023-01-01", "2023-12-31"),
        ("in the last 3 days", "2024-05-12", "2024-05-15"),
        ("past two weeks", "2024-05-01", "2024-05-15"),
        ("last week", "2024-05-06", "2024-05-12"),
        ("this week", "2024-05-13", "2024-05-19"),
        ("next week", "2024-05-20", "2024-05-26"),
        ("last weekend", "2024-05-11", "2024-05-12"),
        ("last month", "2024-04-01", "2024-04-30"),
        ("next year", "2025-01-01", "2025-12-31"),
        ("on Monday", "2024-05-13", "2024-05-13"),
        ("on Wednesday", "2024-05-08", "2024-05-08"),
        ("last friday", "2024-05-10", "2024-05-10"),
        ("next friday", "2024-05-17", "2024-05-17"),
        ("next wednesday", "2024-05-22", "2024-05-22"),
    ],
)
def test_a_relative_period(query: str, first: str, last: str) -> None:
    """Seen from the anchor; weeks begin on Monday."""
    assert span(query) == (first, last)


@pytest.mark.parametrize(
    ("query", "anchor", "first", "last"),
    [
        ("last month", datetime(2024, 1, 5, tzinfo=UTC), "2023-12-01", "2023-12-31"),
        ("next month", datetime(2024, 12, 5, tzinfo=UTC), "2025-01-01", "2025-01-31"),
        ("last week", datetime(2024, 1, 1, tzinfo=UTC), "2023-12-25", "2023-12-31"),
        ("yesterday", datetime(2024, 3, 1, tzinfo=UTC), "2024-02-29", "2024-02-29"),
        ("last winter", datetime(2024, 1, 5, tzinfo=UTC), "2022-12-01", "2023-02-28"),
    ],
)
def test_periods_cross_the_borders_of_months_and_years(query: str, anchor: datetime, first: str, last: str) -> None:
    """Calendars are honoured at their seams."""
    assert span(query, anchor) == (first, last)


def test_days_are_those_of_the_anchors_zone() -> None:
    """Just after midnight in Tokyo, yesterday is Tokyo's."""
    anchor = datetime(2024, 5, 15, 0, 30, tzinfo=ZoneInfo("Asia/Tokyo"))
    period = find_period("yesterday", anchor)
    assert period is not None
    assert [moment.astimezone(UTC).isoformat() for moment in period.spans[0]] == [
        "2024-05-13T15:00:00+00:00",
        "2024-05-14T15:00:00+00:00",
    ]


@pytest.mark.parametrize(
    "query", ["on 12 March 2023", "March 12th, 2023", "12th of March 2023", "12. März 2023", "12 de marzo de 2023"]
)
def test_a_named_day_hits_fully_and_its_month_by_half(query: str) -> None:
    """The day and its neighbours, the month around, nothing else."""
    period = find_period(query, ANCHOR)
    assert period is not None
    days = [date(2023, 3, 12), date(2023, 3, 20), date(2023, 4, 12), date(2022, 3, 12)]
    assert [period.closeness(datetime.combine(day, time(9), UTC)) for day in days] == [1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("query", ["in May", "5月", "during may", "December stories"])
def test_a_month_without_a_year_is_that_month_of_any_year(query: str) -> None:
    """Memories may be old: twelve years back."""
    period = find_period(query, ANCHOR)
    assert period is not None
    assert [start.year for start, _ in period.spans] == list(range(2024, 2012, -1))


@pytest.mark.parametrize("query", ["29 February", "February 29th", "2月29日に何をした？"])
def test_a_leap_day_without_a_year_is_that_day_of_leap_years(query: str) -> None:
    """Years without the day are passed over, in any spelling."""
    period = find_period(query, ANCHOR)
    assert period is not None
    hits = [year for year in (2016, 2020, 2024) if period.closeness(datetime(year, 2, 29, 9, tzinfo=UTC)) == 1.0]
    assert hits == [2016, 2020, 2024]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "Which seat does Ana like?",
        "You may march on",
        "feb 30",
        "2023-13",
        "room 2023a",
        "9999 years ago",
        "99999 days",
        "version 1.2023",
        "version 3.11.2",
        "a ratio of 3.12. Then",
        "31.13.2023",
        "13月",
        "the mar file",
    ],
)
def test_other_queries_name_no_time(query: str) -> None:
    """Impossible dates and words that only look like months are none."""
    assert find_period(query, ANCHOR) is None


@pytest.mark.parametrize("query", ["Im März 2023", "en février 2023", "en août 2023"])
def test_a_month_is_found_in_composed_and_decomposed_form(query: str) -> None:
    """The same text in another Unicode form names the same time."""
    assert find_period(unicodedata.normalize("NFD", query), ANCHOR) == find_period(query, ANCHOR)


def test_closeness_counts_the_start_and_not_the_end() -> None:
    """Spans are half-open."""
    day = (datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC))
    period = Period((day,))
    assert [period.closeness(moment) for moment in day] == [1.0, 0.0]


@pytest.mark.parametrize(
    "query", ["When did we meet?", "how long ago", "What year was it", "Wann war das?", "¿Cuándo?", "いつですか"]
)
def test_a_query_asks_for_a_time(query: str) -> None:
    """In several languages."""
    assert asks_when(query) is True


@pytest.mark.parametrize("query", ["", "Where did we meet?", "whenever", "What did she say?"])
def test_a_query_asks_for_something_else(query: str) -> None:
    """Whole words only."""
    assert asks_when(query) is False
