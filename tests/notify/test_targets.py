# SPDX-License-Identifier: Apache-2.0
"""The entry points of targets lead to them."""

from __future__ import annotations

from configparser import ConfigParser
from importlib.metadata import EntryPoint

import pytest

from tests.conventions.files import ROOT
from zaqar_redis.notify.targets import GROUP, http, mail, trust


@pytest.mark.parametrize(
    ("schemes", "create"),
    [
        (("http", "https"), http.create),
        (("mailto",), mail.create),
        (("trust+http", "trust+https"), trust.create),
    ],
)
def test_schemes_of_a_kind_have_one_target(schemes: tuple[str, ...], create: object) -> None:
    declared = ConfigParser()
    declared.read(ROOT / "setup.cfg")
    lines = declared["options.entry_points"][GROUP].split("\n")
    points = dict(line.split(" = ") for line in lines if line)
    factories = {EntryPoint(name, points[name], GROUP).load() for name in schemes}
    assert factories == {create}
