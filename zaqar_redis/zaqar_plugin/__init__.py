# SPDX-License-Identifier: Apache-2.0
"""The driver as stock OpenStack Zaqar loads it: data and control storage.

Only `options` may be imported where zaqar is not installed.
"""
