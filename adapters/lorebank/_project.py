"""Finding a project's label from where the process runs: reads `.git`, starts no other program."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from urllib.parse import urlsplit

from lorebank._domain.scope import parse_label
from lorebank.errors import UsageError


def project_label(project: str | None) -> str | None:
    """The label of a project: as named, or found for `"auto"`."""
    if project is None:
        return None
    return parse_label(find_label(Path.cwd()) if project == "auto" else project)


def find_label(folder: Path) -> str:
    """The git remote's `owner-name`, else the primary checkout's folder (worktrees share it), else the folder's name."""
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            common = _common_git_folder(place / ".git")
            return _remote_label(common / "config") or _checkout_name(common) or _name(place)
    return _name(folder)


def _common_git_folder(git: Path) -> Path:
    """The folder that all worktrees of a repository share."""
    if git.is_dir():
        return git
    pointer = _read(git).removeprefix("gitdir:").strip()
    own = (git.parent / pointer).resolve() if pointer else git
    common = _read(own / "commondir").strip()
    return (own / common).resolve() if common else own


def _checkout_name(common: Path) -> str:
    return common.parent.name if common.name == ".git" else common.name.removesuffix(".git")


def _remote_label(config: Path) -> str | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string("\n".join(line.strip() for line in _read(config).splitlines()))
    except configparser.Error:
        return None
    remotes = {name: parser[name].get("url") for name in parser.sections() if name.startswith("remote ")}
    url = remotes.get('remote "origin"') or next(filter(None, remotes.values()), None)
    parts = [part for part in re.split(r"[/\\]+", _repository_path(url or "")) if part]
    return "-".join(parts[-2:]) or None


def _repository_path(url: str) -> str:
    """The path in a remote's URL or in `host:path`, without user, password, host and port."""
    plain = url.strip().removesuffix("/").removesuffix(".git")
    if "://" in plain:
        return urlsplit(plain).path
    host, colon, path = plain.partition(":")
    return path if colon and "/" not in host else plain


def _name(folder: Path) -> str:
    if not folder.name:
        raise UsageError(f"project='auto' finds no name for {str(folder)!r}: name the project yourself")
    return folder.name


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
