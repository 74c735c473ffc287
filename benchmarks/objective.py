"""The objective and the projection compared with straightforward implementations.

Run as ``python -m benchmarks.objective [--quick] [--json PATH]``. All contestants run in this
process and take turns. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.harness import Target, gemm_rate, peak_extra_memory, time_in_turns, write_json
from benchmarks.references import (
    compressed_rate_batched,
    compressed_rate_einsum,
    unrolled_sinkhorn,
)
from unbend.functional import compressed_rate, doubly_stochastic

EPS_SQ, ETA, ANCHORS = 0.1, 0.175, 128
MAIN = (1024, 128)  # the paper's batch and dimension: the targets hold here
MEBI = 2**20


@dataclass(frozen=True)
class Plan:
    """What to measure, and how often."""

    sizes: tuple[tuple[int, int, int], ...]  # n, d and the number of rounds
    rounds: int
    growth: tuple[int, ...]


FULL = Plan(
    sizes=((256, 64, 9), (512, 64, 9), (512, 128, 5), (*MAIN, 5), (2048, 128, 1)),
    rounds=3,
    growth=(256, 512, 1024, 2048, 4096),
)
QUICK = Plan(sizes=((256, 64, 3), (*MAIN, 1)), rounds=1, growth=(256, 512, 1024))


def codes(n: int, d: int, noise: float = 0.5) -> Tensor:
    """Unit-norm codes around ten directions; noise = inf makes them uniform on the sphere."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(10, d, generator=generator)
    spread = torch.randn(n, d, generator=generator)
    clusters = torch.arange(n) % 10
    points = spread if math.isinf(noise) else centres[clusters] + noise * spread
    return torch.nn.functional.normalize(points, dim=1)


def problem(n: int, d: int) -> tuple[Tensor, Tensor]:
    """Features and a membership as they meet in training, both wanting gradients."""
    Z = codes(n, d)
    Gamma = doubly_stochastic(Z @ Z.mT, ETA).Gamma
    return Z.requires_grad_(), Gamma.requires_grad_()


def forward_backward(
    rate: Callable[..., Tensor], Z: Tensor, Gamma: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Value and both gradients."""
    value = rate(Z, Gamma, EPS_SQ)
    return (value.detach(), *torch.autograd.grad(value, (Z, Gamma)))


def anchored(generator: torch.Generator) -> Callable[..., Tensor]:
    return partial(compressed_rate, n_anchors=ANCHORS, generator=generator)


def measure_rates(n: int, d: int, rounds: int) -> dict[str, Any]:
    """Time and memory of all ways to R_c at one size, forward + backward with both gradients."""
    Z, Gamma = problem(n, d)
    rates = {
        "ours": compressed_rate,
        "anchored": anchored(torch.Generator().manual_seed(0)),
        "batched (a)": compressed_rate_batched,
        "einsum (b)": compressed_rate_einsum,
    }
    runs = {name: partial(forward_backward, rate, Z, Gamma) for name, rate in rates.items()}
    memory = {name: peak_extra_memory(run) for name, run in runs.items()}  # warms up as well
    flops = gemm_rate()
    seconds = time_in_turns(runs, rounds, warm_up=False)
    flops = max(flops, gemm_rate())
    needed = 3 * 2 * n * n * d * (d + 1) / 2  # three products over d(d+1)/2 packed numbers
    return {
        "n": n,
        "d": d,
        "seconds": seconds,
        "memory": memory,
        "gemm_gflops": flops / 1e9,
        "share_of_gemm": needed / seconds["ours"] / flops,
    }


def measure_errors(n: int, d: int) -> dict[str, float]:
    """Relative errors of ours in float32 against the definition in float64."""
    Z, Gamma = problem(n, d)
    ours = forward_backward(compressed_rate, Z, Gamma)
    wide = [t.detach().double().requires_grad_() for t in (Z, Gamma)]
    truth = forward_backward(compressed_rate_einsum, wide[0], wide[1])
    names = ("value", "gradient of Z", "gradient of Gamma")
    return {
        name: float((got.double() - expected).norm() / expected.norm())
        for name, got, expected in zip(names, ours, truth, strict=True)
    }


def measure_growth(sizes: tuple[int, ...], d: int, rounds: int) -> dict[str, Any]:
    """Exponents of time against n, by least squares through the logarithms."""
    seconds: dict[str, list[float]] = {"exact": [], "anchored": []}
    for n in sizes:
        Z, Gamma = problem(n, d)
        rates = {"exact": compressed_rate, "anchored": anchored(torch.Generator().manual_seed(0))}
        runs = {name: partial(forward_backward, rate, Z, Gamma) for name, rate in rates.items()}
        for name, value in time_in_turns(runs, rounds).items():
            seconds[name].append(value)
    exponents = {name: slope(sizes, values) for name, values in seconds.items()}
    return {"n": list(sizes), "seconds": seconds, "exponents": exponents}


def slope(n: tuple[int, ...], seconds: list[float]) -> float:
    """Least-squares slope of log(seconds) against log(n)."""
    x = torch.tensor(n, dtype=torch.float64).log()
    y = torch.tensor(seconds, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def measure_projection(noise: float, rounds: int) -> dict[str, Any]:
    """Ours against the unrolled loop, with as few updates as reach the same marginal error."""
    C = codes(*MAIN, noise=noise)
    S = (C @ C.mT).requires_grad_()
    G = torch.randn(S.shape, generator=torch.Generator().manual_seed(1))
    ours = doubly_stochastic(S, ETA)
    n_iter = 1
    with torch.no_grad():
        while marginal_error(unrolled_sinkhorn(S, ETA, n_iter)) > 1e-5:
            n_iter += 1

    def run(project: Callable[[], Tensor]) -> object:
        return torch.autograd.grad(project(), S, G)

    runs = {
        "ours": partial(run, lambda: doubly_stochastic(S, ETA).Gamma),
        "unrolled": partial(run, lambda: unrolled_sinkhorn(S, ETA, n_iter)),
    }
    return {
        "noise": noise,
        "n_iter": {"ours": ours.n_iter, "unrolled": n_iter},
        "marginal_error": marginal_error(ours.Gamma.detach()),
        "memory": {name: peak_extra_memory(go) for name, go in runs.items()},
        "seconds": time_in_turns(runs, 4 * rounds),
    }


def marginal_error(Gamma: Tensor) -> float:
    return float((Gamma.double().sum(-1) - 1).abs().max())


def ratio(values: dict[str, Any], over: str, under: str) -> float | None:
    """values[over] / values[under], or None if either was not measured."""
    if not values[over] or not values[under]:
        return None
    return float(values[over] / values[under])


def targets(result: dict[str, Any]) -> list[Target]:
    """Compare with the bounds set for two cores at (n, d) = (1024, 128)."""
    main = next(r for r in result["rates"] if (r["n"], r["d"]) == MAIN)
    seconds, memory, errors = main["seconds"], main["memory"], result["errors"]
    worst_gradient = max(errors["gradient of Z"], errors["gradient of Gamma"])
    exponents = result["growth"]["exponents"]
    projections = result["projection"]
    least = [
        min(
            (r for r in (ratio(p[key], "unrolled", "ours") for p in projections) if r), default=None
        )
        for key in ("seconds", "memory")
    ]
    at_least = [
        ("R_c: time of (a) / ours", ratio(seconds, "batched (a)", "ours"), 8),
        ("R_c: time of (b) / ours", ratio(seconds, "einsum (b)", "ours"), 4),
        ("R_c: memory of (a) / ours", ratio(memory, "batched (a)", "ours"), 3),
        ("R_c: memory of (b) / ours", ratio(memory, "einsum (b)", "ours"), 3),
        ("R_c: time of (a) / anchored", ratio(seconds, "batched (a)", "anchored"), 30),
        ("projection: time of unrolled / ours", least[0], 5),
        ("projection: memory of unrolled / ours", least[1], 5),
    ]
    at_most = [
        ("R_c: error of the value", errors["value"], 1e-5),
        ("R_c: error of the gradients", worst_gradient, 1e-4),
        ("projection: marginal error", max(p["marginal_error"] for p in projections), 1e-5),
        ("R_c: exponent of time in n, exact", exponents["exact"], 2.1),
        ("R_c: exponent of time in n, anchored", exponents["anchored"], 1.2),
    ]
    return [Target(*row, at_least=True) for row in at_least] + [
        Target(*row, at_least=False) for row in at_most
    ]


def measure(plan: Plan, console: Console) -> dict[str, Any]:
    """Run everything, smallest first."""
    result: dict[str, Any] = {"rates": []}
    for n, d, rounds in plan.sizes:
        console.print(f"R_c at n = {n}, d = {d} ...")
        result["rates"].append(measure_rates(n, d, rounds))
    result["errors"] = measure_errors(*MAIN)
    console.print("growth with n ...")
    result["growth"] = measure_growth(plan.growth, MAIN[1], plan.rounds)
    console.print("projection ...")
    result["projection"] = [measure_projection(x, plan.rounds) for x in (0.5, math.inf)]
    result["targets"] = [target.as_dict() for target in targets(result)]
    return result


def show(result: dict[str, Any], console: Console) -> None:
    """Print ratios, then targets."""
    table = Table(title="R_c, forward + backward, both gradients")
    for heading in ("n", "d", "way", "seconds", "/ ours", "MiB", "/ ours", "share of GEMM"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for row in result["rates"]:
        for name, seconds in row["seconds"].items():
            cells = [str(row["n"]), str(row["d"]), name, f"{seconds:.3f}"]
            cells += [number(ratio(row["seconds"], name, "ours"))]
            cells += [number(None if row["memory"][name] is None else row["memory"][name] / MEBI)]
            cells += [number(ratio(row["memory"], name, "ours"))]
            cells += [f"{row['share_of_gemm']:.0%}" if name == "ours" else ""]
            table.add_row(*cells)
    console.print(table)
    for row in result["projection"]:
        console.print(
            f"projection, n = {MAIN[0]}, noise {row['noise']}: updates {row['n_iter']}, "
            f"seconds {row['seconds']['ours']:.4f} against {row['seconds']['unrolled']:.4f}"
        )
    verdicts = Table(title=f"targets at n = {MAIN[0]}, d = {MAIN[1]}")
    for heading in ("target", "measured", "bound", ""):
        verdicts.add_column(heading)
    words = {True: "pass", False: "FAIL", None: "not measured"}
    for target in result["targets"]:
        bound = f"{'>=' if target['at_least'] else '<='} {target['bound']:g}"
        row = (target["name"], number(target["measured"]), bound, words[target["passed"]])
        verdicts.add_row(*row)
    console.print(verdicts)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="two sizes, one round")
    parser.add_argument("--json", metavar="PATH", help="write figures, machine and commit here")
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    console = Console(width=110)
    result = measure(QUICK if options.quick else FULL, console)
    show(result, console)
    if options.json:
        write_json(options.json, result)
    return 1 if any(target["passed"] is False for target in result["targets"]) else 0


if __name__ == "__main__":
    sys.exit(main())
