"""``make bench``: all benchmarks, one after another."""

from tests.benchmarks import (
    agent_round,
    encryption,
    engine,
    fits,
    landmine,
    privacy_rounds,
    refinement,
    sweep,
)

for benchmark in (
    agent_round,
    refinement,
    fits,
    privacy_rounds,
    encryption,
    engine,
    sweep,
    landmine,
):
    print(f"\n== {benchmark.__name__}: {(benchmark.__doc__ or '').splitlines()[0]}")
    benchmark.main()
