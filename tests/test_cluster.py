"""A cluster of two nodes whose workers get fedsim as a wheel, as users of real clusters ship it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

DRIVER = """
import json, sys
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
import fedsim

@ray.remote(num_cpus=0)
def origins():
    import fedsim.actors.host, fedsim.actors.server, fedsim.scenarios.synthetic
    return [
        module.__file__
        for module in (fedsim, fedsim.actors.host, fedsim.actors.server, fedsim.scenarios.synthetic)
    ]

config = {
    "name": "two-nodes",
    "scenario": {"name": "synthetic", "agents": 4, "grid_size": 50},
    "method": {"name": "dp-fts-de", "initial_points": 2, "message": {"features": 10}},
    "rounds": 2,
}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
try:
    # Else both nodes unpack the wheel into one folder of this machine, and disturb each other.
    cluster.add_node(num_cpus=1, runtime_env_dir_name="resources_of_second_node")
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, runtime_env={"py_modules": [sys.argv[1]]})
    nodes = [node["NodeID"] for node in ray.nodes()]
    found = [
        ray.get(
            origins.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
            ).remote(),
            timeout=240,
        )
        for node in nodes
    ]
    fedsim.run({**config, "backend": "ray", "agents_per_actor": 2}, out="on-ray")
    ray.shutdown()  # before the cluster: Ray refuses to remove the node that one is connected to
    fedsim.run({**config, "backend": "ray", "address": cluster.address}, out="by-address")
    fedsim.run({**config, "backend": "serial"}, out="serial")
    print(json.dumps({"nodes": len(nodes), "origins": sum(found, [])}))
finally:
    ray.shutdown()
    cluster.shutdown()
"""


@pytest.mark.heavy
@pytest.mark.slow
def test_workers_import_the_shipped_wheel(tmp_path: Path, wheel: Path) -> None:
    here = tmp_path / "project"  # a user's own package shares a name with one of our folders
    (here / "scenarios").mkdir(parents=True)
    (here / "scenarios" / "__init__.py").write_text("raise ImportError('the decoy')\n")
    (here / "driver.py").write_text(DRIVER)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment["PIP_NO_DEPS"] = "1"  # the nodes have them; else Ray installs them with the wheel
    run = subprocess.run(
        [sys.executable, "driver.py", str(wheel)],
        cwd=here,
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["nodes"] == 2
    assert len(found["origins"]) == 8
    assert not [origin for origin in found["origins"] if origin.startswith(str(ROOT))]
    assert all("py_modules" in origin for origin in found["origins"])
    journals = {
        (here / out / "seed-0" / "journal.jsonl").read_bytes()
        for out in ("on-ray", "by-address", "serial")
    }
    assert len(journals) == 1
