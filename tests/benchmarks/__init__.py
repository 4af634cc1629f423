# SPDX-License-Identifier: Apache-2.0
"""Figures about this service alone, which `zaqar-redis bench` has no contender for."""
