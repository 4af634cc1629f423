# SPDX-License-Identifier: Apache-2.0
"""Nobody needs stock Zaqar, or what it brings, but the plugin."""

from __future__ import annotations

import subprocess
import sys

from tests.house.files import modules

_PROGRAM = """
import importlib, sys
for name in ("zaqar", "oslo_utils", "keystonemiddleware", "webob", "pymongo"):
    sys.modules[name] = None  # to import it is an error from now on
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_the_package_imports_without_zaqar() -> None:
    names = [name for name, _ in modules() if not name.startswith("zaqar_redis.upstream.")]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *names, "zaqar_redis.upstream.options"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
