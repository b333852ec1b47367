-- Promotion effect: the share of a month's revenue that promoted parts made, in per cent.
--
-- answered
SELECT
    100.00 * LAPLACE(eps=1) SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
        / LAPLACE(eps=1) SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey
  AND l_shipdate >= DATE '1995-09-01'
  AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH
