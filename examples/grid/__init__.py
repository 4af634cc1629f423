# SPDX-License-Identifier: Apache-2.0
"""A world of squares, each of them a channel: ``python -m examples.grid``."""
