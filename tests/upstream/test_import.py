# SPDX-License-Identifier: Apache-2.0
"""Only the plugin needs stock Zaqar and its dependencies."""

from __future__ import annotations

import sys

from tests.conventions.files import modules
from tests.support import processes

_PROGRAM = """
import importlib, sys
for name in ("zaqar", "keystonemiddleware", "webob", "pymongo"):
    sys.modules[name] = None  # its import is an error from now on
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_the_package_imports_without_zaqar() -> None:
    # These need their extras, or the client.
    of_extras = (
        *("zaqar_redis.zaqar_plugin.", "zaqar_redis.auth.keystone_tokens"),
        "zaqar_redis.cli.worker",
    )
    names = [name for name, _ in modules() if not name.startswith(of_extras)]
    program = [sys.executable, "-c", _PROGRAM, *names, "zaqar_redis.zaqar_plugin.options"]
    done = processes.run(program, timeout=110)
    assert done.returncode == 0, done.stderr
