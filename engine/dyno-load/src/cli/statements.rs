//! `dynoload statements`.

pub const EXAMPLES: &str = "Examples:
  dynoload statements monday.capture --server \"old --socket=/run/old.sock\" --server \"new --socket=/run/new.sock\"
      Each statement once on both servers for result, counters and plan, then again and again for 60 s.
  dynoload statements monday.capture --read-only --duration 10m --json compared.jsonl \\
      --server \"old --host=db1 --database=shop\" --server \"new --host=db2 --database=shop\"
      Without statements that write.

Options of a server: those of the connection, and --pid, its process on this host: with it the CPU time of each
statement is known. What writes is executed in a transaction that is rolled back; use a copy of the data nevertheless.
The password comes from --password-file or DYNO_PASSWORD.
Exit codes: 0 done, 2 wrong input, 3 cannot be done here, 130 interrupted.";
