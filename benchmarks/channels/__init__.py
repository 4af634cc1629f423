# SPDX-License-Identifier: Apache-2.0
"""Channels: publications, subscribers, connections, and recovery."""
