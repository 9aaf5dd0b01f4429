"""A transcript's file, read, and replaced by one without our blocks: whole or not at all, with a backup beside it.

Killed between any two steps, the file is the old one or the new one, and where it is the new one the backup is there.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lorebank import UnavailableError, UsageError
from lorebank._domain.cleaning import CleanedTranscript, clean

LARGEST = 512 * 1024 * 1024
"""Bytes of a transcript, at most: it is read whole."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file as it was read: what it held, what it holds without our blocks, and what tells that it is still the same."""

    path: Path
    content: bytes
    cleaned: CleanedTranscript
    identity: tuple[int, ...]
    mode: int
    owner: tuple[int, int]


def read(path: Path) -> Transcript:
    """Reads a transcript; `UsageError` for what is no file of its own, `GarbledError` for what is no JSON Lines."""
    place = path.expanduser().absolute()
    with _opened(place) as descriptor:
        found = os.fstat(descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read()
        if _identity(os.fstat(descriptor)) != _identity(found):
            raise _changed(place)
    return Transcript(place, content, clean(content), _identity(found), stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def prune(transcript: Transcript) -> Path:
    """Replaces the file by what it is without our blocks; gives the backup. Refused, with nothing left behind, where the file is
    no longer what was read, or somebody has it open (`UnavailableError`).
    """
    path = transcript.path
    with ExitStack() as undo, _alone(path):
        backup = path.with_name(f"{path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}.bak")
        _write(backup, transcript.content, transcript)
        undo.callback(backup.unlink, missing_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        _write(fresh, transcript.cleaned.content, transcript)
        undo.callback(fresh.unlink, missing_ok=True)
        _sync(path.parent)
        _check(transcript)
        left = undo.pop_all()  # from here on the backup stays, whatever interrupts
        try:
            fresh.replace(path)
        except OSError as error:
            left.close()
            raise _unwritten(path, error) from error
    _sync(path.parent)
    return backup


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The file itself, for reading; never what a link points to, nor anything that one could wait for."""
    try:
        kind = os.lstat(path).st_mode
        if stat.S_ISLNK(kind):
            raise UsageError(f"`{path}` is a link to `{path.resolve()}`: name the file itself")
        if not stat.S_ISREG(kind):
            raise UsageError(f"`{path}` is no regular file")
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise UsageError(f"`{path}` can't be read ({error.strerror})") from error
    try:
        if os.fstat(descriptor).st_size > LARGEST:
            raise UsageError(f"`{path}` has more than {LARGEST:,} bytes: split it")
        yield descriptor
    finally:
        os.close(descriptor)


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check(transcript: Transcript) -> None:
    """Refuses a file that is no longer what was read."""
    with _opened(transcript.path) as descriptor:
        same = _identity(os.fstat(descriptor)) == transcript.identity
        with open(descriptor, "rb", closefd=False) as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        if not same or digest != hashlib.sha256(transcript.content).digest():
            raise _changed(transcript.path)


def _changed(path: Path) -> UnavailableError:
    return UnavailableError(f"`{path}` was changed meanwhile: nothing was written. End the session that writes it, and try again")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds the file's locks; refuses a file that another process has open, or has locked: its session is running."""
    if user := _user_of(path):
        raise UnavailableError(f"`{path}` is open in process {user}: end the session that writes it, and try again")
    try:
        import fcntl
    except ImportError:  # Windows refuses to replace an open file by itself
        yield
        return
    try:
        file = path.open("r+b")
    except OSError as error:
        raise UsageError(f"`{path}` can't be written ({error.strerror})") from error
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the next look at the file: that is how these locks are
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UnavailableError(f"`{path}` is locked by a process: end the session that writes it, and try again") from error
        yield


def _user_of(path: Path) -> int | None:
    """A process, as far as this user may look, that has the file open; `None` where there is none, or no `/proc` to tell."""
    wanted = path.stat()
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        with suppress(OSError):
            for each in (process / "fd").iterdir():
                with suppress(OSError):
                    found = each.stat()
                    if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                        return int(process.name)
    return None


def _write(path: Path, content: bytes, like: Transcript) -> None:
    """Writes a new file, never over one that is there; it is on the disk on return, or not there at all."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as error:
        raise _unwritten(path, error) from error
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError, AttributeError):  # only the superuser gives files away
            os.chown(path, *like.owner)
        path.chmod(like.mode)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _unwritten(path, error) from error


def _unwritten(path: Path, error: OSError) -> UnavailableError:
    return UnavailableError(f"`{path}` can't be written ({error.strerror}): the transcript is as it was")


def _sync(folder: Path) -> None:
    """Makes a folder's entries outlive a power cut, where that is possible."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
