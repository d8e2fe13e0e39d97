-- What scripts may expect of sysbench's interface; every event checks all of it.
sysbench.cmdline.options = {
   limit = {"rows", 3}, flag = {"a switch", false}, words = {"a list", {"a", "b"}}, name = {"a text", "x"}
}
local ffi = require("ffi")
ffi.cdef[[ int getpid(void); ]]

function thread_init()
   drv = sysbench.sql.driver()
   con, other = drv:connect(), drv:connect()
   assert(ffi.C.getpid() > 0 and drv:name() == "mysql" and sysbench.tid == thread_id)
   assert(sysbench.opt.limit == 7 and sysbench.opt.flag == true and #sysbench.opt.words == 2)
   assert(sysbench.opt.name == "x" and sysbench.opt.threads == 3)
   local t = sysbench.sql.type
   stmt = con:prepare("SELECT ? + 1, ?, NULL, ?")
   number, text, real = stmt:bind_create(t.INT), stmt:bind_create(t.VARCHAR, 4), stmt:bind_create(t.DOUBLE)
   stmt:bind_param(number, text, real)
   quoted = other:prepare("SELECT '{?}', HEX(?), ? /* ? */")
   bytes, half = quoted:bind_create(t.VARCHAR, 9), quoted:bind_create(t.DOUBLE)
   quoted:bind_param(bytes, half)
end

function event()
   local rs = con:query("SELECT 1, 'two', NULL UNION SELECT 3, 'four', 5")
   assert(rs.nrows == 2 and rs.nfields == 3)
   local row = rs:fetch_row()
   assert(row[1] == "1" and row[2] == "two" and row[3] == nil)
   assert(rs:fetch_row()[3] == "5" and rs:fetch_row() == nil)
   local x, y = con:query_row("SELECT 7, 8")
   assert(x == "7" and y == "8")
   assert(con:query("DO 1") == nil)
   -- A procedure with two results, as text and prepared.
   for _, any in ipairs({con, other}) do
      local call = any:prepare("CALL dyno_two()")
      for _, result in ipairs({any:query("CALL dyno_two()"), call}) do
         rs = result == call and call:execute() or result
         assert(rs.nrows == 2 and rs.nfields == 2 and any:more_results() and rs:fetch_row()[2] == "2")
         rs = any:next_result()
         assert(rs.nrows == 1 and not any:more_results() and rs:fetch_row()[1] == "5" and rs:fetch_row() == nil)
         assert(any:next_result() == nil)
      end
      call:close()
   end
   number:set(41); text:set("longtext"); real:set(2)
   row = stmt:execute():fetch_row()
   assert(row[1] == "42" and row[2] == "long" and row[3] == nil and tonumber(row[4]) == 2)
   -- Bytes that are no UTF-8, quotes, and question marks that are no parameters.
   for _, any in ipairs({con, other}) do
      assert(any:query_row("SELECT HEX(_binary'\200\195')") == "C8C3")
   end
   bytes:set("it's \\ \200"); half:set(0.5)
   row = quoted:execute():fetch_row()
   assert(row[1] == "{?}" and row[2] == "6974277320" .. "5C20C8" and tonumber(row[3]) == 0.5, row[2])
   assert(other:query_row("SELECT CONNECTION_ID()") ~= con:query_row("SELECT CONNECTION_ID()"))
   local ok, problem = pcall(function() con:query("SELEC") end)
   assert(not ok and problem:find("errno = 1064", 1, true), problem)
   local inside = coroutine.wrap(function(a)
      local b = coroutine.yield(a + 1)
      return con:query_row("SELECT 41") + b
   end)
   assert(inside(1) == 2 and inside(8) == 49 and con:check_error(nil, "") == nil)
   local once = con:prepare("SELECT 6 * 7")
   assert(once:execute():fetch_row()[1] == "42")
   once:close()
   ok, problem = pcall(once.execute, once)
   assert(not ok and problem:find("is closed", 1, true), problem)
   local r = sysbench.rand
   for _, name in ipairs({"uniform", "gaussian", "special", "pareto", "zipfian", "default"}) do
      local value = r[name](5, 10)
      assert(value >= 5 and value <= 10)
   end
   assert(r.string("##-@@"):match("^%d%d%-%l%l$") and r.unique() ~= r.unique() and r.uniform_double() < 1)
   sysbench.histogram.new(100, 1, 1000):update(5)
end

function thread_done()
   assert(con:query_row("SELECT 1") == "1")
   stmt:close(); con:disconnect(); other:disconnect()
end
