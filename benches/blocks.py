#!/usr/bin/env python3
"""Three ways to combine the values of blocks of people: errors at equal ε, by simulation. Needs numpy.

In: nothing; 20,000 people are drawn anew for each of 200 runs. Out: for each statistic the error that 95 % of the runs keep, as a share
of the range of its values.

    the exponential mechanism on the rank    what SAMPLE_AND_AGGREGATE does (1,001 candidates; ε, 0)
    the mean with Laplace noise              as in GUPT: clamped values, scale range / (blocks · ε); (ε, 0)
    the median with smooth noise             Nissim, Raskhodnikova and Smith: scale 2S/ε, β = ε / (2 ln(2/δ)), δ = 1e-6; (ε, δ)
    the blocks alone                         the median of the values without noise
"""

import math
import sys

import numpy as np

PEOPLE, TICKS, DELTA = 20_000, 1_001, 1e-6
rng = np.random.default_rng(7)


def exponential(values, eps):
    """Values and answers are shares of the range."""
    places = np.rint(values * (TICKS - 1)).astype(int)
    counts = np.bincount(places, minlength=TICKS)
    up_to = np.cumsum(counts)
    wrong = np.maximum(0, np.maximum(2 * (up_to - counts) - len(values), len(values) - 2 * up_to))
    weights = np.exp(-eps * wrong / 4)
    return rng.choice(TICKS, p=weights / weights.sum()) / (TICKS - 1)


def mean(values, eps):
    return float(np.clip(values.mean() + rng.laplace(0, 1 / (len(values) * eps)), 0, 1))


def smooth(values, eps):
    values, n = np.sort(values), len(values)
    beta, middle = eps / (2 * math.log(2 / DELTA)), (n - 1) // 2

    def at(i):
        return 0.0 if i < 0 else 1.0 if i >= n else values[i]

    steps = (max(at(middle + t) - at(middle + t - k - 1) for t in range(k + 2)) * math.exp(-k * beta) for k in range(n + 1))
    return float(np.clip(np.median(values) + rng.laplace(0, 2 * max(steps) / eps), 0, 1))


WAYS = {"exponential": exponential, "mean": mean, "smooth": smooth, "blocks alone": lambda values, _eps: float(np.median(values))}


def people():
    z = rng.standard_normal((PEOPLE, 3))
    shares = 1 / np.arange(1, 21)
    return {
        "x": z[:, 0],
        "y": 0.6 * z[:, 0] + 0.8 * z[:, 1],
        "income": np.exp(10 + 0.7 * z[:, 2]),
        "age": rng.integers(18, 66, PEOPLE),
        "group": rng.choice(20, PEOPLE, p=shares / shares.sum()),
    }


def gini(income):
    income, n = np.sort(income), len(income)
    return 2 * (np.arange(1, n + 1) * income).sum() / (n * income.sum()) - (n + 1) / n


STATISTICS = {
    "correlation, in −1..1": (lambda p: np.corrcoef(p["x"], p["y"])[0, 1], -1, 1),
    "median of ratios, in 0..2": (lambda p: np.median(p["income"] / p["age"] / 1000), 0, 2),
    "Gini, in 0..1": (lambda p: gini(p["income"]), 0, 1),
    "share of the top tenth, in 0..1": (
        lambda p: np.sort(p["income"])[-(len(p["income"]) // 10) :].sum() / p["income"].sum(), 0, 1),
    "90 % over 50 %, in 1..6": (lambda p: np.quantile(p["income"], 0.9) / np.quantile(p["income"], 0.5), 1, 6),
    "share of the largest group, in 0..1": (lambda p: np.bincount(p["group"]).max() / len(p["group"]), 0, 1),
}


def errors(statistic, lo, hi, blocks, eps, runs=200):
    found = {way: [] for way in WAYS}
    for _ in range(runs):
        all_of_them, block = people(), rng.integers(0, blocks, PEOPLE)
        truth = (statistic(all_of_them) - lo) / (hi - lo)
        order = np.argsort(block, kind="stable")
        parts = np.split(order, np.searchsorted(block[order], np.arange(1, blocks)))
        values = [statistic({name: column[part] for name, column in all_of_them.items()}) for part in parts]
        values = (np.clip(values, lo, hi) - lo) / (hi - lo)
        for way, combine in WAYS.items():
            found[way].append(abs(combine(values, eps) - truth))
    return {way: float(np.quantile(off, 0.95)) for way, off in found.items()}


def main():
    for blocks, eps in [(64, 1.0), (128, 1.0), (256, 0.5)]:
        print(f"\n{blocks} blocks, ε = {eps}: error in percent of the range\n\n| statistic | {' | '.join(WAYS)} |\n|{'---|' * 5}")
        for name, (statistic, lo, hi) in STATISTICS.items():
            off = errors(statistic, lo, hi, blocks, eps)
            print(f"| {name} | {' | '.join(f'{100 * value:.2g}' for value in off.values())} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
