# SPDX-License-Identifier: Apache-2.0
"""A build backend for this package's wheel, with the standard library only.

A real package would use setuptools; these tests need no build tool.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

_NAME = "zaqar_redis_dict"
_INFO = f"{_NAME}-1.0.dist-info"
_FILES = {
    "METADATA": "Metadata-Version: 2.1\nName: zaqar-redis-dict\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "entry_points.txt": f"[zaqar_redis.storage]\ndict = {_NAME}:create\n",
}


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    name = f"{_NAME}-1.0-py3-none-any.whl"
    sources = sorted(Path(_NAME).glob("*.py"))
    members = [f"{_INFO}/{file}" for file in _FILES] + [str(source) for source in sources]
    record = "".join(f"{member},,\n" for member in [*members, f"{_INFO}/RECORD"])
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as wheel:
        for source in sources:
            wheel.write(source, str(source))
        for file, text in _FILES.items():
            wheel.writestr(f"{_INFO}/{file}", text)
        wheel.writestr(f"{_INFO}/RECORD", record)
    return name
