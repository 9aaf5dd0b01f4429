"""Takes secrets out of text before anything is written.

What counts as a secret: PEM private keys, bearer and basic credentials, the key shapes of well-known services, JSON web
tokens, cookies, `password=`-like pairs and credentials inside URLs. One cheap search decides whether the
text needs the patterns at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from lorebank._domain.item import Item

Redactor = Callable[[str], tuple[str, int]]
"""Takes a text; gives it without its secrets, and how many there were."""

MARK = "[redacted]"

_SHAPES: dict[str, tuple[str, ...]] = {
    "": ("bearer ", "basic ", "akia", "asia", "aiza", "eyj"),
    "-": ("sk-", "glpat-", "xox", "-----"),
    "_": ("k_live", "k_test", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "hf_", "npm_"),
    ":": ("://", "cookie", "pass", "pwd", "secret", "token", "key", "auth", "credential"),
    "=": ("pass", "pwd", "secret", "token", "key", "auth", "credential"),
}
"""What a secret has in it, in lower case, by a character that it can't do without."""
_VALUE = r"(?:\"(?!\[redacted\])[^\"\r\n]{3,}\"|'(?!\[redacted\])[^'\r\n]{3,}'|(?!\[redacted\]|[\"'])[^\s,;\"'&]{3,})"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL), MARK),
    (re.compile(r"(?i)\b((?:set-)?cookie[ \t]{0,8}:[ \t]{0,8})(?!\[redacted\])[^\s=\"']{1,200}=[^\r\n\"']*"), rf"\1{MARK}"),
    (
        re.compile(
            r"(?i)\b(authorization[\"']?[ \t]{0,8}[=:][ \t]{0,8}[\"']?(?:(?:bearer|basic|token|digest|apikey)[ \t]+)?)"
            rf"{_VALUE}"
        ),
        rf"\1{MARK}",
    ),
    (re.compile(r"(?i)\b(bearer[ \t]+)(?=[a-z._~+/=-]*[0-9])[a-z0-9._~+/=-]{8,}"), rf"\1{MARK}"),
    (re.compile(r"(?i)\b(basic[ \t]+)(?=[a-z+/]*(?:[0-9]|=(?![a-z])))[a-z0-9+/]{6,}={0,2}"), rf"\1{MARK}"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,256}):(?!\[redacted\]@)[^\s/]{1,256}@"), rf"\1:{MARK}@"),
    (
        re.compile(
            r"\b(?:sk-[A-Za-z0-9_-]{16,}|[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}|gh[pousr]_[A-Za-z0-9]{20,}"
            r"|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
            r"|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
            r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
        ),
        MARK,
    ),
    (
        re.compile(
            r"(?i)(?<![\w-])((?:[a-z0-9]{0,32}[_-]){0,6}[a-z0-9]{0,24}?(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key"
            rf"|access[_-]?key|private[_-]?key|credentials?)[\"']?[ \t]{{0,8}}[=:][ \t]{{0,8}}){_VALUE}"
        ),
        rf"\1{MARK}",
    ),
)


def redact(text: str) -> tuple[str, int]:
    """The text without its secrets, each replaced by `[redacted]`, and how many there were. Redacting twice changes nothing."""
    if not _suspicious(text):
        return text, 0
    found = 0
    for pattern, mark in _PATTERNS:
        text, count = pattern.subn(mark, text)
        found += count
    return text, found


def _suspicious(text: str) -> bool:
    """Whether the patterns may find something. Most texts have no such hint, and are spared the search."""
    lowered = text.lower()
    for mark, shapes in _SHAPES.items():
        if mark in lowered:
            for shape in shapes:
                if shape in lowered:
                    return True
    return False


def redact_value(value: Any, redactor: Redactor) -> tuple[Any, int]:
    """The same for what JSON holds, at any depth; a mapping's value is seen together with its key."""
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, Mapping):
        pairs = {key: _redact_pair(key, each, redactor) for key, each in cast("Mapping[str, Any]", value).items()}
        return {key: each for key, (each, _) in pairs.items()}, sum(count for _, count in pairs.values())
    if isinstance(value, (list, tuple)):
        parts = [redact_value(each, redactor) for each in cast("Sequence[Any]", value)]
        return [each for each, _ in parts], sum(count for _, count in parts)
    return value, 0


def _redact_pair(key: str, value: Any, redactor: Redactor) -> tuple[Any, int]:
    """`{"password": "x"}` holds a secret that neither its key nor its value shows alone."""
    if isinstance(value, (list, tuple)):
        parts = [_redact_pair(key, each, redactor) for each in cast("Sequence[Any]", value)]
        return [each for each, _ in parts], sum(count for _, count in parts)
    plain, count = redact_value(value, redactor)
    if count or isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == MARK:
        return plain, count
    _, together = redactor(f"{key}={value}")
    return (MARK, together) if together else (plain, 0)


def redact_item(item: Item, redactor: Redactor) -> tuple[Item, int]:
    """An item with its content, context, metadata and tags redacted, and how many secrets were taken out.

    A mark may be longer than the secret it stands for: limits were checked on what the caller gave.
    """
    content, found = redactor(item.content)
    if not found and not item.context and not item.metadata and not item.tags:
        return item, 0
    changed: dict[str, Any] = {"content": content} if found else {}
    for name in ("context", "metadata", "tags"):
        if value := getattr(item, name):
            plain, count = redact_value(value, redactor)
            if count:
                changed[name] = tuple(plain) if name == "tags" else plain
                found += count
    return (item.rewritten(**changed), found) if changed else (item, found)
