"""Archives as files: written beside their place and put there whole, read line by line."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from lorebank._domain.archive import Archived
from lorebank._domain.records import End, end, kind_of, line_of, read_header, read_line, tally
from lorebank.errors import GarbledError, LorebankError, UnavailableError, UsageError

LONGEST_LINE = 1 << 28
"""Bytes of a line: more is no memory."""


def parse_path(value: object) -> Path:
    """A file's path, absolute."""
    text = os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise UsageError(f"`path` must be a file's path; found {value!r}")
    return Path(text).expanduser().absolute()


class Writing:
    """An archive that is being written: counts its lines and takes their checksum."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._sum = hashlib.sha256()
        self.counts: Counter[str] = Counter()
        self.bytes = 0

    def head(self, line: bytes) -> None:
        """The first line."""
        self._put(line)

    def add(self, record: Archived) -> None:
        """One record."""
        kind, line = line_of(record)
        if len(line) > LONGEST_LINE:
            raise UsageError(f"a {kind} has {len(line):,} bytes; an archive's line has {LONGEST_LINE:,} at most")
        self.counts[kind] += 1
        self._put(line)

    def finish(self) -> str:
        """The last line; all is on the disk then. Gives the checksum."""
        checksum = self._sum.hexdigest()
        self._put(end(self.counts, checksum))
        with _explained(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return checksum

    def _put(self, line: bytes) -> None:
        with _explained(self._path):
            self._file.write(line)
        self._sum.update(line)
        self.bytes += len(line)


@contextmanager
def writing(target: Path, *, overwrite: bool) -> Generator[Writing]:
    """A file that is there whole once the body has ended (0600), and not at all where the body raises."""
    if target.is_dir():
        raise UsageError(f"`{target}` is a folder: name a file in it")
    if not overwrite and os.path.lexists(target):
        raise _taken(target)
    with _explained(target):
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield Writing(file, target)
        with _explained(target):
            _put_in_place(Path(name), target, overwrite=overwrite)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _put_in_place(part: Path, target: Path, *, overwrite: bool) -> None:
    """Gives the file its name; without `overwrite`, never that of another that has come meanwhile."""
    if overwrite:
        os.replace(part, target)
    else:
        try:
            os.link(part, target)
        except FileExistsError:
            raise _taken(target) from None
        except OSError:  # a file system without links
            if os.path.lexists(target):
                raise _taken(target) from None
            os.replace(part, target)
    if os.name == "posix":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _taken(target: Path) -> UsageError:
    return UsageError(f"`{target}` exists: choose another name, or pass overwrite=True")


@contextmanager
def _explained(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise _explanation(error, path) from error


def _explanation(error: OSError, path: Path) -> LorebankError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return UnavailableError(f"`{path}` can't be written ({error.strerror}): make room and try again")
    return UsageError(f"`{path}` can't be used ({error.strerror}): choose another place")


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """The file, for reading."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise UsageError(f"`{path}` can't be read ({error.strerror})") from error
    with file:
        yield file


def records(file: BinaryIO, heard: Callable[[int], object]) -> Iterator[Archived]:
    """Every record of an archive, from its beginning; `heard` is told how many bytes have been read.

    `GarbledError` at the first line that is wrong, and at the end where lines are missing or are not those that were
    written: whoever reads to the end has read the file as it was exported.
    """
    file.seek(0)
    checksum = hashlib.sha256()
    counts: Counter[str] = Counter()
    done = number = 0
    for number, line in enumerate(_lines(file), 1):
        if number == 1:
            read_header(line)
        elif isinstance(record := read_line(line, number), End):
            _check_end(record, number, checksum.hexdigest(), counts)
            if file.read(1):
                raise GarbledError(f"line {number + 1}: the file goes on after its last line")
            heard(done + len(line))
            return
        else:
            counts[kind_of(record)] += 1
            yield record
        checksum.update(line)
        done += len(line)
        heard(done)
    raise GarbledError(f"line {number + 1}: the file ends before its last line: it was cut off")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise GarbledError(f"a line has more than {LONGEST_LINE:,} bytes: that is no archive of lorebank's")
        yield line


def _check_end(told: End, number: int, checksum: str, counts: Counter[str]) -> None:
    if told.sha256 != checksum:
        raise GarbledError(f"line {number}: the checksum does not fit the lines before it: the file was changed or is damaged")
    if told.counts != tally(counts):
        raise GarbledError(f"line {number}: the file does not hold as many lines as its last line says")
