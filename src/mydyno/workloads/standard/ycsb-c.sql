-- As YCSB's workload C, read only: reads by key, Zipfian.
-- Popular records are spread over the table: 48271 has no divisor in common with 50,000, so that each key is met once.

-- transaction: read weight=1
-- name: read
SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 FROM usertable
WHERE id = ({key: zipfian(0, 49999, 0.99)} * 48271) % 50000 + 1;
