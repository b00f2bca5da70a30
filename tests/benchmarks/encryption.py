"""What encryption costs: 30 clients, a support set of 32, 50 rounds; TenSEAL in the same run.

All that is cryptographic is counted: making keys, encoding, encryption, sums, shares, decryption,
the wire format, digests and checks.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

from fedsim.crypto import Encryption
from fedsim.crypto.measuring import Rounds, ckks_costs, numbers_of, threshold_costs
from fedsim.space import Array

MEMBERS, SUPPORT, ROUNDS = 30, 32, 50
EXTRA = 32  # logarithms of hyper-parameters, and moments of the outputs
NUMBERS = numbers_of(SUPPORT) + EXTRA


def cpu_seconds(encryption: Encryption, rounds: int) -> tuple[float, float, Array]:
    """Return CPU seconds of the first round, with new keys, and of all; and the last sum."""
    federation = Rounds(encryption, MEMBERS, NUMBERS)
    start = time.process_time()
    found = federation.run(0)
    first = time.process_time() - start
    for t in range(1, rounds):
        found = federation.run(t)
    return first, time.process_time() - start, found


def main() -> None:
    """Print it."""
    with threadpool_limits(1):
        print(
            f"{MEMBERS} clients, |S| = {SUPPORT}, {NUMBERS} numbers, {ROUNDS} rounds, CPU seconds:"
        )
        sums = []
        for encryption in ("threshold", "ckks", "plain"):
            first, whole, found = cpu_seconds(encryption, ROUNDS)
            sums.append(found)
            print(f"  {encryption:10} {whole:7.3f}, of it {first:.3f} in round 0, with new keys")
        equal = all(np.array_equal(one, sums[0]) for one in sums)
        print(f"  sums of all three equal, bit for bit: {equal}")
        own, other = threshold_costs(MEMBERS, SUPPORT), ckks_costs(MEMBERS, SUPPORT)
        print("TenSEAL (one key for all) over threshold, per operation:")
        for name in ("key", "encrypt", "aggregate"):
            print(f"  {name:10} {getattr(other, name) / getattr(own, name):7.1f}")


if __name__ == "__main__":
    main()
