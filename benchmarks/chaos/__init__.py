# SPDX-License-Identifier: Apache-2.0
"""Faults by a seeded schedule, and a check of what was promised."""
