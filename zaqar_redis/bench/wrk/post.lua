-- SPDX-License-Identifier: Apache-2.0
-- Post args[1] messages a request, to one queue or in turn to args[2] queues q-1, q-2, …
local report = require "report"
local turns, turn = {}, 0

function init(args)
    local count, queues = tonumber(args[1]), tonumber(args[2] or 1)
    local messages = {}
    for place = 1, count do
        messages[place] = report.message()
    end
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = '{"messages":[' .. table.concat(messages, ",") .. "]}"
    if queues > 1 then
        for place = 1, queues do
            local path = string.gsub(wrk.path, "/messages", "-" .. place .. "%0")
            turns[place] = wrk.format(nil, path)
        end
        request = function()
            turn = turn % queues + 1
            return turns[turn]
        end
    end
end
