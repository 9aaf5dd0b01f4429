"""A dead server is spared."""

from __future__ import annotations

from lorebank._hindsight.breaker import Breaker


class Clock:
    """Seconds that go when told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(3):
        assert breaker.wait() == 0
        breaker.failed()
    return breaker


def test_three_failures_open_it() -> None:
    """The fourth call fails at once, for a second."""
    clock = Clock()
    assert opened(clock).wait() == 1


def test_one_trial_goes_through_after_the_rest() -> None:
    """Others wait for what it finds."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 1
    assert breaker.wait() == 0
    assert breaker.wait() > 0


def test_the_rest_doubles_up_to_half_a_minute() -> None:
    """A server that stays dead is asked less and less."""
    clock = Clock()
    breaker = opened(clock)
    rests: list[float] = []
    for _ in range(7):
        rests.append(breaker.wait())
        clock.now += rests[-1]
        assert breaker.wait() == 0
        breaker.failed()
    assert rests == [1, 2, 4, 8, 16, 30, 30]


def test_any_answer_closes_it() -> None:
    """Then it counts from nothing."""
    clock = Clock()
    breaker = opened(clock)
    breaker.answered()
    assert breaker.wait() == 0
    breaker.failed()
    assert breaker.wait() == 0
