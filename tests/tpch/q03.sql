-- Shipping priority: the ten unshipped orders that are worth most.
--
-- As in the original. Each order is one customer's, so its number and its revenue are what privacy is about.
--
-- refused: HQ008
SELECT
    l_orderkey,
    LAPLACE(eps=1) SUM(l_extendedprice * (1 - l_discount)) AS revenue,
    o_orderdate,
    o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING'
  AND c_custkey = o_custkey
  AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15'
  AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate
LIMIT 10
