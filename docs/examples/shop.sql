-- A small shop: reads by popularity, a search, and a purchase. Its tables are in shop.toml.

-- transaction: view weight=70
-- name: item
SELECT title, price, stock FROM item WHERE id = {item: zipfian(1, 20000)};
-- name: reviews
SELECT stars, words FROM review WHERE item_id = {item} ORDER BY id DESC LIMIT 10;

-- transaction: search weight=20
SELECT id, title, price FROM item WHERE maker_id = {uniform(1, 200)} AND price < {normal(40, 10)} LIMIT 20;

-- transaction: buy weight=10
BEGIN;
-- name: take
UPDATE item SET stock = stock - 1 WHERE id = {item: zipfian(1, 20000)} AND stock > 0;
-- name: record
INSERT INTO sale (item_id, buyer_id, note) VALUES ({item}, {uniform(1, 5000)}, {string(0, 40)});
COMMIT;
