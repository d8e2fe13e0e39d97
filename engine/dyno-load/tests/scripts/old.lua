-- A script in the way of sysbench 0.5: global options, one connection for each thread, values bound by tables.

old_rows = tonumber(old_rows or 10)

function prepare()
   db_connect()
   db_query("CREATE TABLE old (id INT PRIMARY KEY, n INT NOT NULL, name VARCHAR(20) NOT NULL)")
   db_bulk_insert_init("INSERT INTO old VALUES")
   for id = 1, old_rows do
      db_bulk_insert_next(string.format("(%d, 0, 'x%d')", id, id % 10))
   end
   db_bulk_insert_done()
   db_disconnect()
end

function thread_init(thread_id)
   assert(num_threads == 3 and sysbench.opt.threads == 3, "num_threads is " .. tostring(num_threads))
   select_row = db_prepare("SELECT n FROM old WHERE id = ? AND name = ?")
   values = { 1, "x1" }
   db_bind_param(select_row, values)
end

function event(thread_id)
   local id = sb_rand_uniform(1, old_rows)
   values[1], values[2] = id, "x" .. id % 10
   local rows = db_execute(select_row)
   assert(rows.nrows == 1, "row " .. id)
   db_store_results(rows)
   db_free_results(rows)
   db_query("UPDATE old SET n = n + 1 WHERE id = " .. id)
end
