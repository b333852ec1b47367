-- Small-quantity orders: what would be lost each year without orders far below a part's average quantity?
--
-- As in the original. Whether one customer's item counts depends on the average over all customers' items
-- of that part, so one person could change many others' rows.
--
-- refused: HQ019
SELECT LAPLACE(eps=1) SUM(l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem, part
WHERE p_partkey = l_partkey
  AND p_brand = 'Brand#23'
  AND p_container = 'MED BOX'
  AND l_quantity < (
      SELECT 0.2 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey
  )
