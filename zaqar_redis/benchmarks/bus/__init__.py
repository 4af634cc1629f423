# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis bench bus``: publish and subscribe over several buses, measured in turn."""
