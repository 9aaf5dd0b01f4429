"""Has follow-up work done: in the background when it is due, or at once when somebody asks for it.

Work is due for a bank when enough memories are new, when none has come for a while, or when the first has waited long. The clock
is the backend's. Each batch is one lease of the job, one look at the file, whatever the completer takes, and one transaction
that writes the results with the mark: a process that is killed has done a batch or not.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lorebank._database.driver import rows_of
from lorebank._database.engine import Database
from lorebank._domain.events import Event, Listener
from lorebank._domain.ports import Completer
from lorebank._domain.requests import Consolidation
from lorebank._domain.settings import FollowUp
from lorebank._forks import Forkable, watch_forks
from lorebank._mnemopi.background import Done, Turn, Worker
from lorebank._mnemopi.jobs import marks
from lorebank._mnemopi.jobs.consolidation import Consolidating
from lorebank._mnemopi.jobs.extraction import Extraction
from lorebank._mnemopi.jobs.marks import Job, Settled
from lorebank._mnemopi.jobs.metering import Metered
from lorebank._mnemopi.jobs.work import Work, Written
from lorebank._mnemopi.store import bank_number
from lorebank._mnemopi.trouble import Trouble
from lorebank.errors import LorebankError, UnavailableError

SECOND = 1_000_000
"""Ticks."""
BUSY = 5.0
"""Seconds after which a job that another process has is looked at again."""
LOOK = 0.05
PATIENCE = 120.0
"""Seconds that somebody who asks for a consolidation waits for another who is at it."""
_ELSEWHERE = "another process is at"
_BANKS = "SELECT number, name FROM banks ORDER BY number"


@dataclass(slots=True)
class _Waiting:
    """What is known of a bank's new memories: the last key, when the first and the last came (in ticks)."""

    last: int
    since: int
    until: int


class Jobs(Forkable):
    """The follow-up work of one file. What is said with `wake` names the bank that has something new."""

    def __init__(
        self,
        database: Database,
        completer: Completer | None,
        settings: FollowUp,
        now: Callable[[], int],
        wrote: Callable[[], None],
    ) -> None:
        self.database, self.completer, self.settings = database, completer, settings
        self._now, self._wrote = now, wrote
        self.tell: Listener = _nobody
        self.trouble = Trouble("completer")
        self.worker = Worker("lorebank-follow-up", self.trouble, self._pass)
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._named: set[str] = set()
        self._waiting: dict[Job, _Waiting] = {}
        self._held: dict[Job, str] = {}
        self._begun, self._force, self._busy = 0, False, False
        self._failed: Job | None = None

    def after_fork(self) -> None:
        self._begin()

    @property
    def works(self) -> Sequence[Work]:
        """What is done in the background."""
        lent, settings = self.completer is not None, self.settings
        found: list[Work] = [Extraction()] if lent and settings.extraction else []
        return [*found, Consolidating()] if (lent if settings.consolidation is None else settings.consolidation) else found

    def announce(self, tell: Listener) -> None:
        self.tell = self.trouble.tell = tell

    def wake(self, bank: str) -> None:
        """The bank has something new. The first time since the file was opened, all of its banks are looked at."""
        if self.works:
            with self._lock:
                self._named.add(bank)
            begun, self._begun = self._begun, self.database.openings
            self.worker.wake(whole=begun != self._begun)

    def begin(self, bank: str) -> None:
        """The file is open: what was left undone in it goes on."""
        if self._begun != self.database.openings:
            self.wake(bank)

    def flush(self, timeout: float, *, everything: bool) -> tuple[int, str | None]:
        """Waits for what is due, or for `everything`, also where another process does it; gives whether something is left (1),
        and why.
        """
        if not self.works:
            return 0, None
        until = time.monotonic() + timeout
        while True:
            with self._lock:
                self._force |= everything
            ended, reason = self.worker.finish(max(0.0, until - time.monotonic()))
            if not ended:
                return 1, f"follow-up work goes on after {timeout:.3g} s"
            if not self._busy or time.monotonic() + LOOK > until:
                return (1, reason) if reason is not None else (0, None)
            time.sleep(LOOK)

    def stop(self, timeout: float) -> None:
        """Ends the thread; what a completer is still asked is thrown away, and left to the next who opens the file."""
        self.worker.stop(timeout)
        for job, owner in list(self._held.items()) if self.database.opened else ():
            self._release(job, owner)

    def consolidate(self, bank: str) -> Consolidation:
        """Consolidates what is new in a bank, at once, in the caller's thread."""
        with self.database.direct() as connection:
            number = bank_number(connection, bank)
        if number is None:
            return Consolidation()
        job, until = Job(number, bank, "consolidation"), time.monotonic() + PATIENCE
        while (done := self._work(job, Consolidating(), Turn())) is None:
            if time.monotonic() > until:
                raise UnavailableError(f"another process has been consolidating {bank!r} for {PATIENCE:.0f} s: try again later")
            time.sleep(LOOK)
        return done

    def _pass(self, turn: Turn, whole: bool) -> Done:
        """Does what is due in the banks that were named, or in all."""
        with self._lock:
            named, self._named = self._named, set()
            force = self._force and whole
            self._force &= not force
        reasons: list[str | None] = []
        again: list[float] = []
        name, job = "", None
        try:
            for name, job, work in self._looked_at(named, whole=whole):
                wait = 0.0 if force else self._wait(job, fresh=whole or name in named, whole=whole)
                if wait:
                    again.append(wait)
                elif wait is not None:
                    reasons.append(self._done(job, work, turn))
            self._failed = None
            self.trouble.worked(name)
        except Exception as error:  # noqa: BLE001 - a user's model may raise anything; it is told, and tried again
            with self._lock:
                self._named |= named
            self._failed = job
            words = str(error) if isinstance(error, LorebankError) else f"{type(error).__name__}: {error}"
            self.trouble.failed(name, words)
            return Done(words, 0.0)
        self._busy = any(reason is not None and reason.startswith(_ELSEWHERE) for reason in reasons)
        again += [BUSY] if self._busy else []
        return Done(next(filter(None, reasons), None), min(again, default=None))

    def _looked_at(self, named: AbstractSet[str], *, whole: bool) -> list[tuple[str, Job, Work]]:
        """The jobs of the banks that were named or wait, or of all, with their banks' names. One that has failed comes last: what
        a model refuses in one bank keeps no other bank waiting.
        """
        with self.database.direct() as connection:
            if whole:
                banks = {(int(number), str(name)) for number, name in rows_of(connection, _BANKS)}
            else:
                banks = {(number, name) for name in named if (number := bank_number(connection, name)) is not None}
                banks |= {(job.bank, job.name) for job in list(self._waiting)}
        found = [(name, Job(number, name, work.kind), work) for number, name in sorted(banks) for work in self.works]
        return sorted(found, key=lambda each: each[1] == self._failed)

    def _wait(self, job: Job, *, fresh: bool, whole: bool) -> float | None:
        """In how many seconds a job is due; of one without news the file is not asked before its time."""
        left = self._left(job)
        return left if left > 0 and not fresh else self._due_in(job, whole=whole)

    def _left(self, job: Job) -> float:
        """In how many seconds a job that waits is due, as far as is known."""
        seen, settings = self._waiting.get(job), self.settings
        if seen is None:
            return 0.0
        return min(seen.until + settings.idle * SECOND, seen.since + settings.age * SECOND) / SECOND - self._now() / SECOND

    def _done(self, job: Job, work: Work, turn: Turn) -> str | None:
        """Does a job; gives why it is not all done."""
        done = self._work(job, work, turn)
        return f"{_ELSEWHERE} the {work.kind} of {job.name!r}" if done is None else done.reason

    def _due_in(self, job: Job, *, whole: bool) -> float | None:
        """In how many seconds the job is due (0: now); `None` where there is nothing to do."""
        now = self._now()
        with self.database.direct() as connection:
            found = marks.mark(connection, job)
            since, until = marks.span(connection, found, now) if whole and job not in self._waiting else (now, now)
        if not found.waiting:
            self._waiting.pop(job, None)
            return None
        seen = self._waiting.setdefault(job, _Waiting(found.last, since, until))
        if found.last != seen.last:
            seen.last, seen.until = found.last, now
        return 0.0 if found.waiting >= self.settings.after else max(0.0, self._left(job))

    def _work(self, job: Job, work: Work, turn: Turn) -> Consolidation | None:
        """Does a job, batch by batch; `None` where another has the lease of it."""
        owner = secrets.token_hex(8)
        with self.database.direct(write=True, bank=job.name) as connection:
            if not marks.claim(connection, job, owner, self._now()):
                return None
        self._held[job] = owner
        total = Consolidation()
        try:
            while not turn.over and (done := self._batch(job, work, turn, owner)) is not None:
                total = Consolidation(
                    total.observations + done.observations,
                    total.memories + done.memories,
                    total.tokens + done.tokens,
                    done.reason,
                )
                if done.reason is not None:
                    break
        finally:
            if not turn.over:
                self._release(job, owner)
        self._waiting.pop(job, None)
        return total

    def _release(self, job: Job, owner: str) -> None:
        with self.database.direct(write=True, bank=job.name) as connection:
            marks.release(connection, job, owner)
        self._held.pop(job, None)

    def _batch(self, job: Job, work: Work, turn: Turn, owner: str) -> Consolidation | None:
        """One batch; `None` where there is none left, or the right to write is lost."""
        now = self._now()
        with self.database.read() as connection:
            keys = marks.batch(connection, job, work.size)
            material = work.read(connection, job, keys, now) if keys else None
            spent = marks.spent(connection, job.bank, now)
        if not keys:
            self._finish(job)
            return None
        if self.completer is not None and spent >= self.settings.tokens_per_day:
            return Consolidation(reason=f"the bank {job.name!r} has used its {self.settings.tokens_per_day:,} tokens of today")
        used = None if self.completer is None else Metered(self.completer)
        thought = work.think(material, used)
        with turn.lock:
            if turn.over:
                return None
            written = self._written(job, work, owner, (keys, thought, used))
        if written is None:
            return None
        if written.event is not None:
            self.tell(written.event)
        if written.count:
            self._wrote()
        return Consolidation(written.count, written.sources, used.tokens if used is not None else 0)

    def _written(self, job: Job, work: Work, owner: str, done: tuple[Sequence[int], object, Metered | None]) -> Written | None:
        """Writes a batch with its mark; `None` where the lease was lost: somebody else does it."""
        keys, thought, used = done
        with self.database.write(job.name) as connection:
            now = self._now()
            if not marks.settle(connection, job, owner, Settled(keys, (), used.tokens if used is not None else 0), now):
                return None
            written = work.write(connection, job, thought, now)
            marks.settle(connection, job, owner, Settled((), written.changed), now)
            return written

    def _finish(self, job: Job) -> None:
        """Moves the mark over the keys of memories that are gone."""
        with self.database.direct(write=True, bank=job.name) as connection:
            if not marks.batch(connection, job, 1):
                marks.finish(connection, job)


def _nobody(_event: Event) -> None:
    """Nobody listens yet."""
