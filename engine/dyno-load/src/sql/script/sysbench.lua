-- The interface that sysbench 1.0.20 gives to scripts, on top of functions of dynoload.
--
-- A connection's script runs as a coroutine. What needs the server is yielded to dynoload as a request, and the
-- coroutine goes on when the answer is there: to the script, every call blocks.
--
-- The chunk gets `native`, a table of functions of dynoload, and returns a function that makes an environment: the
-- global variables of one thread of sysbench, which is one connection here.

local native = ...
local base = _G
local yield, resume, unpack, select, type, error = coroutine.yield, coroutine.resume, unpack, select, type, error
local setmetatable, tostring, tonumber, pcall, xpcall = setmetatable, tostring, tonumber, pcall, xpcall
local getinfo = debug.getinfo
local ffi = require("ffi")

-- Requests; the same numbers are in request.rs.
local CONNECT, DISCONNECT, QUERY, PREPARE, EXECUTE, EXECUTE_TYPED, CLOSE, FETCH = 1, 2, 3, 4, 5, 6, 7, 8
local READY, NEXT, STOP, COUNT_ERROR, MORE_RESULTS, NEXT_RESULT = 9, 10, 11, 12, 13, 14

-- Names of types and constants that declarations of scripts refer to.
ffi.cdef([[
   typedef enum {
      SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_ERROR, SB_CNT_RECONNECT, SB_CNT_BYTES_READ,
      SB_CNT_BYTES_WRITTEN, SB_CNT_MAX
   } sb_counter_type;
   typedef enum { DB_ERROR_NONE, DB_ERROR_IGNORABLE, DB_ERROR_FATAL } sql_error_t;
]])

local sql_types = {
   NONE = 0, TINYINT = 1, SMALLINT = 2, INT = 3, BIGINT = 4, FLOAT = 5, DOUBLE = 6, TIME = 7, DATE = 8, DATETIME = 9,
   TIMESTAMP = 10, CHAR = 11, VARCHAR = 12
}
local sql_errors = { NONE = 0, IGNORABLE = 1, FATAL = 2 }
local RESTART_EVENT = 1
-- The number of no connection and of no statement.
local NONE = -1
local PREPARED = "<prepared statement>"
-- The text of a multi-row INSERT is sent before it becomes longer than this, as in sysbench.
local BULK_BYTES = 512 * 1024
local UINT32 = 4294967296

-- Requests of the script's own coroutines go to dynoload by way of who resumed them: such a one yields this first.
local REQUEST = {}
local give_up = coroutine.yield

local function yield_inside(...)
   return give_up(REQUEST, ...)
end

local script_resume

local function resumed(outer, thread, success, first, ...)
   yield = outer
   if success and first == REQUEST then
      return script_resume(thread, outer(...))
   end
   return success, first, ...
end

-- Instead of coroutine.yield() while the lines outside of functions run.
local function refuse_while_loading()
   error("statements outside of functions are not supported; a connection may be made there", 0)
end

-- The script's coroutine.resume(). While it runs, requests are those of a coroutine; connections take turns outside only.
function script_resume(thread, ...)
   local outer = yield
   yield = yield_inside
   return resumed(outer, thread, resume(thread, ...))
end

-- The script's coroutine.yield(): outside of a coroutine of its own there is nobody to take the values.
local function script_yield(...)
   if yield == give_up then
      error("coroutine.yield() is called outside of a coroutine that the script has made", 2)
   end
   return give_up(...)
end

local function unwrapped(success, problem, ...)
   if not success then
      error(problem, 0)
   end
   return problem, ...
end

local function script_wrap(call)
   local thread = coroutine.create(call)
   return function(...)
      return unwrapped(script_resume(thread, ...))
   end
end

-- Where a script prints to: standard output has the result of a load, so that a load's script prints to standard error.
local output = base.io.stdout

local function print(...)
   local words = { ... }
   for index = 1, select("#", ...) do
      words[index] = tostring(words[index])
   end
   output:write(table.concat(words, "\t"), "\n")
end

-- Errors

-- FILE:LINE of the innermost function that is the script's; nil where there is none.
local function place()
   local level = 3
   while true do
      local info = getinfo(level, "Sl")
      if not info then
         return nil
      elseif info.source ~= "=sysbench" and info.currentline > 0 then
         return info.short_src .. ":" .. info.currentline
      end
      level = level + 1
   end
end

-- What xpcall() calls where an error is raised: an error that has no file and line gets them. The errors of statements
-- are tables, which hooks read, and stay as they are.
local function located(problem)
   local text = problem
   if type(problem) == "table" and (problem.errcode or problem.sql_errno) then
      return problem
   elseif type(problem) == "table" and not (getmetatable(problem) or {}).__tostring then
      text = "the error is a table; error() expects text"
   elseif type(problem) ~= "string" then
      text = tostring(problem):gsub("^runtime error: ", ""):gsub("\nstack traceback:.*", "")
   end
   if text:find("^[^\n:]+:%d+: ") then
      return text
   end
   local where = place()
   return where and where .. ": " .. text or text
end

-- The script's pcall() and xpcall() do not catch the end of its time: it would go on for ever.
local function unless_overdue(success, problem, ...)
   if not success and native.is_overdue() then
      error(problem, 0)
   end
   return success, problem, ...
end

local function script_pcall(...)
   return unless_overdue(pcall(...))
end

local function script_xpcall(...)
   return unless_overdue(xpcall(...))
end

-- Results

local result_methods = {}
local result_mt = { __index = result_methods, __tostring = function() return "<sql_result>" end }

function result_methods:fetch_row()
   return yield(FETCH, self.connection.id)
end

function result_methods:free()
   return true
end

-- Raises the last error of a connection; one that is ignored restarts the event. `level` is where the script is.
local function raise(con, query, level)
   local number, state, message = con.sql_errno, con.sql_state, con.sql_errmsg
   if number == 0 then
      -- Not of the server.
      error(message, level)
   end
   local description = {
      connection = con, query = query, sql_errno = number, sql_state = state, sql_errmsg = message
   }
   local hook = con.sysbench.hooks.sql_error_ignorable
   if con.error == sql_errors.IGNORABLE or (type(hook) == "function" and hook(description)) then
      description.errcode = RESTART_EVENT
      error(description, level)
   end
   error(string.format("SQL error, errno = %d, state = '%s': %s", number, state, message), level)
end

-- Takes the answer to a statement. `level` is where the script is, seen from here.
local function finish(con, query, level, nrows, nfields, state, message, ignorable)
   if nrows then
      con.error = sql_errors.NONE
      if nfields == 0 then
         return nil
      end
      local result = con.result
      result.nrows, result.nfields = nrows, nfields
      return result
   end
   -- The answer is an error, and its second value the error's number.
   con.sql_errno, con.sql_state, con.sql_errmsg = nfields, state, message
   con.error = ignorable and sql_errors.IGNORABLE or sql_errors.FATAL
   return raise(con, query, level)
end

-- Parameters

local param_methods = {}
local param_mt = { __index = param_methods, __tostring = function() return "<sql_param>" end }

function param_methods:set(value)
   local kind = type(value)
   if value == nil then
      self.value = nil
   elseif self.kind == "s" then
      if kind ~= "string" then
         value = tostring(value)
      end
      self.value = #value > self.max_len and value:sub(1, self.max_len) or value
   else
      if kind ~= "number" then
         value = tonumber(value) or error("bad argument: a number is expected, this is a " .. kind, 2)
      end
      self.value = value
   end
end

function param_methods:set_rand_str(format)
   if self.kind ~= "s" then
      error("set_rand_str is for parameters of the types CHAR and VARCHAR", 2)
   end
   self:set(native.rand_string(format))
end

-- Prepared statements

local statement_methods = {}
local statement_mt = { __index = statement_methods, __tostring = function() return "<sql_statement>" end }

function statement_methods:bind_create(kind, max_len)
   local t = sql_types
   if kind == t.TINYINT or kind == t.SMALLINT or kind == t.INT or kind == t.BIGINT then
      return setmetatable({ kind = "i", type = t.BIGINT, max_len = 8 }, param_mt)
   elseif kind == t.FLOAT or kind == t.DOUBLE then
      return setmetatable({ kind = "d", type = t.DOUBLE, max_len = 8 }, param_mt)
   elseif kind == t.CHAR or kind == t.VARCHAR then
      if type(max_len) ~= "number" then
         error("bind_create: CHAR and VARCHAR need a length", 2)
      end
      return setmetatable({ kind = "s", type = t.VARCHAR, max_len = max_len }, param_mt)
   end
   error("bind_create: unsupported type " .. tostring(kind), 2)
end

function statement_methods:bind_param(...)
   local count = select("#", ...)
   if count < 1 then
      return nil
   end
   self.params, self.count, self.kinds = { ... }, count, nil
   local kinds = {}
   for index = 1, count do
      kinds[index] = self.params[index].kind
   end
   kinds = table.concat(kinds)
   -- Numbers go as integers unless a parameter is a DOUBLE.
   self.kinds = kinds:find("d", 1, true) and kinds or nil
   return 0
end

function statement_methods:execute()
   local con, params, count = self.connection, self.params, self.count
   if self.kinds then
      local values = {}
      for index = 1, count do
         values[index] = params[index].value
      end
      return finish(con, PREPARED, 2, yield(EXECUTE_TYPED, con.id, self.id, self.kinds, unpack(values, 1, count)))
   elseif count == 0 then
      return finish(con, PREPARED, 2, yield(EXECUTE, con.id, self.id))
   elseif count == 1 then
      return finish(con, PREPARED, 2, yield(EXECUTE, con.id, self.id, params[1].value))
   elseif count == 2 then
      return finish(con, PREPARED, 2, yield(EXECUTE, con.id, self.id, params[1].value, params[2].value))
   end
   local values = {}
   for index = 1, count do
      values[index] = params[index].value
   end
   return finish(con, PREPARED, 2, yield(EXECUTE, con.id, self.id, unpack(values, 1, count)))
end

function statement_methods:close()
   yield(CLOSE, self.connection.id, self.id)
   -- dynoload uses the number again.
   self.id = NONE
   return 0
end

-- Connections

local connection_methods = {}
local connection_mt = { __index = connection_methods, __tostring = function() return "<sql_connection>" end }

-- Connections that a thread may have before the garbage is collected for some that it does not use any more.
local OPEN_BEFORE_COLLECTION = 8

-- Marks the connection's number as one to be closed when the script has no more use for the object.
local function guard(con)
   local driver, id = con.driver, con.id
   con.guard = newproxy(true)
   getmetatable(con.guard).__gc = function()
      driver.unused[#driver.unused + 1] = id
   end
end

local function forget(con)
   if con.guard then
      getmetatable(con.guard).__gc = nil
      con.guard, con.driver.open = nil, con.driver.open - 1
   end
   con.id = NONE
end

local function connect(con, level)
   local driver = con.driver
   if driver.open >= OPEN_BEFORE_COLLECTION then
      collectgarbage()
   end
   while #driver.unused > 0 do
      driver.open = driver.open - 1
      yield(DISCONNECT, table.remove(driver.unused))
   end
   local id, number, state, message = yield(CONNECT)
   if not id then
      error("connection creation failed: " .. tostring(message), level)
   end
   con.id, driver.open = id, driver.open + 1
   guard(con)
   return con
end

-- The connection's number. One that was made outside of functions gets it when it is first used.
local function number_of(con)
   return con.id or connect(con, 4).id
end

function connection_methods:disconnect()
   if self.id then
      yield(DISCONNECT, self.id)
   end
   forget(self)
   return true
end

function connection_methods:reconnect()
   self:disconnect()
   connect(self, 3)
   return true
end

function connection_methods:check_error(result, query)
   if result ~= nil or self.error == sql_errors.NONE then
      return result
   end
   return raise(self, query, 2)
end

function connection_methods:query(query)
   if type(query) ~= "string" then
      error("bad argument #1 to 'query' (a string is expected, this is a " .. type(query) .. ")", 2)
   end
   return finish(self, query, 2, yield(QUERY, self.id or number_of(self), query))
end

-- Further results of a CALL, or of several statements, as in sysbench's development branch.
function connection_methods:more_results()
   return self.id ~= nil and yield(MORE_RESULTS, self.id)
end

function connection_methods:next_result()
   return finish(self, nil, 2, yield(NEXT_RESULT, self.id or number_of(self)))
end

function connection_methods:query_row(query)
   local result = finish(self, query, 3, yield(QUERY, self.id or number_of(self), query))
   if result == nil or result.nrows == 0 then
      return nil
   end
   return unpack(result:fetch_row(), 1, result.nfields)
end

function connection_methods:prepare(query)
   local id, number, state, message, ignorable = yield(PREPARE, self.id or number_of(self), query)
   if not id then
      return finish(self, query, 2, nil, number, state, message, ignorable)
   end
   return setmetatable({ connection = self, id = id, query = query, params = {}, count = 0 }, statement_mt)
end

function connection_methods:bulk_insert_init(query)
   self.bulk = { head = query, size = #query, count = 0, values = {} }
   return true
end

local function send_bulk(con, level)
   local bulk = con.bulk
   if bulk.count == 0 then
      return
   end
   local text = bulk.head .. table.concat(bulk.values, ",", 1, bulk.count)
   bulk.size, bulk.count = #bulk.head, 0
   finish(con, text, level, yield(QUERY, con.id or number_of(con), text))
end

function connection_methods:bulk_insert_next(value)
   local bulk = self.bulk or error("bulk_insert_next() without bulk_insert_init()", 2)
   if bulk.size + #value + 1 >= BULK_BYTES then
      send_bulk(self, 4)
   end
   bulk.count = bulk.count + 1
   bulk.values[bulk.count] = value
   bulk.size = bulk.size + #value + 1
   return true
end

function connection_methods:bulk_insert_done()
   if self.bulk then
      send_bulk(self, 4)
      self.bulk = nil
   end
   return true
end

-- Options

local ARG = { NULL = 0, BOOL = 1, INT = 2, SIZE = 3, DOUBLE = 4, STRING = 5, LIST = 6, FILE = 7, MAX = 8 }
local arg_of_type = { boolean = ARG.BOOL, string = ARG.STRING, number = ARG.DOUBLE, table = ARG.LIST }
local arg_words = {
   [ARG.BOOL] = "on or off", [ARG.INT] = "a whole number", [ARG.SIZE] = "a number, with K, M, G or T if wanted",
   [ARG.DOUBLE] = "a number", [ARG.STRING] = "text", [ARG.LIST] = "words with commas between", [ARG.FILE] = "a file"
}
local switches = {
   [""] = true, on = true, ["true"] = true, yes = true, ["1"] = true,
   off = false, ["false"] = false, no = false, ["0"] = false
}
local factors = { [""] = 1, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30, T = 2 ^ 40 }

-- The value of an option, or nil where the text is not one.
local function option_value(kind, text)
   if kind == ARG.BOOL then
      return switches[text:lower()]
   elseif kind == ARG.INT or kind == ARG.SIZE or kind == ARG.DOUBLE then
      local number, suffix = text:match("^([-+%.%deExX]-)([KMGTkmgt]?)$")
      number = tonumber(number)
      local value = number and number * factors[suffix:upper()]
      if value and kind ~= ARG.DOUBLE and value % 1 ~= 0 then
         return nil
      end
      return value
   elseif kind == ARG.LIST then
      local words = {}
      for word in text:gmatch("[^,]+") do
         words[#words + 1] = word
      end
      return words
   end
   return text
end

-- Reads the options that the script declares into sysbench.opt. Returns what it declares: { name, summary, default,
-- kind }. Raises an error for a declaration that is none; `problem` is called for each value that is wrong.
local function read_options(sysbench, given, problem)
   local declared = {}
   if sysbench.cmdline.options == nil then
      return declared
   end
   if type(sysbench.cmdline.options) ~= "table" then
      error("sysbench.cmdline.options is a " .. type(sysbench.cmdline.options) .. "; it must be a table", 0)
   end
   for name, definition in pairs(sysbench.cmdline.options) do
      if type(name) ~= "string" or type(definition) ~= "table" or definition[1] == nil then
         error("sysbench.cmdline.options: '" .. tostring(name) .. "' must be { \"description\", default, type }", 0)
      end
      name = name:gsub("-", "_")
      local default = definition[2]
      local kind = definition[3] or arg_of_type[type(default)] or ARG.STRING
      local value = default
      local text = given[name]
      if text ~= nil then
         value = option_value(kind, text)
         if value == nil or (type(definition[4]) == "function" and not definition[4](name, text)) then
            problem(name, text, value == nil and arg_words[kind] or "no such value")
         end
      elseif sysbench.opt[name] ~= nil then
         -- One of sysbench's own: a script cannot change its default.
         value = sysbench.opt[name]
      elseif type(default) == "string" and kind ~= ARG.STRING then
         value = option_value(kind, default)
      end
      sysbench.opt[name] = value
      if type(default) == "table" then
         default = table.concat(default, ",")
      elseif type(default) == "boolean" then
         default = default and "on" or "off"
      end
      declared[#declared + 1] = { name, tostring(definition[1]), default ~= nil and tostring(default) or "", kind }
   end
   table.sort(declared, function(a, b) return a[1] < b[1] end)
   return declared
end

-- Reports

local function report_csv(stat)
   local s = stat.time_interval
   print(string.format("%.0f,%u,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f", stat.time_total, stat.threads_running,
      stat.events / s, (stat.reads + stat.writes + stat.other) / s, stat.reads / s, stat.writes / s, stat.other / s,
      stat.latency_pct * 1000, stat.errors / s, stat.reconnects / s))
end

-- An array with one object for each call; `count` is of the calls before.
local function report_json(stat, count)
   local s = stat.time_interval
   output:write(count == 0 and "[\n" or ",\n", string.format('{"time": %.0f, "threads": %u, "tps": %.2f, ' ..
      '"qps": {"total": %.2f, "reads": %.2f, "writes": %.2f, "other": %.2f}, "latency": %.2f, "errors": %.2f, ' ..
      '"reconnects": %.2f}', stat.time_total, stat.threads_running, stat.events / s,
      (stat.reads + stat.writes + stat.other) / s, stat.reads / s, stat.writes / s, stat.other / s,
      stat.latency_pct * 1000, stat.errors / s, stat.reconnects / s))
end

local function report_default(stat, percentile)
   local s = stat.time_interval
   print(string.format("[ %.0fs ] thds: %u tps: %.2f qps: %.2f (r/w/o: %.2f/%.2f/%.2f) lat (ms,%u%%): %.2f err/s %.2f " ..
      "reconn/s: %.2f", stat.time_total, stat.threads_running, stat.events / s,
      (stat.reads + stat.writes + stat.other) / s, stat.reads / s, stat.writes / s, stat.other / s, percentile,
      stat.latency_pct * 1000, stat.errors / s, stat.reconnects / s))
end

-- Histograms

local histogram_methods = {}
local histogram_mt = { __index = histogram_methods, __tostring = function() return "<sb_histogram>" end }

function histogram_methods:update(value)
   local place = math.floor((math.log(math.max(value, self.low)) - self.offset) * self.scale + 0.5)
   place = math.max(0, math.min(self.size - 1, place))
   self.counts[place] = (self.counts[place] or 0) + 1
end

function histogram_methods:print()
   local most = 0
   for _, count in pairs(self.counts) do
      most = math.max(most, count)
   end
   print("       value  ------------- distribution ------------- count")
   for place = 0, self.size - 1 do
      local count = self.counts[place]
      if count then
         local bar = string.rep("*", math.floor(count / most * 40 + 0.5))
         print(string.format("%12.3f |%-40s %u", math.exp(place / self.scale + self.offset), bar, count))
      end
   end
end

local function new_histogram(size, low, high)
   if not (size >= 2 and low > 0 and high > low) then
      error("sysbench.histogram.new(size, low, high): size is at least 2, and 0 < low < high", 2)
   end
   local offset = math.log(low)
   local histogram = { size = size, low = low, offset = offset, counts = {} }
   histogram.scale = (size - 1) / (math.log(high) - offset)
   return setmetatable(histogram, histogram_mt)
end

-- Random numbers

local function uniform_uint64()
   return ffi.new("uint64_t", native.rand_bits32()) * UINT32 + native.rand_bits32()
end

local function new_rand()
   return {
      default = native.rand_default, uniform = native.rand_uniform, gaussian = native.rand_gaussian,
      special = native.rand_special, pareto = native.rand_pareto, zipfian = native.rand_zipfian,
      unique = native.rand_unique, string = native.rand_string, varstring = native.rand_varstring,
      uniform_double = native.rand_double, uniform_uint64 = uniform_uint64
   }
end

local function random(low, high)
   if low == nil then
      return native.rand_double()
   elseif high == nil then
      low, high = 1, low
   end
   return math.floor(low + native.rand_double() * (high - low + 1))
end

-- The declarations of scripts. Connections share a state, in which each may be made once.
local declared = {}

local function declare(text, ...)
   if select("#", ...) > 0 or type(text) ~= "string" then
      return ffi.cdef(text, ...)
   elseif not declared[text] then
      ffi.cdef(text)
      declared[text] = true
   end
end

-- The functions of sysbench's C code that scripts of others call. Everything else is looked up in the C library.
local function c_library(sysbench)
   local own = {
      sb_rand_default = native.rand_default, sb_rand_uniform = native.rand_uniform,
      sb_rand_gaussian = native.rand_gaussian, sb_rand_special = native.rand_special,
      sb_rand_pareto = native.rand_pareto, sb_rand_zipfian = native.rand_zipfian, sb_rand_unique = native.rand_unique,
      sb_rand_uniform_double = native.rand_double, sb_rand_uniform_uint64 = uniform_uint64,
      sb_rand_str = function(format, buffer)
         local text = native.rand_string(type(format) == "string" and format or ffi.string(format))
         ffi.copy(buffer, text, #text)
      end,
      sb_rand_varstr = function(buffer, shortest, longest)
         local text = native.rand_varstring(shortest, longest)
         ffi.copy(buffer, text, #text)
         return #text
      end,
      -- Of a script's own counts only that of errors is taken: statements are counted as they are sent.
      sb_counter_inc = function(_, counter)
         if tonumber(ffi.cast("int", counter)) == tonumber(ffi.C.SB_CNT_ERROR) then
            yield(COUNT_ERROR)
         end
      end,
      sb_more_events = function() return sysbench.more_events() end,
      sb_event_start = function() end, sb_event_stop = function() end
   }
   return setmetatable({}, { __index = function(_, name) return own[name] or ffi.C[name] end })
end

local function copy(source)
   local target = {}
   for key, value in pairs(source) do
      target[key] = value
   end
   return target
end

-- The interface of sysbench 0.5, which 1.0.20 still has: one connection for each thread, made when it is first used, and
-- options as global variables: those of sysbench, and texts of those in `given`.
local function add_old_names(env, sysbench, driver, given)
   local con
   local function own()
      con = con or driver:connect()
      return con
   end
   local db = { DB_ERROR_NONE = 0, DB_ERROR_RESTART_TRANSACTION = 1, DB_ERROR_FAILED = 2 }
   function db.connect()
      own()
   end
   function db.disconnect()
      if con then
         con:disconnect()
         con = nil
      end
   end
   function db.query(query)
      local con = own()
      return finish(con, query, 2, yield(QUERY, con.id, query))
   end
   function db.bulk_insert_init(query)
      own():bulk_insert_init(query)
   end
   function db.bulk_insert_next(value)
      own():bulk_insert_next(value)
   end
   function db.bulk_insert_done()
      own():bulk_insert_done()
   end
   function db.prepare(query)
      return own():prepare(query)
   end
   -- The values are those that the table has when the statement is executed.
   function db.bind_param(statement, values)
      statement.values = values
   end
   function db.execute(statement)
      local con, values = statement.connection, statement.values or {}
      return finish(con, PREPARED, 2, yield(EXECUTE, con.id, statement.id, unpack(values, 1, #values)))
   end
   function db.close(statement)
      statement:close()
   end
   db.bind_result, db.store_results, db.free_results = function() end, function() end, function() end
   sysbench.db = db
   for name, value in pairs(db) do
      env[name:find("^DB_") and name or "db_" .. name] = value
   end
   local options = copy(sysbench.opt)
   options.num_threads, options.max_time, options.max_requests = options.threads, options.time, options.events
   for name, value in pairs(given) do
      options[name] = value
   end
   for name, value in pairs(options) do
      if env[name] == nil then
         env[name] = value
      end
   end
end

-- Makes the environment of connection `tid` for `command`. `general` are dynoload's options under sysbench's names, `given`
-- the texts of the options that were set.
local function new_environment(tid, command, path, general, given)
   local env = copy(base)
   env._G = env
   for _, name in ipairs({ "string", "table", "math", "os", "io", "coroutine", "debug" }) do
      env[name] = copy(base[name])
   end
   env.math.random, env.math.randomseed = random, function() end
   env.pcall, env.xpcall = script_pcall, script_xpcall
   env.coroutine.resume, env.coroutine.wrap, env.coroutine.yield = script_resume, script_wrap, script_yield
   output = command == "run" and base.io.stderr or base.io.stdout
   env.print = print
   env.io.write = function(...)
      return output:write(...)
   end

   local sysbench = {
      tid = tid, version = "1.0.20", version_string = "sysbench 1.0.20", opt = copy(general), hooks = {},
      error = { NONE = 0, RESTART_EVENT = RESTART_EVENT }, rand = new_rand(),
      sql = { type = sql_types, error = sql_errors },
      histogram = { new = new_histogram },
      cmdline = { command = command, script_path = path, PARALLEL_COMMAND = true },
      report_csv = report_csv
   }
   local reported = 0
   function sysbench.report_json(stat)
      report_json(stat, reported)
      reported = reported + 1
   end
   function sysbench.report_default(stat)
      report_default(stat, sysbench.opt.percentile)
   end
   for name, number in pairs(ARG) do
      sysbench.cmdline["ARG_" .. name] = number
   end
   env.sysbench = sysbench

   local cmdline = sysbench.cmdline
   function cmdline.command_defined(name)
      return type(cmdline.commands) == "table" and cmdline.commands[name] ~= nil and cmdline.commands[name][1] ~= nil
   end
   function cmdline.command_parallel(name)
      return cmdline.command_defined(name) and cmdline.commands[name][2] == cmdline.PARALLEL_COMMAND
   end
   function cmdline.call_command(name)
      return cmdline.command_defined(name) and cmdline.commands[name][1]() ~= false
   end
   function cmdline.print_test_options()
      for _, option in ipairs(read_options(sysbench, {}, function() end)) do
         print(string.format("  --%-24s %s [%s]", option[1]:gsub("_", "-"), option[2], option[3]))
      end
   end

   local driver_methods = {}
   local driver_mt = { __index = driver_methods, __tostring = function() return "<sql_driver>" end }
   function driver_methods:name()
      return "mysql"
   end
   function driver_methods:connect()
      local con = setmetatable({ sysbench = sysbench, driver = self, error = 0 }, connection_mt)
      con.result = setmetatable({ connection = con, counter = 1 }, result_mt)
      return yield == refuse_while_loading and con or connect(con, 3)
   end
   local driver = setmetatable({ sname = "mysql", lname = "MySQL driver", unused = {}, open = 0 }, driver_mt)
   function sysbench.sql.driver(name)
      if name ~= nil and name ~= "mysql" then
         error("there is no driver '" .. tostring(name) .. "'; dynoload has mysql, which also serves MariaDB", 2)
      end
      return driver
   end

   local loaded = { ffi = setmetatable({ C = c_library(sysbench), cdef = declare }, { __index = ffi }) }
   env.package = setmetatable({ loaded = loaded, preload = {}, path = native.package_path() }, { __index = base.package })
   env.ffi = loaded.ffi
   function env.require(name)
      if loaded[name] ~= nil then
         return loaded[name]
      end
      local own = env.package.preload[name]
      local value
      if own then
         value = own(name)
      else
         local file, source, tried = native.find_module(name, path, env.package.path)
         if file then
            local chunk, problem = loadstring(source, "@" .. file)
            if not chunk then
               error(problem, 0)
            end
            value = setfenv(chunk, env)(name)
         elseif base.package.loaded[name] ~= nil then
            value = base.package.loaded[name]
         elseif pcall(base.require, name) then
            value = base.require(name)
         else
            error("module '" .. tostring(name) .. "' was not found:" .. tried, 2)
         end
      end
      if value ~= nil then
         loaded[name] = value
      elseif loaded[name] == nil then
         loaded[name] = true
      end
      return loaded[name]
   end
   local function load_in_env(text, name)
      local chunk, problem = loadstring(text, name)
      return chunk and setfenv(chunk, env), problem
   end
   env.loadstring = load_in_env
   function env.dofile(file)
      local source = native.read_file(file)
      local chunk, problem = load_in_env(source, "@" .. file)
      return (chunk or error(problem, 0))()
   end

   -- Names of earlier versions that 1.0.20 still has.
   env.thread_id, env.test = tid, path
   env.sb_rand, env.sb_rand_str = sysbench.rand.default, sysbench.rand.string
   env.sb_rand_uniform, env.sb_rand_gaussian = sysbench.rand.uniform, sysbench.rand.gaussian
   env.sb_rand_special, env.sb_rnd = sysbench.rand.special, native.rand_bits32
   env.mysql_table_engine, env.myisam_max_rows = "innodb", 1000000
   add_old_names(env, sysbench, driver, given)
   function env.sb_rand_uniq(low, high)
      local value
      repeat
         value = native.rand_unique()
      until value >= (low or 0) and value <= (high or UINT32 - 1)
      return value
   end

   function sysbench.more_events()
      return yield(NEXT)
   end

   local thread = { env = env }
   local outside = yield
   yield = refuse_while_loading

   -- The lines outside of functions have run.
   function thread.loaded()
      yield = outside
   end

   function thread.read_options(given, problem)
      if sysbench.cmdline.options ~= nil then
         -- Options that are declared are in sysbench.opt alone.
         for name, text in pairs(given) do
            if env[name] == text then
               env[name] = nil
            end
         end
      end
      return read_options(sysbench, given, problem)
   end

   -- What a script may do in an event it may also do elsewhere, where there is no event to restart.
   local function describe(problem)
      if type(problem) == "table" and problem.sql_errno then
         return string.format("SQL error, errno = %d, state = '%s': %s", problem.sql_errno, problem.sql_state,
            problem.sql_errmsg)
      end
      return type(problem) == "string" and problem or tostring(problem)
   end

   local function run_events()
      while yield(NEXT) do
         local success, value
         repeat
            success, value = xpcall(env.event, located, tid)
            if not success then
               if type(value) ~= "table" or value.errcode ~= RESTART_EVENT then
                  error(value, 0)
               end
               local hook = sysbench.hooks.before_restart_event
               if hook then
                  hook(value)
               end
            end
         until success
         if value then
            yield(STOP)
         end
      end
   end

   -- The life of a connection: yields READY once, then NEXT before each event.
   function thread.main()
      setfenv(0, env)
      local success, problem = xpcall(function()
         if env.thread_init then
            env.thread_init(tid)
         end
         yield(READY)
         if env.thread_run then
            env.thread_run(tid)
         else
            run_events()
         end
         yield(STOP)
      end, located)
      if not success then
         error(describe(problem), 0)
      end
   end

   local function call_from_outside(call, argument)
      setfenv(0, env)
      local success, value = xpcall(call, located, argument)
      if not success then
         error(describe(value), 0)
      end
      return value
   end

   -- What calls a function of the script by name, or of sysbench.cmdline.commands.
   function thread.caller(name)
      local commands = sysbench.cmdline.commands
      local command_of = type(commands) == "table" and type(commands[name]) == "table" and commands[name][1]
      local call = command_of or env[name]
      return function()
         if type(call) ~= "function" then
            return
         end
         local value = call_from_outside(call, tid)
         -- A command that returns false has failed; one that returns nothing has not.
         if command_of and value == false then
            error("the command " .. name .. " returned false", 0)
         end
      end
   end

   -- The commands of the script, with whether each may run in several threads.
   function thread.commands()
      local names = {}
      for _, name in ipairs({ "prepare", "run", "cleanup", "help" }) do
         if type(env[name]) == "function" then
            names[name] = false
         end
      end
      for name, command_of in pairs(type(sysbench.cmdline.commands) == "table" and sysbench.cmdline.commands or {}) do
         names[name] = command_of[2] == true
      end
      return names
   end

   function thread.has_hook(name)
      return type(sysbench.hooks[name]) == "function"
   end

   -- What calls a report hook.
   function thread.reporter(name, stat)
      return function()
         call_from_outside(sysbench.hooks[name], stat)
      end
   end

   -- After the last report.
   function thread.reported()
      if reported > 0 then
         output:write("\n]\n")
      end
   end

   function thread.has(name)
      return type(env[name]) == "function"
   end

   return thread
end

return new_environment
