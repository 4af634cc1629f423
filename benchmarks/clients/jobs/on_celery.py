# SPDX-License-Identifier: Apache-2.0
"""Celery."""

from __future__ import annotations

from celery import Celery

from benchmarks.clients import jobs

app = Celery(broker=jobs.ADDRESS)
app.conf.update(task_default_queue=jobs.QUEUE, task_ignore_result=True)
job = app.task(jobs.do)
post = job.delay
