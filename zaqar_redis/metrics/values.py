# SPDX-License-Identifier: Apache-2.0
"""Metrics as one process counts them: plain numbers, by the values of their labels.

They belong to the process, as its loggers do, so that every package can count.  A metric has one
row of numbers for each combination of labels; all rows of a process are a `Snapshot`.
"""

from __future__ import annotations

import abc
import collections
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

Labels = tuple[str, ...]
#: Of a counter or a gauge its value; of a histogram the sum, and how many are in each bucket.
Row = list[float]
Rows = Sequence[tuple[Labels, Row]]
#: By the names of metrics.
Snapshot = Mapping[str, Rows]

#: Of durations: 131 us to 17 s, by the bits of their nanoseconds.
_FIRST_BITS, _LAST_BITS = 17, 34
#: Parts of a unit in which histograms are summed, e.g. 60 ns: then the sum is exact, whatever the
#: order of workers, up to 17 years.  Else it may fall by a last digit when one of them is replaced,
#: and Prometheus takes that for a restart, and counts all of it again.
_PARTS = 2**24


class Metric(abc.ABC):
    #: as Prometheus calls it
    kind: ClassVar[str]
    #: what a worker has counted counts on when it is gone
    outlives_worker: ClassVar[bool] = True
    #: has a row for each worker, with a label that names it
    per_worker = False

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        """*name*: without the suffix of counters, ``_total``."""
        self.name = f"zaqar_redis_{name}"
        self.help = help
        self.labels = labels

    @abc.abstractmethod
    def reset(self) -> None:
        """Forgets what was counted."""

    @abc.abstractmethod
    def rows(self) -> Iterator[tuple[Labels, Row]]:
        """Yields what was counted."""

    def combine(self, rows: Iterable[Row]) -> Row:
        """Returns one row for those of several processes."""
        return [sum(numbers) for numbers in zip(*rows, strict=True)]


#: How many answers there were with each status; callers add to them, which costs no call.
CountsByStatus = collections.defaultdict[int, int]
#: Nanoseconds that answers took, by status.
DurationsByStatus = collections.defaultdict[int, list[int]]


class Counter(Metric):
    """Only grows.  Without labels, callers add to `total` themselves, which costs no call."""

    kind = "counter"

    def __init__(
        self,
        name: str,
        help: str,
        labels: Labels = (),
        *,
        known: Iterable[str] = (),
        per_worker: bool = False,
    ) -> None:
        """*known*: values of its only label that have a row from the start."""
        super().__init__(name, help, labels)
        self.per_worker = per_worker
        self._known = tuple(known)
        self.reset()

    def reset(self) -> None:
        self.total: float = 0
        self._by_labels: dict[Labels, int] = {(each,): 0 for each in self._known}
        self._by_status: dict[Labels, CountsByStatus] = {}

    def by_status(self, *labels: str) -> CountsByStatus:
        """Returns the counts of rows with these first labels; the last one is the status."""
        return self._by_status.setdefault(labels, CountsByStatus(int))

    def add(self, *labels: str, by: int = 1) -> None:
        self._by_labels[labels] = self._by_labels.get(labels, 0) + by

    def rows(self) -> Iterator[tuple[Labels, Row]]:
        if not self.labels:
            yield (), [self.total]
        for labels, total in [*self._by_labels.items()]:
            yield labels, [total]
        for labels, counts in self._by_status.items():
            for status, total in counts.items():
                yield (*labels, str(status)), [total]


class Gauge(Metric):
    """Goes up and down: it is set, or read from functions when it is wanted."""

    kind = "gauge"
    outlives_worker = False

    def __init__(
        self,
        name: str,
        help: str,
        labels: Labels = (),
        *,
        per_worker: bool = False,
        least: bool = False,
    ) -> None:
        """*least*: of several values with the same labels the least one counts, not the sum."""
        super().__init__(name, help, labels)
        self.per_worker = per_worker
        self._least = least
        self.reset()

    def reset(self) -> None:
        self._values: dict[Labels, float] = {}
        self._functions: dict[object, tuple[Labels, Callable[[], float]]] = {}

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = value

    def replace(self, values: Mapping[Any, float]) -> None:
        """Sets these values, by their labels, and forgets all others."""
        self._values = dict(values)

    def follow(self, read: Callable[[], float], *labels: str) -> Callable[[], None]:
        """Reads the value by *read* from now on.  Returns the function that ends this."""
        key = object()
        self._functions[key] = labels, read

        def end() -> None:
            self._functions.pop(key, None)

        return end

    def rows(self) -> Iterator[tuple[Labels, Row]]:
        found = {labels: [[value]] for labels, value in self._values.items()}
        for labels, read in self._functions.values():
            found.setdefault(labels, []).append([float(read())])
        for labels, rows in found.items():
            yield labels, self.combine(rows)

    def combine(self, rows: Iterable[Row]) -> Row:
        return min(rows) if self._least else super().combine(rows)


class StoredCounter(Gauge):
    """A counter that the store keeps: it is read as a gauge is, and grows on without workers."""

    kind = "counter"


class Histogram(Metric):
    kind = "histogram"

    def __init__(
        self, name: str, help: str, labels: Labels = (), *, buckets: tuple[float, ...]
    ) -> None:
        """*buckets*: their upper bounds, without the last one, which has none."""
        super().__init__(name, help, labels)
        self.buckets = buckets
        self.reset()

    def reset(self) -> None:
        self._by_labels: dict[Labels, Row] = {}

    def observe(self, value: float, *labels: str) -> None:
        row = self._row(labels)
        row[0] += round(value * _PARTS) / _PARTS
        row[1 + bisect_left(self.buckets, value)] += 1

    def _row(self, labels: Labels) -> Row:
        row = self._by_labels.get(labels)
        if row is None:
            row = self._by_labels[labels] = [0] * (len(self.buckets) + 2)
        return row

    def rows(self) -> Iterator[tuple[Labels, Row]]:
        yield from self._by_labels.items()


class DurationHistogram(Histogram):
    """Durations in seconds, given in nanoseconds, and sorted into buckets many at a time.

    Each bucket is twice the one before: so the number of bits of a duration is its bucket, and
    sorting needs no loop in Python.
    """

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        bits = range(_FIRST_BITS, _LAST_BITS + 1)
        super().__init__(name, help, labels, buckets=tuple(2**each / 1e9 for each in bits))

    def reset(self) -> None:
        super().reset()
        #: since they were sorted last: what a worker answers in a second
        self._by_status: dict[Labels, DurationsByStatus] = {}

    def by_status(self, *labels: str) -> DurationsByStatus:
        """Returns the durations of rows with these first labels; the last one is the status."""
        return self._by_status.setdefault(labels, DurationsByStatus(list))

    def add(self, nanoseconds: int, *labels: str) -> None:
        row = self._row(labels)
        row[0] += round(nanoseconds * _PARTS / 1e9) / _PARTS
        row[self._place(nanoseconds.bit_length())] += 1

    def rows(self) -> Iterator[tuple[Labels, Row]]:
        for labels, by_status in self._by_status.items():
            for status, added in by_status.items():
                if added:
                    self._sort(added, self._row((*labels, str(status))))
        yield from super().rows()

    def _sort(self, added: list[int], row: Row) -> None:
        row[0] += round(sum(added) * _PARTS / 1e9) / _PARTS
        for bits, number in collections.Counter(map(int.bit_length, added)).items():
            row[self._place(bits)] += number
        added.clear()

    def _place(self, bits: int) -> int:
        return 1 + min(max(bits - _FIRST_BITS, 0), len(self.buckets))
