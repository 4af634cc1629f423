# SPDX-License-Identifier: Apache-2.0
"""Reads queues: which, from where to where, in which tasks, as which columns."""
