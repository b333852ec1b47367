-- Global sales opportunity: customers of seven countries with more than the average balance and no order.
--
-- The average is a release of its own, compared with as a number. The country codes are given, because a
-- substring has no domain.
--
-- answered
SELECT cntrycode, LAPLACE(eps=1) COUNT(*) AS numcust, LAPLACE(eps=1) SUM(c_acctbal) AS totacctbal
FROM (
    SELECT SUBSTRING(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal
    FROM customer
    WHERE SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
      AND c_acctbal > (
          SELECT GAUSSIAN(eps=1, delta=1e-6) AVG(c_acctbal)
          FROM customer
          WHERE c_acctbal > 0.00
            AND SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
      )
      AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
) AS custsale
GROUP BY cntrycode KEYS ('13', '17', '18', '23', '29', '30', '31')
ORDER BY cntrycode
