"""A picture of names: where each stands, so that those that belong together are near each other. The same for the same names."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorebank._domain.entities import Entities

WIDTH, HEIGHT, EDGE = 960, 560, 60
LETTERS = 18
"""Letters of a name in the picture; the table has it whole."""
_STEPS = 220
_TURN = math.pi * (3 - math.sqrt(5))
Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Node:
    """A name: its place, its size, and its text."""

    name: str
    count: int
    x: int
    y: int
    radius: int

    @property
    def text(self) -> str:
        return self.name if len(self.name) <= LETTERS else f"{self.name[: LETTERS - 1]}…"


@dataclass(frozen=True, slots=True)
class Line:
    """That two names stand together: from where to where, how thick."""

    from_x: int
    from_y: int
    to_x: int
    to_y: int
    width: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Names and the lines between them."""

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    width: int = WIDTH
    height: int = HEIGHT


def drawn(entities: Entities, limit: int) -> Picture | None:
    """The picture of the most frequent names; none where there are fewer than two."""
    names = entities.names[:limit]
    if len(names) < 2:
        return None
    place = {each.name: number for number, each in enumerate(names)}
    pairs = [each for each in entities.pairs if each.first in place and each.second in place]
    links = np.zeros((len(names), len(names)))
    for pair in pairs:
        weight = math.log2(1 + pair.count)
        links[place[pair.first], place[pair.second]] = links[place[pair.second], place[pair.first]] = weight
    points = _fitted(_settled(links))
    most = max(each.count for each in names)
    nodes = tuple(
        Node(each.name, each.count, int(x), int(y), 6 + round(14 * math.sqrt(each.count / most)))
        for each, (x, y) in zip(names, points, strict=True)
    )
    strong = max((pair.count for pair in pairs), default=1)
    lines = tuple(
        Line(one.x, one.y, other.x, other.y, 1 + round(4 * pair.count / strong))
        for pair in pairs
        for one, other in [(nodes[place[pair.first]], nodes[place[pair.second]])]
    )
    return Picture(nodes, lines)


def _settled(links: Points) -> Points:
    """Points that push each other away and are pulled along the links, after they have come to rest."""
    count = len(links)
    turns = _TURN * np.arange(count)
    points: Points = np.sqrt(np.arange(count) + 0.5)[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    points /= math.sqrt(count)
    ideal = 1.6 / math.sqrt(count)
    for step in range(_STEPS):
        gaps = points[:, None] - points[None]
        far = np.maximum(np.sqrt((gaps**2).sum(-1)), 1e-3)
        force = ideal**2 / far**2 - links * far / ideal * 0.35
        np.fill_diagonal(force, 0.0)
        moves = (gaps * force[..., None]).sum(1) - 0.6 * points
        length = np.maximum(np.sqrt((moves**2).sum(-1)), 1e-9)
        heat = 0.12 * (1 - step / _STEPS) + 0.002
        points += moves / length[:, None] * np.minimum(length, heat)[:, None]
    return points


def _fitted(points: Points) -> Points:
    """The points, spread over the picture; those that are too near in height give way, so that their names can be read."""
    low, high = points.min(0), points.max(0)
    span = np.maximum(high - low, 1e-6)
    placed: Points = EDGE + (points - low) / span * np.array([WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE])
    for _ in range(40):
        gaps = placed[:, None] - placed[None]
        near = (np.abs(gaps[..., 0]) < 110) & (np.abs(gaps[..., 1]) < 34)
        np.fill_diagonal(near, val=False)
        if not near.any():
            break
        order = np.arange(len(placed))
        up = np.where(gaps[..., 1] == 0, np.sign(order[:, None] - order[None]), np.sign(gaps[..., 1]))
        placed[:, 1] += (near * up * 2.5).sum(1)
    placed[:, 1] = np.clip(placed[:, 1], 30, HEIGHT - 30)
    return placed
