# SPDX-License-Identifier: Apache-2.0
"""The Zaqar v2 REST API, one file per resource."""
