# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis bench chaos``: faults by a seeded schedule, and a check of what was promised."""
