# SPDX-License-Identifier: Apache-2.0
"""The entry points of targets lead to them."""

from __future__ import annotations

from configparser import ConfigParser
from importlib.metadata import EntryPoint

from tests.conventions.files import ROOT
from zaqar_redis.notify.target import TargetContext
from zaqar_redis.notify.targets import GROUP
from zaqar_redis.notify.targets.http import HttpTarget


def test_http_and_https_have_one_target() -> None:
    declared = ConfigParser()
    declared.read(ROOT / "setup.cfg")
    lines = declared["options.entry_points"][GROUP].split("\n")
    points = dict(line.split(" = ") for line in lines if line)
    factories = [EntryPoint(name, points[name], GROUP).load() for name in ("http", "https")]
    assert factories[0] is factories[1]
    assert isinstance(factories[0](TargetContext()), HttpTarget)
