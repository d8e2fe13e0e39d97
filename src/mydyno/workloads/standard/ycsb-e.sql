-- As YCSB's workload E, short ranges: 95 % scans of up to 100 records, 5 % inserts.
-- Popular records are spread over the table: 48271 has no divisor in common with 50,000, so that each key is met once.

-- transaction: scan weight=95
-- name: scan
SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 FROM usertable
WHERE id >= ({key: zipfian(0, 49999, 0.99)} * 48271) % 50000 + 1
ORDER BY id LIMIT {uniform(1, 100)};

-- transaction: insert weight=5
-- name: insert
INSERT INTO usertable (field0, field1, field2, field3, field4, field5, field6, field7, field8, field9)
VALUES ({string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)});
