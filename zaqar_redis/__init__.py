# SPDX-License-Identifier: Apache-2.0
"""Queues and real-time channels on Redis: an OpenStack Zaqar v2 service."""
