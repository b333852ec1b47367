-- TPC-H | trade | The 22 questions of TPC-H in plain SQL, with buyers as the people; parts, sellers and the map are public.

-- 1. Prices by flag and state
SELECT flag, state, SUM(quantity) AS q, SUM(price) AS p, SUM(price * (1 - discount)) AS d, SUM(price * (1 - discount) * (1 + tax)) AS c, AVG(quantity) AS aq, AVG(price) AS ap, AVG(discount) AS ad, COUNT(*) AS n FROM lines WHERE shipped <= DATE '1998-12-01' - INTERVAL '90' DAY GROUP BY flag, state ORDER BY flag, state;

-- 2. The cheapest seller of each part, of public tables
SELECT s.name, n.name, p.id FROM parts AS p, sellers AS s, offers AS o, nations AS n, regions AS r WHERE p.id = o.part AND s.id = o.seller AND p.size BETWEEN 3 AND 9 AND p.kind LIKE '%steel' AND s.nation = n.id AND n.region = r.id AND r.name = 'europe' AND o.cost = (SELECT MIN(o2.cost) FROM offers AS o2, sellers AS s2, nations AS n2, regions AS r2 WHERE p.id = o2.part AND s2.id = o2.seller AND s2.nation = n2.id AND n2.region = r2.id AND r2.name = 'europe') ORDER BY 1, 2, 3;

-- 3. The deals that are worth most: nobody shares one
-- = SELECT NULL WHERE FALSE
SELECT l.deal, SUM(l.price * (1 - l.discount)) AS revenue, d.day FROM buyers AS b, deals AS d, lines AS l WHERE b.segment = 'houses' AND b.id = d.buyer AND l.deal = d.id AND d.day < DATE '1995-03-15' AND l.shipped > DATE '1995-03-15' GROUP BY l.deal, d.day ORDER BY revenue DESC, d.day LIMIT 10;

-- 4. Deals with a late line, by priority
SELECT priority, COUNT(*) AS n FROM deals WHERE day >= DATE '1994-07-01' AND day < DATE '1994-07-01' + INTERVAL '3' MONTH AND EXISTS (SELECT * FROM lines WHERE deal = deals.id AND due < received) GROUP BY priority ORDER BY priority;

-- 5. Revenue of local sellers by nation
SELECT n.name, SUM(l.price * (1 - l.discount)) AS revenue FROM buyers AS b, deals AS d, lines AS l, sellers AS s, nations AS n, regions AS r WHERE b.id = d.buyer AND l.deal = d.id AND l.seller = s.id AND b.nation = s.nation AND s.nation = n.id AND n.region = r.id AND r.name = 'asia' AND d.day >= DATE '1994-01-01' AND d.day < DATE '1996-01-01' GROUP BY n.name ORDER BY revenue DESC;

-- 6. Revenue that discounts cost
SELECT SUM(price * discount) AS revenue FROM lines WHERE shipped >= DATE '1995-01-01' AND shipped < DATE '1995-01-01' + INTERVAL '1' YEAR AND discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND quantity < 24;

-- 7. Volume between two nations by year
SELECT a, b, y, SUM(v) AS revenue FROM (SELECT n1.name AS a, n2.name AS b, EXTRACT(YEAR FROM l.shipped) AS y, l.price * (1 - l.discount) AS v FROM sellers AS s, lines AS l, deals AS d, buyers AS c, nations AS n1, nations AS n2 WHERE s.id = l.seller AND d.id = l.deal AND c.id = d.buyer AND s.nation = n1.id AND c.nation = n2.id AND ((n1.name = 'France' AND n2.name = 'Germany') OR (n1.name = 'Germany' AND n2.name = 'France')) AND l.shipped BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS t GROUP BY a, b, y ORDER BY a, b, y;

-- 8. A nation's share of the market by year
SELECT y, SUM(CASE WHEN nation = 'Brazil' THEN v ELSE 0 END) / SUM(v) AS share FROM (SELECT EXTRACT(YEAR FROM d.day) AS y, l.price * (1 - l.discount) AS v, n2.name AS nation FROM parts AS p, sellers AS s, lines AS l, deals AS d, buyers AS c, nations AS n1, nations AS n2, regions AS r WHERE p.id = l.part AND s.id = l.seller AND l.deal = d.id AND d.buyer = c.id AND c.nation = n1.id AND n1.region = r.id AND r.name = 'america' AND s.nation = n2.id AND d.day BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' AND p.kind = 'promo steel') AS t GROUP BY y ORDER BY y;

-- 9. Profit by nation and year
SELECT nation, y, SUM(x) AS profit FROM (SELECT n.name AS nation, EXTRACT(YEAR FROM d.day) AS y, l.price * (1 - l.discount) - o.cost * l.quantity AS x FROM parts AS p, sellers AS s, lines AS l, offers AS o, deals AS d, nations AS n WHERE s.id = l.seller AND o.seller = l.seller AND o.part = l.part AND p.id = l.part AND d.id = l.deal AND s.nation = n.id AND p.name LIKE '%green%') AS t GROUP BY nation, y ORDER BY nation, y DESC;

-- refused: 10. The buyers who returned most
SELECT c.id, c.name, SUM(l.price * (1 - l.discount)) AS revenue, c.balance FROM buyers AS c, deals AS d, lines AS l WHERE c.id = d.buyer AND l.deal = d.id AND d.day >= DATE '1994-10-01' AND l.flag = 'r' GROUP BY c.id, c.name, c.balance ORDER BY revenue DESC LIMIT 20;

-- 11. Stock of one nation, of public tables
SELECT o.part, SUM(o.cost * o.stock) AS v FROM offers AS o, sellers AS s, nations AS n WHERE o.seller = s.id AND s.nation = n.id AND n.name = 'Germany' GROUP BY o.part HAVING SUM(o.cost * o.stock) > (SELECT SUM(o.cost * o.stock) * 0.02 FROM offers AS o, sellers AS s, nations AS n WHERE o.seller = s.id AND s.nation = n.id AND n.name = 'Germany') ORDER BY v DESC;

-- 12. Urgent and other deals by way
SELECT l.way, SUM(CASE WHEN d.priority = '1 urgent' OR d.priority = '2 high' THEN 1 ELSE 0 END) AS high, SUM(CASE WHEN d.priority <> '1 urgent' AND d.priority <> '2 high' THEN 1 ELSE 0 END) AS low FROM deals AS d, lines AS l WHERE d.id = l.deal AND l.way IN ('mail', 'ship') AND l.due < l.received AND l.shipped < l.due AND l.received >= DATE '1995-01-01' AND l.received < DATE '1996-01-01' GROUP BY l.way ORDER BY l.way;

-- 13. Buyers by how many deals they have
SELECT n, COUNT(*) AS buyers FROM (SELECT c.id, COUNT(d.id) FROM buyers AS c LEFT OUTER JOIN deals AS d ON c.id = d.buyer AND d.remark NOT LIKE '%special%wish%' GROUP BY c.id) AS t(id, n) GROUP BY n ORDER BY buyers DESC, n DESC;

-- 14. The share of promoted parts
SELECT 100.00 * SUM(CASE WHEN p.kind LIKE 'promo%' THEN l.price * (1 - l.discount) ELSE 0 END) / SUM(l.price * (1 - l.discount)) AS share FROM lines AS l, parts AS p WHERE l.part = p.id AND l.shipped >= DATE '1995-09-01' AND l.shipped < DATE '1995-09-01' + INTERVAL '1' MONTH;

-- 15. The best seller
WITH r AS (SELECT seller, SUM(price * (1 - discount)) AS total FROM lines WHERE shipped >= DATE '1996-01-01' AND shipped < DATE '1996-04-01' GROUP BY seller) SELECT s.id, s.name, total FROM sellers AS s, r WHERE s.id = r.seller AND total = (SELECT MAX(total) FROM r) ORDER BY s.id;

-- 16. Sellers of parts, of public tables
SELECT p.brand, p.kind, p.size, COUNT(DISTINCT o.seller) AS n FROM offers AS o, parts AS p WHERE p.id = o.part AND p.brand <> 'brand 4' AND p.kind NOT LIKE 'promo%' AND p.size IN (1, 3, 5, 9) AND o.seller NOT IN (SELECT id FROM sellers WHERE remark LIKE '%Customer%Complaints%') GROUP BY p.brand, p.kind, p.size ORDER BY n DESC, 1, 2, 3;

-- refused: 17. Lines far below the mean of their part
SELECT SUM(l.price) / 7.0 AS yearly FROM lines AS l, parts AS p WHERE p.id = l.part AND p.brand = 'brand 2' AND p.pack = 'box' AND l.quantity < (SELECT 0.2 * AVG(l2.quantity) FROM lines AS l2 WHERE l2.part = p.id);

-- refused: 18. The buyers of large deals
SELECT c.name, c.id, d.id, d.day, SUM(l.quantity) FROM buyers AS c, deals AS d, lines AS l WHERE d.id IN (SELECT deal FROM lines GROUP BY deal HAVING SUM(quantity) > 120) AND c.id = d.buyer AND d.id = l.deal GROUP BY c.name, c.id, d.id, d.day ORDER BY d.day LIMIT 100;

-- 18. How many deals are large
SELECT COUNT(*) AS n FROM deals AS d WHERE d.id IN (SELECT deal FROM lines GROUP BY deal HAVING SUM(quantity) > 120);

-- 19. Revenue of three kinds of packs
SELECT SUM(l.price * (1 - l.discount)) AS revenue FROM lines AS l, parts AS p WHERE (p.id = l.part AND p.brand = 'brand 1' AND p.pack IN ('bag', 'box') AND l.quantity >= 1 AND l.quantity <= 11 AND p.size BETWEEN 1 AND 5 AND l.way IN ('air', 'rail')) OR (p.id = l.part AND p.brand = 'brand 2' AND p.pack = 'bag' AND l.quantity >= 10 AND l.quantity <= 20 AND p.size BETWEEN 1 AND 10 AND l.way = 'air') OR (p.id = l.part AND p.brand = 'brand 3' AND l.quantity BETWEEN 20 AND 30 AND p.size BETWEEN 1 AND 10);

-- 20. Sellers with a stock beyond half of what was sold, by a released sum
SELECT s.name FROM sellers AS s, nations AS n WHERE s.id IN (SELECT o.seller FROM offers AS o WHERE o.part IN (SELECT id FROM parts WHERE name LIKE 'forest%') AND o.stock > (SELECT 0.5 * SUM(l.quantity) FROM lines AS l WHERE l.part = o.part AND l.seller = o.seller AND l.shipped >= DATE '1995-01-01' AND l.shipped < DATE '1996-01-01')) AND s.nation = n.id AND n.name = 'Canada' ORDER BY s.name;

-- 21. Sellers who kept deals waiting
SELECT s.name, COUNT(*) AS n FROM sellers AS s, lines AS l1, deals AS d, nations AS m WHERE s.id = l1.seller AND d.id = l1.deal AND d.status = 'f' AND l1.received > l1.due AND EXISTS (SELECT * FROM lines AS l2 WHERE l2.deal = l1.deal AND l2.seller <> l1.seller) AND NOT EXISTS (SELECT * FROM lines AS l3 WHERE l3.deal = l1.deal AND l3.seller <> l1.seller AND l3.received > l3.due) AND s.nation = m.id AND m.name IN ('Egypt', 'India', 'Japan') GROUP BY s.name ORDER BY n DESC, s.name LIMIT 100;

-- 22. Rich buyers without a deal, by the code of their country
SELECT code, COUNT(*) AS n, SUM(balance) AS s FROM (SELECT SUBSTRING(c.phone FROM 1 FOR 2) AS code, c.balance FROM buyers AS c WHERE SUBSTRING(c.phone FROM 1 FOR 2) IN ('11', '12', '13', '15', '17') AND c.balance > (SELECT AVG(c2.balance) FROM buyers AS c2 WHERE c2.balance > 0.00) AND NOT EXISTS (SELECT * FROM deals AS d WHERE d.buyer = c.id)) AS t GROUP BY code ORDER BY code;
