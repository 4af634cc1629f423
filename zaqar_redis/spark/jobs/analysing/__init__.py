# SPDX-License-Identifier: Apache-2.0
"""What the job analytics is made of."""
