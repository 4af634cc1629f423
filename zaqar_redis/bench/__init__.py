# SPDX-License-Identifier: Apache-2.0
"""Load for a Zaqar v2 service on this machine, and a report of what it did."""
