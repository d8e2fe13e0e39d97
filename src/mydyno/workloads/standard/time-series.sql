-- Samples arrive, are read, and are purged when they are old: ten rows an insert, and a purge of a hundred for every ten
-- inserts, so that the table keeps its size while it moves.

-- transaction: insert weight=60
-- name: insert
INSERT INTO sample (device, at, value, quality) VALUES
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0),
({uniform(1, 1000)}, UNIX_TIMESTAMP(NOW(3)) * 1000, {normal(20, 5)}, 0);

-- transaction: purge weight=6
-- name: purge
DELETE FROM sample ORDER BY id LIMIT 100;

-- transaction: last weight=24
-- name: last
SELECT at, value FROM sample WHERE device = {uniform(1, 1000)} ORDER BY at DESC LIMIT 50;

-- transaction: summary weight=10
-- name: summary
SELECT MIN(value), AVG(value), MAX(value), COUNT(*) FROM sample WHERE device = {uniform(1, 1000)} AND quality = 0;
