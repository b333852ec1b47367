"""What HushQL says of its noise, beside dp_accounting, OpenDP and sums over exact laws. README.md says how it is used.

    benches/oracles/run target/release/hushql             # prints the page
    benches/oracles/run target/release/hushql --write     # writes docs/oracles.md

HushQL's numbers are read off EXPLAIN PRIVACY of the program. Each row says whether ours is the safe side: a number that promises more
privacy, or a smaller error, than another oracle computes exactly is an error, and the run fails.
"""

import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import opendp.prelude as dp
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import rdp_privacy_accountant as rdp
from scipy.optimize import brentq

dp.enable_features("contrib")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "oracles.md"
INTEGERS = dp.atom_domain(T=int), dp.absolute_distance(T=int)
DECLARED = """
CREATE EXTERNAL TABLE {0} (id BIGINT, k VARCHAR, word VARCHAR) STORED AS CSV LOCATION '{0}.csv';
ALTER TABLE {0} SET PRIVACY UNIT (id) UNIQUE;
ALTER TABLE {0} ALTER COLUMN k SET PRIVACY DOMAIN IN ('a', 'b');
CREATE PRIVACY BUDGET of_{0} FOR {0} LIMIT ({1}){2};
"""

problems = []


class HushQL:
    """The program, on tables without rows whose budgets count in ε, in ρ, and in ρ for a promised (ε, δ)."""

    def __init__(self, program, folder):
        self.program, self.folder = Path(program).resolve(), folder
        script = DECLARED.format("pure", "epsilon=100, delta=0.5", "") + DECLARED.format("rho", "rho=100, delta=0.5", "")
        for number, (epsilon, delta) in enumerate(PROMISED):
            script += DECLARED.format(f"promised{number}", f"epsilon={epsilon}, delta={delta}", " ACCOUNTANT ZCDP (thresholds=0)")
        (folder / "owner.sql").write_text(script)
        for number, name in enumerate(re.findall(r"TABLE (\w+) \(", script)):
            (folder / f"{name}.csv").write_text(f"id,k,word\n{number},a,w\n")
        self.run("init", "vault.db")
        self.run("vault.db", "--owner", "-f", "owner.sql")

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def explain(self, query):
        lines = self.run("vault.db", "--owner", "-c", f"EXPLAIN PRIVACY {query}").splitlines()
        return {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines if len(line.split()) > 1}

    def number(self, query, line, pattern):
        text = self.explain(query)[line]
        found = re.search(pattern, text)
        if not found:
            raise SystemExit(f"{query}: no {pattern} in {text}")
        return float(found[1])


def table(heading, rows):
    line = "| {} |".format
    return "\n".join([line(" | ".join(heading)), "|" + "---|" * len(heading), *(line(" | ".join(row)) for row in rows)])


def keeps(what, ours, exact, least):
    """Notes a problem unless ours is at least (or at most) what is exact, to the digits that are printed."""
    slack = 1e-3 * abs(exact) if least else -1e-3 * abs(exact)
    if (ours + slack < exact) if least else (ours + slack > exact):
        problems.append(f"{what}: ours {ours}, exact {exact}")


def short(value):
    return f"{value:.4g}"


# Gaussian noise.

GAUSSIANS = [("0.1", "1e-6"), ("1", "1e-6"), ("1", "1e-9"), ("4", "1e-6"), ("1", "0.05")]


def discrete_gaussian(sigma, centre=0):
    reach = int(40 * sigma) + 10
    weights = {x: math.exp(-((x - centre) ** 2) / (2 * sigma * sigma)) for x in range(centre - reach, centre + reach + 1)}
    total = math.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def delta_of(sigma, epsilon):
    """δ of one count with discrete Gaussian noise, summed over its law."""
    law, shifted = discrete_gaussian(sigma), discrete_gaussian(sigma, 1)
    return math.fsum(max(0.0, p - math.exp(epsilon) * law.get(x, 0.0)) for x, p in shifted.items())


def least_sigma(epsilon, delta):
    return brentq(lambda sigma: math.log(max(delta_of(sigma, epsilon), 1e-300) / delta), 0.2, 200, xtol=1e-6)


def gaussians(hushql):
    rows = []
    for epsilon, delta in GAUSSIANS:
        query = f"SELECT GAUSSIAN(eps={epsilon}, delta={delta}) COUNT(*) FROM pure"
        ours = hushql.number(query, "noise", r"σ (?:≤|=) ([\d.]+)")
        e, d = float(epsilon), float(delta)
        exact = least_sigma(e, d)
        loss = pld.from_discrete_gaussian_mechanism(ours, 1, value_discretization_interval=1e-5)
        theirs = loss.get_delta_for_epsilon(e)

        def approximate(scale):
            return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*INTEGERS, scale=scale)), d)

        converted = dp.binary_search_param(approximate, 1, (e, d))
        keeps(f"σ at ({epsilon}, {delta})", ours, exact, least=True)
        rows.append([f"ε = {epsilon}, δ = {delta}", short(ours), short(exact), short(theirs), short(converted)])
    return table(["one count, Gaussian", "σ of HushQL", "least σ, summed over the law", "δ at our σ, dp_accounting", "σ of OpenDP"], rows)


# From ρ to ε and δ.

PROMISED = [("0.5", "1e-6"), ("1", "1e-6"), ("1", "1e-9"), ("8", "1e-6")]


def of_rho(epsilon, delta):
    """The largest ρ that dp_accounting converts to at most this ε."""
    orders = [1 + x / 20 for x in range(1, 400)] + list(range(21, 600)) + [700, 1000, 2000, 5000]

    def is_within(rho):
        accountant = rdp.RdpAccountant(orders)
        accountant.compose(dp_event.ZCDpEvent(rho))
        return accountant.get_epsilon(delta) - epsilon

    return brentq(is_within, 1e-7, 20, xtol=1e-9)


def opendp_rho(epsilon, delta):
    def within(scale):
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*INTEGERS, scale=scale)), delta).map(1)[0]

    scale = brentq(lambda scale: within(scale) - epsilon, 0.05, 500, xtol=1e-8)
    return 1 / (2 * scale * scale)


def conversions(hushql):
    rows = []
    for number, (epsilon, delta) in enumerate(PROMISED):
        query = f"SELECT GAUSSIAN(rho=1e-6) COUNT(*) FROM promised{number}"
        ours = hushql.number(query, "budget", r"ρ ([\d.e-]+) left")
        e, d = float(epsilon), float(delta)
        rows.append([f"ε = {epsilon}, δ = {delta}", short(ours), short(of_rho(e, d)), short(opendp_rho(e, d))])
    return table(["what a budget promises", "ρ of HushQL", "dp_accounting", "OpenDP"], rows)


# Costs in ρ of what is pure in ε.

PURE = ["0.1", "1", "3"]


def rho_of(p, q):
    """The largest divergence of an order α, divided by α, of two laws: in either direction, over a fine grid of orders."""
    worst = 0.0
    for step in range(1, 4000):
        order = 1 + 0.002 * step * step / 100
        for a, b in ((p, q), (q, p)):
            logs = [order * math.log(a[x]) + (1 - order) * math.log(b[x]) for x in a if a[x] > 0 and b.get(x, 0) > 0]
            top = max(logs)
            total = top + math.log(math.fsum(math.exp(one - top) for one in logs))
            worst = max(worst, total / (order - 1) / order)
    return worst


def exponential_law(scores, epsilon):
    weights = {k: math.exp(epsilon * score) for k, score in scores.items()}
    return {k: weight / sum(weights.values()) for k, weight in weights.items()}


def permute_and_flip_law(scores, epsilon):
    """For two candidates: the first of a random order is accepted with its probability, else the other, and so on."""
    (one, a), (other, b) = scores.items()
    best = max(a, b)
    a, b = math.exp(epsilon * (a - best)), math.exp(epsilon * (b - best))
    return {one: a * (1 - b / 2), other: b * (1 - a / 2)}


def response_law(epsilon, own):
    high = math.exp(epsilon) / (1 + math.exp(epsilon))
    return {own: high, 1 - own: 1 - high}


def costs(hushql):
    rows = []
    for epsilon in PURE:
        e = float(epsilon)
        for what, query, pair in [
            ("LAPLACE", "SELECT LAPLACE(eps={}) COUNT(*) FROM rho", (laplace_law(e, 1), laplace_law(e, 0))),
            ("EXPONENTIAL", "SELECT ARGMAX EXPONENTIAL(eps={}) k FROM rho GROUP BY k", worst_choice(exponential_law, e)),
            ("PERMUTE_AND_FLIP", "SELECT ARGMAX PERMUTE_AND_FLIP(eps={}) k FROM rho GROUP BY k", worst_choice(permute_and_flip_law, e)),
        ]:
            ours = hushql.number(query.format(epsilon), "cost", r"ρ = ([\d.e-]+)")
            exact = rho_of(*pair)
            if what == "EXPONENTIAL":
                space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=True)
                theirs = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=1 / e).map(1)
            else:
                theirs = dp.c.make_pureDP_to_zCDP(dp.m.make_laplace(*INTEGERS, scale=1 / e)).map(1)
            keeps(f"ρ of {what}({epsilon})", ours, exact, least=True)
            rows.append([f"`{what}(eps={epsilon})`", short(ours), short(exact), short(theirs)])
    return table(["two candidates, or one count", "ρ of HushQL", "largest over orders, summed over the law", "OpenDP"], rows)


def laplace_law(epsilon, centre):
    ratio = math.exp(-epsilon)
    reach = int(60 / epsilon) + 5
    return {x: (1 - ratio) / (1 + ratio) * ratio ** abs(x - centre) for x in range(-reach, reach + 1)}


def worst_choice(law, epsilon):
    """The neighbours, of two candidates, whose laws differ most."""
    pairs = [(law({"a": lead + 1, "b": 0}, epsilon), law({"a": lead, "b": 0}, epsilon)) for lead in range(-12, 12)]
    return max(pairs, key=lambda pair: rho_of_quick(*pair))


def rho_of_quick(p, q):
    return max(math.fsum(a[x] * math.log(a[x] / b[x]) for x in a) for a, b in ((p, q), (q, p)))


# The loss of whole laws, as dp_accounting sees it.


def losses(hushql):
    rows = []
    for epsilon in PURE:
        e = float(epsilon)
        for what, pair in [
            ("discrete Laplace", (laplace_law(e, 1), laplace_law(e, 0))),
            ("exponential mechanism, two candidates", worst_of(exponential_law, e)),
            ("permute-and-flip, two candidates", worst_of(permute_and_flip_law, e)),
            ("randomized response, two values", (response_law(e, 1), response_law(e, 0))),
        ]:
            upper, lower = ({x: math.log(p) for x, p in law.items()} for law in pair)
            loss = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=1e-4, symmetric=False)
            theirs = loss.get_epsilon_for_delta(1e-12)
            keeps(f"ε of {what}", e + 1e-3, theirs, least=True)
            rows.append([what, epsilon, short(theirs)])
    return table(["law", "ε that HushQL charges", "ε at δ = 10⁻¹², dp_accounting"], rows)


def worst_of(law, epsilon):
    """The neighbours, of two candidates, of which one event tells most, if it has a thousandth of the probability."""
    pairs = [(law({"a": lead + 1, "b": 0}, epsilon), law({"a": lead, "b": 0}, epsilon)) for lead in range(-200, 200)]

    def most(pair):
        p, q = pair
        return max(abs(math.log(p[x] / q[x])) for x in p if min(p[x], q[x]) > 1e-3)

    return max(pairs, key=most)


# Tails and thresholds.


def tail(law, beta):
    """The least whole t with P(|X| > t) ≤ β."""
    t = 0
    while math.fsum(p for x, p in law.items() if abs(x) > t) > beta:
        t += 1
    return t


def tails(hushql):
    rows = []
    for what, query, law, theirs in [
        *(
            (f"`LAPLACE(eps={epsilon})`", f"SELECT LAPLACE(eps={epsilon}) COUNT(*) FROM rho", laplace_law(float(epsilon), 0),
             dp.discrete_laplacian_scale_to_accuracy(1 / float(epsilon), 0.05))
            for epsilon in ["0.01", "0.1", "1", "3"]
        ),
        *(
            (f"`GAUSSIAN(rho={rho})`", f"SELECT GAUSSIAN(rho={rho}) COUNT(*) FROM rho", discrete_gaussian(math.sqrt(1 / (2 * float(rho)))),
             dp.discrete_gaussian_scale_to_accuracy(math.sqrt(1 / (2 * float(rho))), 0.05))
            for rho in ["0.0001", "0.01", "0.1", "1"]
        ),
    ]:
        ours = hushql.number(query, "error", r"within ([\d.]+)")
        exact = tail(law, 0.05)
        keeps(f"tail of {what}", ours, exact, least=True)
        rows.append([what, short(ours), short(exact), short(theirs)])
    return table(["noise", "± 95 % of HushQL", "least t, summed over the law", "OpenDP"], rows)


def thresholds(hushql):
    rows = []
    for epsilon, delta in [("1", "1e-6"), ("0.1", "1e-6"), ("1", "1e-9"), ("3", "0.05")]:
        query = f"SELECT word, LAPLACE(eps={epsilon}, delta={delta}) COUNT(DISTINCT id) FROM pure GROUP BY word"
        ours = hushql.number(query, "threshold", r"τ = (\d+)")
        e, d = float(epsilon), float(delta)
        law = laplace_law(e, 0)
        exact = 1
        while math.fsum(p for x, p in law.items() if 1 + x >= exact) > d:
            exact += 1
        keeps(f"τ at ({epsilon}, {delta})", ours, exact, least=True)
        rows.append([f"ε = {epsilon}, δ = {delta}", short(ours), short(exact)])
    return table(["groups of the data, Laplace", "τ of HushQL", "least τ, summed over the law"], rows)


def page(hushql):
    text = (Path(__file__).resolve().parent / "page.txt").read_text()
    for name, make in [
        ("gaussians", gaussians), ("conversions", conversions), ("costs", costs), ("losses", losses), ("tails", tails), ("thresholds", thresholds),
    ]:
        text = text.replace("{" + name + "}", make(hushql))
    return text


def main():
    with tempfile.TemporaryDirectory() as folder:
        text = page(HushQL(sys.argv[1], Path(folder)))
    if "--write" in sys.argv:
        PAGE.write_text(text)
    else:
        print(text)
    if problems:
        raise SystemExit("on the wrong side:\n" + "\n".join(problems))


main()
