# SPDX-License-Identifier: Apache-2.0
"""Backups: files with queues of a running service, and their restore."""
