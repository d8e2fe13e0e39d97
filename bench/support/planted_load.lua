-- A load of short transactions into which a server variable plants a cause, so that one arm has it and another not.
-- Where default_week_format is 1: plant=hot makes every transaction update the same row, first of all, and keep it locked
-- until its commit; plant=slow makes the client compute in every transaction.
-- With plant=hot transactions sleep before they commit, in both arms: a lock that is held for CPU time alone costs no
-- throughput where all CPUs are busy.
sysbench.cmdline.options = {
   plant = {"What is planted: hot or slow", "hot"},
   rows = {"Rows", 2000},
   sleep_ms = {"Sleep of a transaction with plant=hot, in ms", 3},
   turns = {"Turns of the client's loop", 100000},
}

local connection, planted

local function connect()
   return sysbench.sql.driver():connect()
end

function prepare()
   connection = connect()
   connection:query("CREATE TABLE planted (id INT PRIMARY KEY, v INT NOT NULL) ENGINE = InnoDB")
   connection:bulk_insert_init("INSERT INTO planted VALUES")
   for id = 1, sysbench.opt.rows do
      connection:bulk_insert_next("(" .. id .. ", 0)")
   end
   connection:bulk_insert_done()
end

function cleanup()
   connect():query("DROP TABLE IF EXISTS planted")
end

function thread_init()
   connection = connect()
   planted = tonumber(connection:query_row("SELECT @@default_week_format")) == 1
end

function event()
   local hot = planted and sysbench.opt.plant == "hot"
   connection:query("BEGIN")
   connection:query("UPDATE planted SET v = v + 1 WHERE id = " .. (hot and 1 or sysbench.rand.uniform(2, sysbench.opt.rows)))
   for _ = 1, 6 do
      connection:query("SELECT v FROM planted WHERE id = " .. sysbench.rand.uniform(2, sysbench.opt.rows))
   end
   if sysbench.opt.plant == "hot" then
      connection:query("DO SLEEP(" .. sysbench.opt.sleep_ms / 1000 .. ")")
   end
   connection:query("COMMIT")
   if planted and sysbench.opt.plant == "slow" then
      local sum = 0
      for turn = 1, sysbench.opt.turns do
         sum = sum + math.sin(turn)
      end
   end
end
