# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, drawn by matplotlib without a screen; texts in them stay texts."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from zaqar_redis.spark.jobs.analysing.summary import OTHERS
from zaqar_redis.spark.jobs.analysing.tables import CLAIMS_MAX, HISTOGRAM_EDGES

#: Distinct also for colour-blind readers, and in print.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
_GREY, _DARK, _ALARM = "#9aa5b1", "#323f4b", "#d55e00"
_WIDTH, _HEIGHT = 9.0, 3.0
_STYLE: Any = {
    "backend": "agg",
    "svg.fonttype": "none",
    # Ids in the file are then the same each time.
    "svg.hashsalt": "zaqar-redis",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _DARK,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _DARK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
    "xtick.color": _DARK,
    "ytick.color": _DARK,
}
_LEGEND: Any = {"frameon": False, "fontsize": 9}
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


class _Plot:
    """One figure of a report."""

    def __init__(self, height: float = _HEIGHT) -> None:
        with matplotlib.rc_context(_STYLE):
            self._figure = Figure(figsize=(_WIDTH, height), layout="constrained")
            self.axes: Axes = self._figure.add_subplot()
        self.axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        self.axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))

    def svg(self) -> str:
        """Returns the SVG from its root element on, to embed in a page."""
        out = io.StringIO()
        with matplotlib.rc_context(_STYLE):
            self._figure.savefig(out, format="svg", metadata={"Date": None})
        text = out.getvalue()
        return text[text.index("<svg") :]


def throughput(
    begins: Sequence[datetime], series: Mapping[str, Sequence[int]], window: int, unit: str
) -> str:
    """Draws stacked areas, one for each queue, of what was posted in each window."""
    plot = _Plot()
    times = _filled(begins, window)
    place = {time: at for at, time in enumerate(begins)}
    layers = [
        [values[place[time]] if time in place else 0 for time in times]
        for values in series.values()
    ]
    colours = [
        _GREY if name == OTHERS else _COLOURS[at % len(_COLOURS)] for at, name in enumerate(series)
    ]
    edges = _edges(times, window)
    below = [0] * len(edges)
    for layer, colour, name in zip(layers, colours, series, strict=True):
        above = [low + high for low, high in zip(below, [*layer, layer[-1]], strict=True)]
        plot.axes.fill_between(
            edges, below, above, step="post", color=colour, linewidth=0, label=name
        )
        below = above
    _times(plot.axes)
    plot.axes.set_ylim(bottom=0)
    plot.axes.set_ylabel(unit)
    if len(series) > 1:
        plot.axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), **_LEGEND)
    return plot.svg()


def backlog(
    begins: Sequence[datetime], posted: Sequence[int], left: Sequence[int], window: int
) -> str:
    """Draws two lines, posted until then and left of that; the area between is gone."""
    plot = _Plot()
    ends = [_number(begin + timedelta(seconds=window)) for begin in begins]
    times = [_number(begins[0]), *ends]
    # When messages before the first one that is left were posted is unknown.
    high, low = [posted[0] - left[0], *posted], [0, *left]
    plot.axes.fill_between(times, low, high, color=_COLOURS[0], alpha=0.12, linewidth=0)
    plot.axes.plot(times, high, color=_COLOURS[0], label="posted until then")
    plot.axes.plot(times, low, color=_ALARM, label="left of them")
    _times(plot.axes)
    plot.axes.set_ylim(bottom=0)
    plot.axes.set_ylabel("messages, cumulated")
    plot.axes.legend(loc="upper left", **_LEGEND)
    return plot.svg()


def histogram(bars: Sequence[int], what: str) -> str:
    """Draws messages by length of time, bars as wide as `HISTOGRAM_EDGES` on a log scale."""
    filled = [at for at, number in enumerate(bars) if number] or [0]
    first, end = filled[0], filled[-1] + 1
    plot = _bars([at + 0.5 for at in range(first, end)], bars[first:end], 0.92, (first, end))
    ticks = range(first, end + 1)
    plot.axes.set_xticks(list(ticks), [_edge(at) for at in ticks], rotation=45)
    plot.axes.set_xlabel(what)
    return plot.svg()


def claims(counts: Mapping[int, int]) -> str:
    places = list(range(max(counts, default=0) + 1))
    numbers = [counts.get(at, 0) for at in places]
    plot = _bars(places, numbers, 0.8, (-0.5, len(places) - 0.5))
    names = [f"{at}+" if at == CLAIMS_MAX else str(at) for at in places]
    plot.axes.set_xticks(places, names)
    plot.axes.set_xlabel("how often a message was claimed")
    return plot.svg()


def _bars(
    places: Sequence[float], numbers: Sequence[int], width: float, ends: tuple[float, float]
) -> _Plot:
    """Draws numbers of messages; *ends* are those of the axis below them."""
    plot = _Plot()
    _labels(plot.axes, plot.axes.bar(places, numbers, width=width, color=_COLOURS[0]))
    _wide_enough(plot.axes, *ends)
    plot.axes.grid(axis="x", visible=False)
    plot.axes.set_ylabel("messages")
    return plot


def dead_letters(rows: Sequence[tuple[str, str, int]]) -> str:
    plot = _Plot(height=0.9 + 0.32 * len(rows))
    names = [f"{origin} → {queue}" for queue, origin, _ in rows]
    positions = range(len(rows), 0, -1)
    counts = [count for *_, count in rows]
    drawn = plot.axes.barh(list(positions), counts, height=0.7, color=_ALARM)
    _labels(plot.axes, drawn)
    plot.axes.set_yticks(list(positions), names)
    plot.axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    plot.axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    plot.axes.grid(axis="y", visible=False)
    plot.axes.set_xlabel("messages")
    return plot.svg()


def duration(seconds: float) -> str:
    """Returns a length of time in the unit that suits it."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds else "0 s"


def _labels(axes: Axes, bars: BarContainer) -> None:
    """Labels each bar with its value: small bars are hard to see beside large ones."""
    axes.bar_label(bars, fmt=EngFormatter(sep="", places=None), padding=2, fontsize=8)
    axes.margins(y=0.12)


def _edge(at: int) -> str:
    return duration(HISTOGRAM_EDGES[at]) if at < len(HISTOGRAM_EDGES) else "longer"


def _wide_enough(axes: Axes, left: float, right: float) -> None:
    """Keeps a single bar from being as wide as the page."""
    middle, half = (left + right) / 2, max(right - left, 6) / 2
    axes.set_xlim(middle - half, middle + half)


def _filled(begins: Sequence[datetime], window: int) -> list[datetime]:
    """Adds the windows without messages; at most `windows.MAX_WINDOWS` in all."""
    step = timedelta(seconds=window)
    number = round((begins[-1] - begins[0]) / step) + 1
    return [begins[0] + at * step for at in range(number)]


def _edges(times: Sequence[datetime], window: int) -> list[float]:
    return [_number(time) for time in (*times, times[-1] + timedelta(seconds=window))]


def _number(time: datetime) -> float:
    return float(date2num(time))


def _times(axes: Axes) -> None:
    locator = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.margins(x=0)
    axes.set_xlabel("time of posting, UTC")
