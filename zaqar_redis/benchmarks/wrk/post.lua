-- SPDX-License-Identifier: Apache-2.0
-- Post args[1] messages per request, to one queue or in turn to args[2] queues q-1, q-2, …
local report = require "report"
local requests, last = {}, 0

function init(args)
    local count, queues = tonumber(args[1]), tonumber(args[2] or 1)
    local messages = {}
    for number = 1, count do
        messages[number] = report.message()
    end
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = '{"messages":[' .. table.concat(messages, ",") .. "]}"
    if queues > 1 then
        for number = 1, queues do
            local path = string.gsub(wrk.path, "/messages", "-" .. number .. "%0")
            requests[number] = wrk.format(nil, path)
        end
        request = function()
            last = last % queues + 1
            return requests[last]
        end
    end
end
