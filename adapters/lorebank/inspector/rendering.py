"""From values to HTML: the templates, and how a page shows what memories may hold.

Everything is escaped. Signs that steer a text instead of showing (controls, changes of direction, invisible tags) stand in the
page by their code, so that a memory looks like what a model reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lorebank.inspector.faults import Fault

_STEERING = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb"
    "\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)


def visible(text: object) -> Markup:
    """A text as it can be read: what can't be seen is named."""
    return Markup(_STEERING.sub(_named, str(escape(text))))  # noqa: S704 - escaped above; the codes are ours


def _named(sign: re.Match[str]) -> str:
    return f'<span class="sign">U+{ord(sign[0]):04X}</span>'


def moment(value: datetime | None) -> str:
    """A time in UTC, to the minute."""
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"


def number(value: float | None) -> str:
    """A score: three digits behind the point."""
    return "" if value is None else f"{value:.3f}"


def plain(value: object) -> str:
    """A value of the metadata: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def counted(count: int, name: str, plural: str = "") -> str:
    """A number with its noun."""
    return f"{count:,} {name if count == 1 else plural or f'{name}s'}"


def share(value: float, most: float) -> int:
    """How long a bar is, of 100."""
    return 0 if most <= 0 else max(0, min(100, round(100 * value / most)))


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown: a template, its title, where in the menu it is, and what it tells."""

    template: str
    title: str
    menu: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """Another page, after something was changed; `done` is said there, and `undo` is the change that can be taken back."""

    path: str
    done: str
    undo: int | None = None


def failed(fault: Fault, title: str, menu: str) -> Page:
    """A page that has nothing but a fault to tell."""
    return Page("fault.html", title, menu, {"fault": fault}, fault.status)


class Templates:
    """The package's templates."""

    def __init__(self) -> None:
        loader = PackageLoader("lorebank.inspector", "templates")
        self._templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
        )
        filters: dict[str, Any] = {"visible": visible, "moment": moment, "number": number, "plain": plain}
        self._templates.filters.update(filters)
        helping: dict[str, Any] = {"counted": counted, "share": share}
        cast("dict[str, Any]", self._templates.globals).update(helping)

    def html(self, page: Page, frame: Mapping[str, Any]) -> str:
        """The page as HTML; `frame` is what stands on every page."""
        return self._templates.get_template(page.template).render(page=page, **frame, **page.values)
