# SPDX-License-Identifier: Apache-2.0
"""What notifications cost and how fast they are delivered."""
