-- Twenty-two questions of a decision support benchmark, in the shape of TPC-H's queries, each as often as any other.

-- transaction: pricing
-- name: pricing
SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base,
SUM(l_extendedprice * (1 - l_discount)) AS sum_disc, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS n
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL {uniform(60, 120)} DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;

-- transaction: cheapest_supplier
-- name: cheapest_supplier
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size BETWEEN {size: uniform(1, 40)} AND {size} + 5
AND p_type LIKE {choice('%BRASS', '%TIN', '%STEEL')} AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
AND r_name = {region: choice('EUROPE', 'ASIA', 'AFRICA')}
AND ps_supplycost = (SELECT MIN(ps_supplycost) FROM partsupp, supplier, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
AND r_name = {region})
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100;

-- transaction: shipping_priority
-- name: shipping_priority
SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = {choice('BUILDING', 'AUTOMOBILE', 'MACHINERY')} AND c_custkey = o_custkey
AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-01' + INTERVAL {day: uniform(0, 30)} DAY
AND l_shipdate > DATE '1995-03-01' + INTERVAL {day} DAY
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10;

-- transaction: order_priority
-- name: order_priority
SELECT o_orderpriority, COUNT(*) AS order_count FROM orders
WHERE o_orderdate >= DATE '1993-01-01' + INTERVAL {month: uniform(0, 57)} MONTH
AND o_orderdate < DATE '1993-04-01' + INTERVAL {month} MONTH
AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority;

-- transaction: local_volume
-- name: local_volume
SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = {choice('ASIA', 'EUROPE', 'AMERICA')}
AND o_orderdate >= DATE '1993-01-01' + INTERVAL {year: uniform(0, 4)} YEAR
AND o_orderdate < DATE '1994-01-01' + INTERVAL {year} YEAR
GROUP BY n_name ORDER BY revenue DESC;

-- transaction: forecast
-- name: forecast
SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1993-01-01' + INTERVAL {year: uniform(0, 4)} YEAR
AND l_shipdate < DATE '1994-01-01' + INTERVAL {year} YEAR
AND l_discount BETWEEN {percent: uniform(2, 9)} / 100 - 0.01 AND {percent} / 100 + 0.01 AND l_quantity < {uniform(24, 25)};

-- transaction: shipped_volume
-- name: shipped_volume
SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue FROM (
SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, EXTRACT(YEAR FROM l_shipdate) AS l_year,
l_extendedprice * (1 - l_discount) AS volume
FROM supplier, lineitem, orders, customer, nation n1, nation n2
WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey
AND c_nationkey = n2.n_nationkey
AND ((n1.n_name = {one: choice('FRANCE', 'INDIA', 'KENYA')} AND n2.n_name = {two: choice('GERMANY', 'PERU', 'CHINA')})
OR (n1.n_name = {two} AND n2.n_name = {one}))
AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year;

-- transaction: market_share
-- name: market_share
SELECT o_year, SUM(CASE WHEN nation = {nation: choice('BRAZIL', 'CANADA', 'PERU')} THEN volume ELSE 0 END) / SUM(volume)
AS mkt_share FROM (
SELECT EXTRACT(YEAR FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
AND p_type LIKE {choice('ECONOMY%', 'PROMO%', 'LARGE%')}) AS all_nations
GROUP BY o_year ORDER BY o_year;

-- transaction: profit
-- name: profit
SELECT nation, o_year, SUM(amount) AS sum_profit FROM (
SELECT n_name AS nation, EXTRACT(YEAR FROM o_orderdate) AS o_year,
l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
FROM part, supplier, lineitem, partsupp, orders, nation
WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE {choice('%green%', '%navy%', '%blue%')}
) AS profit GROUP BY nation, o_year ORDER BY nation, o_year DESC;

-- transaction: returned_items
-- name: returned_items
SELECT c_custkey, c_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone,
c_comment FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
AND o_orderdate >= DATE '1993-02-01' + INTERVAL {month: uniform(0, 23)} MONTH
AND o_orderdate < DATE '1993-05-01' + INTERVAL {month} MONTH AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment ORDER BY revenue DESC, c_custkey LIMIT 20;

-- transaction: important_stock
-- name: important_stock
SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS worth FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = {nation: choice('GERMANY', 'JAPAN', 'IRAN')}
GROUP BY ps_partkey HAVING SUM(ps_supplycost * ps_availqty) > (
SELECT SUM(ps_supplycost * ps_availqty) * 0.5 / (SELECT COUNT(*) FROM supplier) FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = {nation})
ORDER BY worth DESC, ps_partkey;

-- transaction: ship_modes
-- name: ship_modes
SELECT l_shipmode,
SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ({choice('MAIL', 'AIR', 'RAIL')}, {choice('SHIP', 'TRUCK', 'FOB')})
AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
AND l_receiptdate >= DATE '1993-01-01' + INTERVAL {year: uniform(0, 4)} YEAR
AND l_receiptdate < DATE '1994-01-01' + INTERVAL {year} YEAR
GROUP BY l_shipmode ORDER BY l_shipmode;

-- transaction: order_counts
-- name: order_counts
SELECT c_count, COUNT(*) AS custdist FROM (
SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer
LEFT OUTER JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE {choice('%special%requests%', '%quick%deposits%')}
GROUP BY c_custkey) AS c_orders GROUP BY c_count ORDER BY custdist DESC, c_count DESC;

-- transaction: promotion
-- name: promotion
SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
/ SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1993-01-01' + INTERVAL {month: uniform(0, 59)} MONTH
AND l_shipdate < DATE '1993-02-01' + INTERVAL {month} MONTH;

-- transaction: top_supplier
-- name: top_supplier
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, (
SELECT l_suppkey AS supplier_no, SUM(l_extendedprice * (1 - l_discount)) AS total_revenue FROM lineitem
WHERE l_shipdate >= DATE '1993-01-01' + INTERVAL {month: uniform(0, 57)} MONTH
AND l_shipdate < DATE '1993-04-01' + INTERVAL {month} MONTH GROUP BY l_suppkey) AS revenue
WHERE s_suppkey = supplier_no AND total_revenue = (SELECT MAX(total) FROM (
SELECT SUM(l_extendedprice * (1 - l_discount)) AS total FROM lineitem
WHERE l_shipdate >= DATE '1993-01-01' + INTERVAL {month} MONTH
AND l_shipdate < DATE '1993-04-01' + INTERVAL {month} MONTH GROUP BY l_suppkey) AS totals) ORDER BY s_suppkey;

-- transaction: part_suppliers
-- name: part_suppliers
SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> {choice('Brand#45', 'Brand#11', 'Brand#23')}
AND p_type NOT LIKE {choice('MEDIUM POLISHED%', 'SMALL PLATED%')} AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size;

-- transaction: small_orders
-- name: small_orders
SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = {choice('Brand#23', 'Brand#34', 'Brand#12')}
AND p_container LIKE {choice('MED%', 'LG%', 'JUMBO%')}
AND l_quantity < (SELECT 0.5 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey);

-- transaction: large_orders
-- name: large_orders
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) AS quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > {uniform(250, 260)})
AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100;

-- transaction: discounted
-- name: discounted
SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
WHERE p_partkey = l_partkey AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
(p_brand LIKE 'Brand#1%' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
AND l_quantity BETWEEN {one: uniform(1, 10)} AND {one} + 10 AND p_size BETWEEN 1 AND 15)
OR (p_brand LIKE 'Brand#2%' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
AND l_quantity BETWEEN {two: uniform(10, 20)} AND {two} + 10 AND p_size BETWEEN 1 AND 25)
OR (p_brand LIKE 'Brand#3%' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
AND l_quantity BETWEEN {three: uniform(20, 30)} AND {three} + 10 AND p_size BETWEEN 1 AND 35));

-- transaction: surplus
-- name: surplus
SELECT s_name, s_address FROM supplier, nation
WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp
WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE {choice('forest%', 'azure%', 'coral%')})
AND ps_availqty > (SELECT 0.5 * SUM(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
AND l_shipdate >= DATE '1993-01-01' + INTERVAL {year: uniform(0, 4)} YEAR
AND l_shipdate < DATE '1994-01-01' + INTERVAL {year} YEAR))
AND s_nationkey = n_nationkey AND n_name IN ('CANADA', 'EGYPT', 'INDIA', 'PERU', 'RUSSIA') ORDER BY s_name;

-- transaction: late_suppliers
-- name: late_suppliers
SELECT s_name, COUNT(*) AS numwait FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
AND l1.l_receiptdate > l1.l_commitdate
AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
AND l3.l_receiptdate > l3.l_commitdate)
AND s_nationkey = n_nationkey AND n_regionkey = {uniform(0, 4)}
GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100;

-- transaction: opportunity
-- name: opportunity
SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM (
SELECT SUBSTRING(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
WHERE SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal > (
SELECT AVG(c_acctbal) FROM customer WHERE c_acctbal > 0.00
AND SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
GROUP BY cntrycode ORDER BY cntrycode;
