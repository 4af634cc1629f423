# SPDX-License-Identifier: Apache-2.0
"""The sample configuration matches the options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conventions.files import ROOT
from zaqar_redis import conf

SAMPLE = ROOT / "etc" / "zaqar_redis.conf.sample"


def test_sample_equals_the_output_of_the_generator(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, str(ROOT / "tools" / "sample-config"), str(fresh)], check=True)
    assert SAMPLE.read_text() == fresh.read_text(), "run tools/sample-config"


def test_the_sample_names_every_option() -> None:
    lines = SAMPLE.read_text().splitlines()
    for group, options in conf.list_opts():
        assert f"[{group or 'DEFAULT'}]" in lines
        for option in options:
            assert any(line.startswith(f"#{option.name} =") for line in lines), option.name


def test_sample_is_a_valid_configuration_of_defaults() -> None:
    plain, sampled = conf.load([], []), conf.load([], [str(SAMPLE)])
    for group, options in conf.list_opts():
        for option in options:
            one, other = (each[group] if group else each for each in (plain, sampled))
            assert one[option.dest] == other[option.dest]
