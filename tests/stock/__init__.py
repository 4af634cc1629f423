# SPDX-License-Identifier: Apache-2.0
"""Tests of the import of data that stock Zaqar's own driver has written."""
