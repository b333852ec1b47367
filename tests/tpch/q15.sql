-- Top supplier: who made the most revenue in a quarter, with name and address?
--
-- The original compares each supplier's revenue with the greatest one. Here the supplier is chosen, which
-- pays for one answer and not for ten thousand sums; the revenue itself is not shown. Suppliers are public,
-- so they are the candidates, and the rest of the row is a join with what was chosen.
--
-- answered
WITH best AS (
    SELECT ARGMAX EXPONENTIAL(eps=1) s_suppkey BY SUM(l_extendedprice * (1 - l_discount)) AS supplier_no
    FROM lineitem, supplier
    WHERE l_suppkey = s_suppkey
      AND l_shipdate >= DATE '1996-01-01'
      AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH
    GROUP BY s_suppkey
)
SELECT s_suppkey, s_name, s_address, s_phone
FROM supplier JOIN best ON s_suppkey = supplier_no
ORDER BY s_suppkey
