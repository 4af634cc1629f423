-- SPDX-License-Identifier: Apache-2.0
-- Read one URL repeatedly.
require "report"
