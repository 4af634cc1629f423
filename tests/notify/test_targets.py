# SPDX-License-Identifier: Apache-2.0
"""The entry points of targets lead to them, when they are needed."""

from __future__ import annotations

import os
import sys
from configparser import ConfigParser
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.conventions.files import ROOT
from tests.support import processes
from tests.support.targets import target_context
from zaqar_redis.notify.targets import GROUP
from zaqar_redis.notify.targets.http import HttpTarget
from zaqar_redis.notify.targets.mail import MailTarget
from zaqar_redis.notify.targets.trust import TrustTarget


@pytest.mark.parametrize(
    ("schemes", "kind"),
    [
        (("http", "https"), HttpTarget),
        (("mailto",), MailTarget),
        (("trust+http", "trust+https"), TrustTarget),
    ],
)
def test_schemes_of_a_kind_have_one_target(schemes: tuple[str, ...], kind: type) -> None:
    declared = ConfigParser()
    declared.read(ROOT / "setup.cfg")
    lines = declared["options.entry_points"][GROUP].split("\n")
    points = dict(line.split(" = ") for line in lines if line)
    factories = {EntryPoint(name, points[name], GROUP).load() for name in schemes}
    (factory,) = factories
    assert isinstance(factory(target_context()), kind)


_NEEDED = """
import sys
from tests.support.targets import target_context
from zaqar_redis import errors
from zaqar_redis.notify.targets import Targets

targets = Targets(target_context())
print("broken" in targets.schemes, "https" in targets.schemes, "aiohttp" in sys.modules)
print(targets.find("unknown:x"))
try:
    targets.find("broken:x")
except errors.BadConfiguration as error:
    print(error)
print(type(targets.find("https://example.org/")).__name__, "aiohttp" in sys.modules)
"""


def test_target_is_imported_when_it_is_needed_and_one_that_fails_is_named(tmp_path: Path) -> None:
    package = tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{GROUP}]\nbroken = no_such_module:create\n")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = processes.run([sys.executable, "-c", _NEEDED], cwd=tmp_path, env=environment)
    assert done.stdout.splitlines() == [
        "True True False",
        "None",
        "the target of broken: cannot be imported: No module named 'no_such_module'",
        "HttpTarget True",
    ], done.stderr
