# SPDX-License-Identifier: Apache-2.0
"""What stock Zaqar's own driver wrote into a Redis is there in ours afterwards."""
