# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar with its own driver and with ours."""
