# SPDX-License-Identifier: Apache-2.0
"""Authentication and rights: who sends a request, and what they may do."""
