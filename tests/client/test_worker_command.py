# SPDX-License-Identifier: Apache-2.0
"""Workers in processes, that are stopped and killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from zaqar_redis_client import AsyncClient, Client, Queue, command

from tests.client.worker_process import PYTHON_PATH, environment_of, worker_process
from tests.client.working import pid_in, until, until_stats
from tests.support import servers
from tests.support.terminal import terminal


def _run(command_line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line,
        env=os.environ | PYTHON_PATH,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _marks(folder: Path, kind: str) -> int:
    return len(list(folder.glob(f"{kind}-*")))


def _hold(folder: Path, number: int) -> dict[str, Any]:
    return {"task": "hold", "args": [str(folder), number]}


@pytest.mark.parametrize("signals", [1, 2])
async def test_worker_that_is_stopped_gives_back_what_has_not_begun_at_once(
    running: servers.RunningService, project: str, client: AsyncClient, tmp_path: Path, signals: int
) -> None:
    log = tmp_path / "log"
    with worker_process(running.url, project, log) as process:
        await client.queue("q").post_many([_hold(tmp_path, number) for number in range(4)])
        await until_stats(client, claimed=4)
        await until(lambda: _marks(tmp_path, "begun") == 1)
        process.terminate()
        await until_stats(client, free=3, claimed=1)
        assert process.poll() is None
        if signals == 1:
            (tmp_path / "free").touch()
        else:
            process.terminate()
        assert await asyncio.to_thread(process.wait, 60) == 0, log.read_text()
    left = [each.reason async for each in client.queue("q").messages()]
    assert left == ([""] * 3 if signals == 1 else ["the worker was stopped", "", "", ""])
    assert _marks(tmp_path, "done") == 2 - signals


async def test_jobs_of_a_worker_that_is_killed_are_done_by_another_one(
    running: servers.RunningService, project: str, client: AsyncClient, tmp_path: Path
) -> None:
    queue, log = client.queue("q"), tmp_path / "log"
    with worker_process(running.url, project, log, ttl=2) as process:
        await queue.post({"task": "process_hold", "args": [str(tmp_path / "pid")]})
        pid = await pid_in(tmp_path / "pid")
        process.kill()
        process.wait()
    await until(lambda: not psutil.pid_exists(pid))
    await queue.purge()
    with worker_process(running.url, project, log, ttl=2) as process:
        await queue.post_many([_hold(tmp_path, number) for number in range(4)])
        await until(lambda: _marks(tmp_path, "begun") > 0)
        process.kill()
        process.wait()
    (tmp_path / "free").touch()
    with worker_process(running.url, project, log):
        await until_stats(client, total=0)
    assert _marks(tmp_path, "done") == 4


def test_command_of_the_service_shows_at_a_terminal_what_a_worker_does(
    running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    with Client(running.url, project) as client:
        queue = client.queue("q")
        environment = environment_of(running.url, project, concurrency=2)
        with terminal("worker", "tests.client.jobs:worker", environment=environment) as shown:
            shown.wait_for("0 of 2 slots")
            append = {"task": "process_append", "args": [str(written), "text"]}
            queue.post_many([append, _hold(tmp_path, 1)])
            shown.wait_for("1 of 2 slots")
            servers.wait_for(lambda: _left(queue) == 1, "one of them to be done")
            (tmp_path / "free").touch()
            servers.wait_for(lambda: _left(queue) == 0, "the other one to be done")
            shown.process.terminate()
            assert shown.process.wait(60) == 0, shown.shown
    assert written.read_text() == "text"


def _left(queue: Queue) -> int:
    return int(queue.stats()["messages"]["total"])


_MODULE = """
import os
from zaqar_redis_client import Worker

print("loaded", {number}, flush=True)
worker = Worker(os.environ["JOBS_URL"])
worker.task("q")(print)
"""


@pytest.mark.nightly
def test_worker_is_loaded_again_when_a_file_changes(
    running: servers.RunningService, tmp_path: Path
) -> None:
    module, log = tmp_path / "changing.py", tmp_path / "log"
    module.write_text(_MODULE.format(number=1))
    command_line = [sys.executable, "-m", "zaqar_redis_client.command", "changing:worker"]
    process = servers.start_logged(
        [*command_line, "--reload"], log, environment_of(running.url, "p"), tmp_path
    )
    with servers.stopping(process):
        servers.wait_for(lambda: "loaded 1" in log.read_text(), "the worker to start")
        # What changes before it watches is not seen.
        while "loaded 2" not in log.read_text():
            assert process.poll() is None, log.read_text()
            module.write_text(_MODULE.format(number=2))
            with contextlib.suppress(TimeoutError):
                servers.wait_for(lambda: "loaded 2" in log.read_text(), "it again", 2)
    assert process.returncode == 0


async def test_metrics_of_a_worker_are_served_for_prometheus(
    running: servers.RunningService, project: str, client: AsyncClient, tmp_path: Path
) -> None:
    # The worker does not tell which one it took.
    port, log = servers.free_port(), tmp_path / "log"
    with worker_process(running.url, project, log, "--metrics", str(port)):
        wrong, held = {"task": "nothing"}, [_hold(tmp_path, number) for number in (1, 2)]
        append = {"task": "process_append", "args": [str(tmp_path / "written"), "text"]}
        await client.queue("q").post_many([append, wrong, *held])
        await until(lambda: _marks(tmp_path, "begun") == 1)
        await until(lambda: _metrics(port)["held_messages"] >= 2)
        found = _metrics(port)
    assert found["jobs_total", "process_append", "q", "done"] == 1
    assert found["jobs_total", "", "", "failed"] >= 1
    assert found["job_seconds_total", "process_append", "q"] > 0
    assert found["running", "hold", "q"] == found["slots"] == 1
    assert found["running", "process_append", "q"] == 0


def _metrics(port: int) -> dict[Any, float]:
    """Returns values by name, or by name and labels."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
    labels, found = ("task", "queue", "outcome"), {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix("zaqar_redis_worker_")
            of = [sample.labels[each] for each in labels if each in sample.labels]
            found[(name, *of) if of else name] = sample.value
    return found


async def test_metrics_at_an_address_that_cannot_be_had_end_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = "tests.client.jobs:worker"
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        done = await asyncio.to_thread(command.main, [place, "--metrics", str(port)])
    assert done == 2
    assert f"--metrics 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
    for wrong in ("0", "70000", "localhost", "localhost:"):
        with pytest.raises(SystemExit) as ended:
            command.main([place, "--metrics", wrong])
        assert ended.value.code == 2
        assert "it must be [HOST:]PORT with a port of 1 to 65535" in capsys.readouterr().err


async def test_command_that_finds_no_worker_says_so(
    running: servers.RunningService, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, text in (
        ("tests.client.jobs", "write MODULE:WORKER"),
        ("tests.client.jobs:nobody", "has no nobody"),
        ("tests.client.jobs:hold", "is no Worker, but Task"),
        ("tests.client.nothing:worker", "No module named"),
        (":worker", "write MODULE:WORKER"),
        ("./jobs:worker", "write MODULE:WORKER"),
        ("tests.client.jobs:idle", "has no tasks"),
    ):
        assert command.main([place]) == 2
        assert text in capsys.readouterr().err


_TRACED = """
import asyncio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from zaqar_redis_client import Worker

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
tracer, worker = trace.get_tracer("test"), Worker(URL, PROJECT)

@worker.task("q")
def twice(number: int) -> int:
    with tracer.start_as_current_span("inside"):
        return 2 * number

async def main() -> None:
    consumer = worker.consumer()
    working = asyncio.create_task(consumer.run())
    with tracer.start_as_current_span("outside"):
        assert await twice.ask(4) == 8
    consumer.stop()
    await working
    await worker.close()

asyncio.run(main())
spans = {span.name: span for span in exporter.get_finished_spans()}
for name, parent in (("inside", "process twice"), ("process twice", "outside")):
    assert spans[name].parent.span_id == spans[parent].context.span_id
print(spans["process twice"].attributes["messaging.destination.name"])
measured = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics[0]
[point] = measured.data.data_points
print(measured.name, point.count, point.attributes["code.function.name"])
"""


def test_job_is_a_span_in_the_trace_of_its_poster(
    running: servers.RunningService, project: str
) -> None:
    program = _TRACED.replace("URL", repr(running.url)).replace("PROJECT", repr(project))
    done = _run([sys.executable, "-c", program])
    printed = "q\nmessaging.process.duration 1 twice\n"
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
