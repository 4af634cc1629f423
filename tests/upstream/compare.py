# SPDX-License-Identifier: Apache-2.0
"""Counts of stock Zaqar's tests on its own Redis driver and on ours, in one run.

python -m tests.upstream.compare
"""

from __future__ import annotations

import argparse
import sys

from tests.upstream import report, run

#: Suite and target. The tests that stock has for its Redis driver alone are of no use
#: to others; what is generic in them is in "storage".
_RUNS = (
    ("stock-redis", "redis"),
    ("storage", "redis"),
    ("storage", "zaqar-redis"),
    ("transport", "redis"),
    ("transport", "zaqar-redis"),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=3, help="processes (3)")
    jobs = parser.parse_args().jobs
    print("| zaqar | tests | on | run | pass | fail | skipped by stock |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for suite, target in _RUNS:
        done = run.run(sys.executable, target, suite, jobs=jobs)
        counts = done.counts
        print(
            f"| {done.zaqar} | {suite} | {target} | {counts['run']} | "
            f"{counts.get(report.PASS, 0)} | {counts.get(report.FAIL, 0)} | "
            f"{counts.get(report.SKIP, 0)} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
