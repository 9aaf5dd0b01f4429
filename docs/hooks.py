"""What the site shows beside `docs/`: the cookbook, each recipe a page. Links to files that it does not show become text."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
COOKBOOK = ROOT / "cookbook"
_LINK = re.compile(r"\[([^\]\[]+)\]\(((?:\.\./)+[\w./-]+|[\w/-]+\.py|notebooks)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the cookbook's pages."""
    files.append(File.generated(config, "cookbook/README.md", content=(COOKBOOK / "README.md").read_text(encoding="utf-8")))
    for recipe in sorted(COOKBOOK.glob("[0-9]*.py")):
        page = f"# {title(recipe.stem)}\n\n```python\n{recipe.read_text(encoding='utf-8')}```\n"
        files.append(File.generated(config, f"cookbook/{recipe.stem}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Links to recipes lead to their pages."""
    folder = posixpath.dirname(page.file.src_uri)

    def linked(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        place = posixpath.normpath(posixpath.join("docs", folder, target)) if target.startswith("../") else f"{folder}/{target}"
        wanted = place.removeprefix("docs/").removesuffix(".py") + (".md" if place.endswith(".py") else "")
        known = files.get_file_from_path(wanted)
        return f"[{text}]({posixpath.relpath(wanted, folder or '.')})" if known is not None else text

    return _LINK.sub(linked, markdown)


def title(stem: str) -> str:
    """`01_remember_one_thing` as a heading."""
    number, _, words = stem.partition("_")
    return f"{number}: {words.replace('_', ' ')}"
