-- Return why the queue refuses a request, whatever it has stored.
if known[4] and tonumber(size) > tonumber(known[4]) then
    return {'large', tonumber(known[4])}
end
if known[5] and not encrypted then
    return {'plain'}
end
