"""Small line charts as SVG, for artifacts: one figure over time, with axes, unit, and the limit of what is good.

Each has a light background of its own, so that it is readable on dark and light pages. Not for what is drawn
(`artifacts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from math import floor, log10
from statistics import median

Point = tuple[datetime, float | None]

WIDTH, HEIGHT = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 18, 34, 26
MAX_POINTS = 160
_QUIET_SECONDS = 120.0
_DAY = 86400.0
_INK, _FAINT, _LINES, _GROUND = "#1f2933", "#52606d", "#e1e6eb", "#ffffff"
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Chart:
    """One chart. unit: of the y axis, in words. good: values below it are good; drawn where the figure comes near."""

    title: str
    unit: str
    colour: str
    good: float | None = None

    def svg(self, points: Sequence[Point], until: datetime) -> str:
        """The picture. points: oldest first, UTC; None: not known, which leaves a gap. At least one must be known.

        until: where the axis of time ends, at the last point or later: a time in which nobody could look stays empty.
        """
        points = _thinned(points)
        known = [value for _, value in points if value is not None]
        field = _Field(points[0][0], max(until, points[-1][0]), _ceiling(max(known)))
        body = [
            *self._frame(known[-1]),
            *_rows(field),
            *_times(field),
            *self._good(field),
            *(self._stretch(field, each) for each in _stretches(points)),
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="Helvetica,Arial,sans-serif" font-size="11">{"".join(body)}</svg>'
        )

    def _frame(self, newest: float) -> Iterator[str]:
        size = f'width="{WIDTH - 1}" height="{HEIGHT - 1}"'
        yield f'<rect x=".5" y=".5" {size} rx="6" fill="{_GROUND}" stroke="{_LINES}"/>'
        yield _text(12, 20, f"{self.title}, {self.unit}", size=13, weight="bold")
        yield _text(WIDTH - _RIGHT, 20, f"last {short(newest)}", anchor="end", size=13)

    def _good(self, field: _Field) -> Iterator[str]:
        if self.good is None or self.good > field.top:
            return
        y = field.y(self.good)
        yield _line(_LEFT, y, WIDTH - _RIGHT, y, "#2f855a", ' stroke-dasharray="5 4"')
        yield _text(WIDTH - _RIGHT - 4, y - 4, f"good: below {short(self.good)}", anchor="end", fill="#2f855a")

    def _stretch(self, field: _Field, points: Sequence[tuple[datetime, float]]) -> str:
        """A line without a gap, and the area below it; one point is a dot."""
        places = [(field.x(at), field.y(value)) for at, value in points]
        (first, height), (last, _) = places[0], places[-1]
        if len(places) == 1:
            return f'<circle cx="{first:.1f}" cy="{height:.1f}" r="2.5" fill="{self.colour}"/>'
        path = " ".join(f"{x:.0f},{y:.1f}" for x, y in places)
        ground = field.y(0)
        return (
            f'<polygon points="{first:.0f},{ground:.1f} {path} {last:.0f},{ground:.1f}" '
            f'fill="{self.colour}" opacity=".15"/>'
            f'<polyline points="{path}" fill="none" stroke="{self.colour}" stroke-width="1.8" stroke-linejoin="round"/>'
        )


@dataclass(frozen=True)
class _Field:
    """The plane of a chart: times from begin to end, values from 0 to top."""

    begin: datetime
    end: datetime
    top: float

    @property
    def seconds(self) -> float:
        return max(1.0, (self.end - self.begin).total_seconds())

    def x(self, at: datetime) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - self.begin).total_seconds() / self.seconds

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * min(max(value, 0.0), self.top) / self.top


def short(number: float) -> str:
    """A number for an axis: 1.2k, 30M."""
    for size, letter in _UNITS:
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def _rows(field: _Field) -> Iterator[str]:
    for part in range(5):
        value = field.top * part / 4
        y = field.y(value)
        yield _line(_LEFT, y, WIDTH - _RIGHT, y, _LINES)
        yield _text(_LEFT - 6, y + 4, short(value), anchor="end", fill=_FAINT)


def _times(field: _Field) -> Iterator[str]:
    form = "%d %b %H:%M" if field.seconds > _DAY else "%H:%M:%S" if field.seconds < 600 else "%H:%M"
    for part, anchor in ((0, "start"), (1, "middle"), (2, "middle"), (3, "end")):
        at = field.begin + (field.end - field.begin) * part / 3
        zone = " UTC" if part == 3 else ""
        yield _text(field.x(at), HEIGHT - 9, f"{at.astimezone(UTC):{form}}{zone}", anchor=anchor, fill=_FAINT)


def _ceiling(value: float) -> float:
    """A round number that is not below the value: 1, 2, 4, 5 or 8 times a power of ten, 4 at least."""
    if value <= 4:
        return 4.0
    size: float = 10.0 ** floor(log10(value))
    return next(step * size for step in (1, 2, 4, 5, 8, 10) if step * size >= value)


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """No more than MAX_POINTS: of neighbours the highest stays, so that no peak is lost."""
    many = -(-len(points) // MAX_POINTS)
    if many <= 1:
        return points
    groups = [points[index : index + many] for index in range(0, len(points), many)]
    return [max(group, key=lambda point: -1.0 if point[1] is None else point[1]) for group in groups]


def _stretches(points: Sequence[Point]) -> Iterator[Sequence[tuple[datetime, float]]]:
    """The known points, cut at unknown ones and at long gaps between observations."""
    steps = [(after[0] - before[0]).total_seconds() for before, after in pairwise(points)]
    longest = max(_QUIET_SECONDS, 4 * median(steps)) if steps else _QUIET_SECONDS
    stretch: list[tuple[datetime, float]] = []
    for at, value in points:
        if stretch and (value is None or (at - stretch[-1][0]).total_seconds() > longest):
            yield stretch
            stretch = []
        if value is not None:
            stretch.append((at, value))
    if stretch:
        yield stretch


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{more}/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 11, fill: str = _INK, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{escape(text)}</text>'
    )
