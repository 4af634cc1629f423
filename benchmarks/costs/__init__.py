# SPDX-License-Identifier: Apache-2.0
"""What acts cost a worker and Redis, and what is stored takes: the figures of doc/scale.md."""
