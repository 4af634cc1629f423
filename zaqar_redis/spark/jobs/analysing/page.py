# SPDX-License-Identifier: Apache-2.0
"""The report as a page: one self-contained HTML file."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from zaqar_redis.spark.jobs.analysing import plots, windows
from zaqar_redis.spark.jobs.analysing.inputs import AnalyticsInput
from zaqar_redis.spark.jobs.analysing.summary import Summary
from zaqar_redis.spark.jobs.analysing.tables import PERCENTILES, SOON_SECONDS


def page(about: AnalyticsInput, window: int, widened_from: int | None, summary: Summary) -> str:
    """Returns the HTML of the report; windows are in seconds."""
    templates = Environment(
        loader=PackageLoader("zaqar_redis.spark.jobs.analysing", ""),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {
        "grouped": lambda number: f"{number:,}".replace(",", "\u202f"),
        "size": _size,
        "time": lambda time: f"{time:%Y-%m-%d %H:%M:%S}" if time is not None else "-",
        "duration": lambda seconds: plots.duration(seconds) if seconds is not None else "-",
        "window": windows.describe,
    }
    return templates.get_template("report.html").render(
        about=about,
        window=window,
        widened_from=widened_from,
        summary=summary,
        plots=plots,
        percentiles=PERCENTILES,
        soon_seconds=SOON_SECONDS,
    )


def _size(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"
