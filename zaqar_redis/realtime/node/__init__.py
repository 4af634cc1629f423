# SPDX-License-Identifier: Apache-2.0
"""Nodes: the sessions of a process, and the messages they receive from other nodes."""
