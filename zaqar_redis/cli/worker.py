# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis worker``, where the client is installed."""

from __future__ import annotations

import argparse

from cliff.command import Command
from zaqar_redis_client import command


class RunWorker(Command):
    """Run a worker, which calls functions for the messages of queues.

    Example: zaqar-redis worker mails:worker
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        command.add_arguments(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        return command.run(parsed_args)
