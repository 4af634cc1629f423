# SPDX-License-Identifier: Apache-2.0
"""Running wrk, the load generator, and parsing its results."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from zaqar_redis import errors
from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Seconds beyond the length of a round that wrk has to end.
_EXIT_GRACE_SECONDS = 30.0
#: Seconds until a request is counted as lost; the slowest of stock Zaqar's take several.
_REQUEST_TIMEOUT_SECONDS = 20


class LoadSample(msgspec.Struct, frozen=True):
    """The result of one round of one workload."""

    #: units of the workload per second
    rate: float
    #: milliseconds from request to response, or from post to claim
    p50: float
    p99: float
    #: share of one core that the load generator used
    generator: float
    #: requests that failed or were refused
    errors: int
    #: units done, and whether the messages ran out before the end
    work: int
    dry: bool = False


class WrkLoad:
    """wrk over one thread and a number of connections."""

    def __init__(self, connections: int) -> None:
        self.connections = connections
        self._program = wrk()

    def run(
        self,
        script: str,
        url: str,
        headers: Mapping[str, str],
        seconds: float,
        *arguments: object,
    ) -> LoadSample:
        """Runs wrk with a script.  Raises BenchmarkFailed when wrk fails.

        wrk is stopped when this is interrupted.
        """
        folder = Path(str(resources.files(__package__).joinpath("wrk")))
        command = [self._program, "-t1", f"-c{self.connections}", f"-d{math.ceil(seconds)}s"]
        command += [f"--timeout={_REQUEST_TIMEOUT_SECONDS}s", "-s", str(folder / f"{script}.lua")]
        for name, value in headers.items():
            command += ["-H", f"{name}: {value}"]
        command += [url, "--", *map(str, arguments)]
        used, start = _cpu_of_children(), time.monotonic()
        output = _output(command, os.environ | {"LUA_PATH": f"{folder}/?.lua;;"}, seconds)
        share = (_cpu_of_children() - used) / (time.monotonic() - start)
        return parse(output, share)


def wrk() -> str:
    """Returns the path of wrk.  Raises BadConfiguration when it is not installed."""
    found = shutil.which("wrk")
    if not found:
        raise errors.BadConfiguration(
            "the load generator wrk is not installed; get it with: apt-get install wrk "
            "(Debian, Ubuntu), dnf install wrk (Fedora) or brew install wrk (macOS)"
        )
    return found


def parse(output: str, generator: float) -> LoadSample:
    """Parses the last line of wrk/report.lua.  Raises BenchmarkFailed if there is none."""
    found = re.search(r"^RESULT (\{.*\})$", output, re.MULTILINE)
    if not found:
        raise BenchmarkFailed(f"wrk reported nothing: {output.strip()[-500:]}")
    result = json.loads(found[1])
    failed = result["refused"] + result["broken"]
    work, span = result["requests"] - result["refused"], result["seconds"]
    if "work" in result:
        work, span = result["work"], result["span"]
    return LoadSample(
        rate=work / span if span else 0.0,
        p50=result["p50"] / 1000,
        p99=result["p99"] / 1000,
        generator=generator,
        errors=failed,
        work=work,
        dry=result.get("empty", 0) > 0,
    )


def _output(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> str:
    # In a session of its own: only this process handles the terminal's Ctrl-C.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=seconds + _EXIT_GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired as error:
        raise BenchmarkFailed(
            f"wrk did not end within {seconds + _EXIT_GRACE_SECONDS:.0f} s"
        ) from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
