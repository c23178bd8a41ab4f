-- Sends one request of a file again and again. `{{KEY}}` becomes one key after the other, `{{NUMBER}}`
-- a new number of 16 digits, or a random identifier, and `{{COUNT}}` a new number of 9 digits.
-- Arguments: the file, the keys (separated by commas), the run, the number of identifiers or 0.

local threads = {}
function setup(thread)
    threads[#threads + 1] = thread
    thread:set("id", #threads)
end

local pieces, keys, run, identifiers, count = {}, {}, 0, 0, 0

function init(args)
    run, identifiers = tonumber(args[3]), tonumber(args[4])
    for key in args[2]:gmatch("[^,]+") do keys[#keys + 1] = key end
    local file = assert(io.open(args[1], "rb"))
    local text, at = file:read("*a"), 1
    file:close()
    while true do
        local first, last, name = text:find("{{(%u+)}}", at)
        if not first then break end
        pieces[#pieces + 1] = text:sub(at, first - 1)
        pieces[#pieces + 1] = name
        at = last + 1
    end
    pieces[#pieces + 1] = text:sub(at)
    math.randomseed(run * 1000 + id)
end

-- Successive numbers are scattered, as those of many clients are: they hit all parts of an index.
local function number()
    if identifiers > 0 then return tostring(math.random(identifiers)) end
    return string.format("%08x%02x%06x", count * 2654435761 % 4294967296, id, run)
end

function request()
    count = count + 1
    local key, successive = keys[count % #keys + 1], string.format("%d%08d", id, count)
    local values = { KEY = key, NUMBER = number(), COUNT = successive }
    local parts = {}
    for at, piece in ipairs(pieces) do parts[at] = at % 2 == 0 and values[piece] or piece end
    return table.concat(parts)
end

function done(summary, latency)
    local failed = summary.errors
    print(string.format("RESULT %d %d %f %f %d", summary.requests, summary.duration,
        latency:percentile(50) / 1000, latency:percentile(99) / 1000,
        failed.connect + failed.read + failed.write + failed.timeout + failed.status))
end
