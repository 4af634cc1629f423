# SPDX-License-Identifier: Apache-2.0
"""What the job migrate is made of."""
