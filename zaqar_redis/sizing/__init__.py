# SPDX-License-Identifier: Apache-2.0
"""What a load needs: measured costs, and the arithmetic from them to machines."""
