-- As YCSB's workload D, read latest: 95 % reads of the newest records, 5 % inserts.

-- transaction: read weight=95
-- name: read
SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 FROM usertable
WHERE id = (SELECT newest FROM (SELECT MAX(id) AS newest FROM usertable) AS last) - {zipfian(0, 49999, 0.99)};

-- transaction: insert weight=5
-- name: insert
INSERT INTO usertable (field0, field1, field2, field3, field4, field5, field6, field7, field8, field9)
VALUES ({string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)}, {string(100)});
