-- Habits of scripts that were written for sysbench: each works there, and here.
local ffi = require("ffi")
-- Every thread declares the same again, and refers to types of sysbench's own.
ffi.cdef[[
   struct habit { int n; };
   void sb_counter_inc(int, sb_counter_type);
   void sb_rand_str(const char *, char *);
]]

-- Dashes in names of options, and an option that sysbench has itself.
sysbench.cmdline.options = { ["least-rows"] = {"rows", 3}, threads = {"threads", 64} }

-- A connection that is made outside of functions.
local con = sysbench.sql.driver():connect()

function prepare()
   con:query("CREATE TABLE habit (id INT PRIMARY KEY, n INT NOT NULL)")
   con:bulk_insert_init("INSERT INTO habit VALUES")
   for id = 1, 3 do
      con:bulk_insert_next("(" .. id .. ",0)")
   end
   con:bulk_insert_done()
end

function event()
   assert(sysbench.opt.least_rows == 3 and sysbench.opt.threads == 3)
   local one = ffi.new("struct habit", { 3 })
   local text = ffi.new("char[?]", 4)
   ffi.C.sb_rand_str("##-@", text)
   assert(ffi.string(text, 4):match("^%d%d%-%l$"))
   con:query("UPDATE habit SET n = n + 1 WHERE id = " .. one.n)
   -- Not closed: the garbage collector does that.
   local another = sysbench.sql.driver():connect()
   assert(another:query_row("SELECT COUNT(*) FROM habit") == "3")
   assert(tonumber((con:query_row("SELECT COUNT(*) FROM information_schema.processlist"))) < 60)
   ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
   ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_READ)
end

-- A report that asks the server.
function sysbench.hooks.report_cumulative(stat)
   local hook = sysbench.sql.driver():connect()
   print(string.format("habit: %d events, %d errors, sum %s", stat.events, stat.errors,
      hook:query_row("SELECT SUM(n) FROM habit")))
end

function sysbench.hooks.report_intermediate(stat)
   hook_con = sysbench.sql.driver():connect()
   hook_con:query("SELECT " .. stat.threads_running)
end
