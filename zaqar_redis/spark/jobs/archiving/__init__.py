# SPDX-License-Identifier: Apache-2.0
"""Archives of queues: files by project, queue and date, and their transaction log."""
