-- Customer distribution: how many customers have no order, one order, two …?
--
-- Orders are counted for each customer below the release. Each customer is in one group then, so this is among
-- the most accurate questions that can be asked of these tables.
--
-- answered
SELECT c_count, LAPLACE(eps=1) COUNT(*) AS custdist
FROM (
    SELECT c_custkey, COUNT(o_orderkey) AS c_count
    FROM customer LEFT OUTER JOIN orders
        ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
    GROUP BY c_custkey
) AS c_orders
GROUP BY c_count
ORDER BY custdist DESC, c_count DESC
