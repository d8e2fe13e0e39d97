-- A social graph, in the mix of LinkBench: lists of links lead by far. Objects are chosen by popularity (Zipfian).
-- A link leads from an object to id1 + 20000 * n, n from 0 to 19, lower ones more often: of the links that an update or a
-- delete picks, some seven in ten exist at first, and three in four once adds (three to one delete) have met them.
-- link_change counts how many links each object has gained since the tables were made: their sum, and the growth of
-- link, are equal at any time, which a check can read.

-- transaction: list weight=5072
-- name: list
SELECT id1, id2, link_type, visibility, data, time, version FROM link
WHERE id1 = {zipfian(1, 20000)} AND link_type = 1 AND visibility = 1 ORDER BY time DESC LIMIT 1000;

-- transaction: object weight=1291
-- name: object
SELECT id, type, version, time, data FROM node WHERE id = {zipfian(1, 20000)};

-- transaction: add_link weight=899
BEGIN;
-- name: add_link
INSERT IGNORE INTO link (id1, id2, link_type, visibility, data, time, version)
VALUES ({from: zipfian(1, 20000)}, {from} + 20000 * {zipfian(0, 19, 1.2)}, 1, 1, {string(10, 100)}, UNIX_TIMESTAMP(), 0);
-- name: count_added
UPDATE link_change SET links = links + ROW_COUNT() WHERE id = {from};
COMMIT;

-- transaction: update_link weight=802
-- name: update_link
UPDATE link SET version = version + 1, data = {string(10, 100)}
WHERE id1 = {from: zipfian(1, 20000)} AND link_type = 1 AND id2 = {from} + 20000 * {zipfian(0, 19, 1.2)};

-- transaction: update_object weight=737
-- name: update_object
UPDATE node SET version = version + 1, data = {string(40, 200)} WHERE id = {zipfian(1, 20000)};

-- transaction: count weight=489
-- name: count
SELECT COUNT(*) FROM link WHERE id1 = {zipfian(1, 20000)} AND link_type = 1 AND visibility = 1;

-- transaction: delete_link weight=300
BEGIN;
-- name: delete_link
DELETE FROM link
WHERE id1 = {from: zipfian(1, 20000)} AND link_type = 1 AND id2 = {from} + 20000 * {zipfian(0, 19, 1.2)};
-- name: count_deleted
UPDATE link_change SET links = links - ROW_COUNT() WHERE id = {from};
COMMIT;

-- transaction: add_object weight=257
-- name: add_object
INSERT INTO node (type, version, time, data) VALUES (2048, 0, UNIX_TIMESTAMP(), {string(40, 200)});

-- transaction: delete_object weight=101
-- name: delete_object
DELETE FROM node WHERE id = {uniform(20001, 60000)};

-- transaction: link weight=52
-- name: link
SELECT id1, id2, link_type, visibility, data, time, version FROM link
WHERE id1 = {from: zipfian(1, 20000)} AND link_type = 1 AND id2 = {from} + 20000 * {zipfian(0, 19, 1.2)};
