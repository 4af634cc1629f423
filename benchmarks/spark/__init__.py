# SPDX-License-Identifier: Apache-2.0
"""The Spark data source, compared with other ways to do the same."""
