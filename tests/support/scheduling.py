# SPDX-License-Identifier: Apache-2.0
"""Which process of the tests runs which files, and when.

A file runs in one process, which shares its services among the tests that it runs. Files that
need a server that takes long to start run in the same process: it starts once.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

#: The beginnings of the paths of files that share a Keystone, a session of Spark, or a browser.
_TOGETHER = (
    ("tests/spark/jobs/", "tests/spark/test_session.py", "tests/spark/test_topics.py"),
    ("tests/keystone/",),
    ("tests/realtime/test_console", "tests/realtime/test_browser", "tests/realtime/test_grid"),
)
#: What takes longest, in this order.  It starts first: otherwise one process would run the
#: last of it alone.
_LONG = (
    *("tests/spark/jobs/", "tests/spark_faults/", "tests/benchmarks/", "tests/upstream/"),
    *("tests/keystone/", "tests/realtime/test_console", "tests/spark/", "tests/stock/"),
    *("tests/faults/", "tests/bench/"),
    *("tests/realtime/", "tests/cli/", "tests/contract/", "tests/notify/"),
)


def place(path: str) -> int:
    """Returns the place of a file in the order of all."""
    found = (number for number, long in enumerate(_LONG) if path.startswith(long))
    return next(found, len(_LONG))


class SharedServersScheduling(LoadFileScheduling):  # type: ignore[misc]  # it is untyped
    """Tests by file, or by several files that share a server."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return next((files[0] for files in _TOGETHER if path.startswith(files)), path)
