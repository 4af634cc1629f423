# SPDX-License-Identifier: Apache-2.0
"""The only room that knows what is inside Redis."""
