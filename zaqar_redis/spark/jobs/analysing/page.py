# SPDX-License-Identifier: Apache-2.0
"""The report as a page: one self-contained HTML file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from zaqar_redis.spark.jobs.analysing import plots, windows
from zaqar_redis.spark.jobs.analysing.about import ReportHeader
from zaqar_redis.spark.jobs.analysing.summary import Summary
from zaqar_redis.spark.jobs.analysing.tables import PERCENTILES, SOON_SECONDS

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #323f4b; background: #fff;
       max-width: 62rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; padding-top: .8rem;
     border-top: 1px solid #e4e7eb; }
p { margin: .3rem 0 .6rem; max-width: 46rem; }
.about { color: #616e7c; }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.4rem 0; }
.figures div { border: 1px solid #e4e7eb; border-radius: 6px; padding: .5rem 1rem;
               min-width: 7rem; }
.figures b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.figures span { color: #616e7c; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; margin: .8rem 0;
        font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #e4e7eb; }
th { color: #616e7c; font-weight: 600; }
th:first-child, td:first-child { text-align: left; min-width: 8rem; overflow-wrap: anywhere; }
tr.sum td { font-weight: 600; border-top: 2px solid #9aa5b1; }
.wide { overflow-x: auto; }
figure { margin: .4rem 0 0; }
svg { width: 100%; height: auto; }
@media print {
  body { margin: 0; max-width: none; font-size: 11px; }
  figure, .figures, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""

_UNKNOWN = """
<ul>
<li>When a message was received, and so how long it took from posting to delivery: stores
do not record that, and a message that was deleted is gone. Ages are those of messages
that are not deleted yet.</li>
<li>When messages were deleted, claimed or released: stores only know how often each was
claimed, and until when it is held.</li>
<li>Messages that were posted and are gone do not count as throughput. Ranks show how many
they are; the backlog counts them at the time of the next message that is left.</li>
</ul>
"""


def page(about: ReportHeader, summary: Summary) -> str:
    """Returns the HTML of the report."""
    title = f"Queues of the project {about.project}"
    parts = [_head(about, title), _figures(about, summary), _queues(about, summary)]
    if summary.begins:
        parts += [*_in_time(about, summary), *_histograms(about, summary)]
    parts += [*_claims(about, summary), *_dead_letters(summary)]
    parts.append(_section("What stored messages do not show", "", _UNKNOWN))
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _head(about: ReportHeader, title: str) -> str:
    kind = "Live queues in" if about.live else "Archive at"
    window = windows.describe(about.window)
    if about.widened_from is not None:
        window += f" (widened from {windows.describe(about.widened_from)}: there were too many)"
    return (
        f"<h1>{html.escape(title)}</h1>\n"
        f'<p class="about">{kind} {html.escape(about.named)}, as of '
        f"{about.at:%Y-%m-%d %H:%M:%S} UTC; windows of {window}.</p>"
    )


def _figures(about: ReportHeader, summary: Summary) -> str:
    totals = summary.totals
    shown = [
        (_grouped(totals.messages), "messages"),
        (_size(totals.bytes), "of bodies"),
        (_grouped(totals.queues), "queues"),
    ]
    if about.live:
        shown.append((_grouped(summary.claimed_now), "claimed now"))
        shown.append((_grouped(summary.lapsing_soon), f"of them expire within {SOON_SECONDS} s"))
    shown.append((_grouped(totals.dead_letters), "dead letters"))
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in shown)
    return f'<div class="figures">{cells}</div>'


def _queues(about: ReportHeader, summary: Summary) -> str:
    names = ["queue", "messages", "bodies", "first posted", "last posted"]
    names += [f"age {name}" for name in PERCENTILES]
    if about.live:
        names += ["total now", "claimed", "delayed", "oldest"]
    rows = [[html.escape(str(cell)) for cell in _row(about, each)] for each in summary.queues]
    totals = summary.totals
    note = "Ages are percentiles, right to a thousandth of the messages."
    if about.live:
        note += " Current numbers are counted by the store, just before messages were read."
    if totals.queues > len(rows):
        note += f" The {len(rows)} largest of {_grouped(totals.queues)} queues are shown."
    last = ["all", _grouped(totals.messages), _size(totals.bytes)]
    last += [""] * (len(names) - len(last))
    return _section("Queues", note, _table(names, rows, last))


def _row(about: ReportHeader, queue: Mapping[str, Any]) -> list[str]:
    cells = [queue["queue"], _grouped(queue["messages"]), _size(queue["bytes"])]
    cells += [_time(queue["first_created"]), _time(queue["last_created"])]
    cells += [_duration(queue[f"age_{name}"]) for name in PERCENTILES]
    if about.live:
        counts = ("total_now", "claimed_now", "delayed_now")
        cells += [_grouped(queue[name] or 0) for name in counts]
        cells.append(_duration(queue["oldest_age_now"]))
    return cells


def _in_time(about: ReportHeader, summary: Summary) -> Iterable[str]:
    window = windows.describe(about.window)
    per = window.removeprefix("1 ")
    yield _section(
        "Throughput",
        f"Messages by the time they were posted, in windows of {window}; those that are gone "
        "are not counted.",
        _figure(
            plots.throughput(summary.begins, summary.messages, about.window, f"messages per {per}")
        )
        + _figure(
            plots.throughput(summary.begins, summary.bytes, about.window, f"bytes per {per}")
        ),
    )
    yield _section(
        "Backlog",
        "How many messages had been posted by a time, since the queues were created, and how "
        "many of those are left; the difference was deleted, or has expired.",
        _figure(plots.backlog(summary.begins, summary.posted, summary.left, about.window)),
    )


def _histograms(about: ReportHeader, summary: Summary) -> Iterable[str]:
    nothing = [0]
    age = summary.histograms.get("age", nothing)
    yield _section("Ages", "Since messages were posted.", _figure(plots.histogram(age, "age")))
    delay = summary.histograms.get("delay", nothing)
    if sum(delay[1:]):
        text = "What messages were posted with: how long they could not be claimed at first."
        yield _section("Delays", text, _figure(plots.histogram(delay, "delay")))
    if about.live:
        left = summary.histograms.get("ttl left", nothing)
        text = "How long until messages expire, unless they are deleted."
        yield _section("Time to live", text, _figure(plots.histogram(left, "time left")))


def _claims(about: ReportHeader, summary: Summary) -> Iterable[str]:
    if about.live and summary.claims:
        text = "How often the stored messages were claimed; 0 is never."
        yield _section("Claims", text, _figure(plots.claims(summary.claims)))


def _dead_letters(summary: Summary) -> Iterable[str]:
    if summary.dead_letters:
        text = "By the queue they came from, and their dead-letter queue; the largest first."
        drawn = _figure(plots.dead_letters(summary.dead_letters))
        yield _section("Dead letters", text, drawn)


def _section(title: str, text: str, content: str) -> str:
    about = f'<p class="about">{text}</p>\n' if text else ""
    return f"<section>\n<h2>{title}</h2>\n{about}{content}\n</section>"


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>\n"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], last: Sequence[str]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    foot = '<tr class="sum">' + "".join(f"<td>{cell}</td>" for cell in last) + "</tr>"
    body = "\n".join([*lines, foot])
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _size(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


def _time(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}" if time is not None else "-"


def _duration(seconds: float | None) -> str:
    return plots.duration(seconds) if seconds is not None else "-"
