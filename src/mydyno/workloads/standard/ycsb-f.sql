-- As YCSB's workload F, read-modify-write: half reads, half a read and an update of the same record. Zipfian.
-- Popular records are spread over the table: 48271 has no divisor in common with 50,000, so that each key is met once.

-- transaction: read weight=50
-- name: read
SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 FROM usertable
WHERE id = ({key: zipfian(0, 49999, 0.99)} * 48271) % 50000 + 1;

-- transaction: change weight=50
-- name: read
SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 FROM usertable
WHERE id = ({key: zipfian(0, 49999, 0.99)} * 48271) % 50000 + 1;
-- name: update
UPDATE usertable SET field0 = {string(100)} WHERE id = ({key} * 48271) % 50000 + 1;
