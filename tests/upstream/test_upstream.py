# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar's own tests pass on our driver inside stock Zaqar, this release and the last.

Of the last release only those of its storage: what it asks of a driver differs there.  Its
transport is above that, and test_clients.py sends it the requests of clients.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.upstream import run
from tests.upstream.inapplicable import inapplicable

#: ``tools/test --all`` creates it: the previous release needs an environment of its own.
PREVIOUS = Path(__file__).parents[2] / ".venv-test-previous" / "bin" / "python"


#: The interpreters with each release, for parameters of tests.
RELEASES = (
    pytest.param(sys.executable, id="current"),
    pytest.param(str(PREVIOUS), id="previous", marks=pytest.mark.nightly),
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("python", "suite"),
    [
        pytest.param(sys.executable, "storage", id="current-storage"),
        pytest.param(
            sys.executable, "transport", id="current-transport", marks=pytest.mark.nightly
        ),
        pytest.param(str(PREVIOUS), "storage", id="previous-storage", marks=pytest.mark.nightly),
    ],
)
def test_stock_zaqars_tests_pass_on_our_driver(
    python: str, suite: str, pytestconfig: pytest.Config
) -> None:
    assert Path(python).exists(), "tools/test --all creates the environment"
    done = run.run(python, "zaqar-redis", suite, store=pytestconfig.getoption("store"), jobs=2)
    assert len(done.tests) > 100
    assert done.wrong(inapplicable()) == {}
