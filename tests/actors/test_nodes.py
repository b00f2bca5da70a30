"""A cluster of three nodes loses one during the run: the journal is the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from fedsim.actors.nodes import reason, unforeseen
from tests.util.processes import HERE

DRIVER = """
import sys, threading
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from tests.util.processes import await_steps, steps
import fedsim

resources, out = eval(sys.argv[1]), Path(sys.argv[2])
config = {
    "name": "three-nodes",
    "scenario": {"name": "workloads:Bowl", "pause": 0.2},
    "method": {"name": "dp-fts-de", "initial_points": 2, "message": {"features": 20}},
    "rounds": 8,
    "deadlines": {"start": 300.0},
    "resources": resources,
}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
try:
    lost, _ = cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    alive = []

    def lose_a_node():
        await_steps(out / "on-ray" / "seed-0" / "journal.jsonl", 4)
        cluster.remove_node(lost)
        alive.append(sum(node["Alive"] for node in ray.nodes()))
        alive.append(steps(out / "on-ray" / "seed-0" / "journal.jsonl"))

    loser = threading.Thread(target=lose_a_node)
    loser.start()
    fedsim.run({**config, "backend": "ray", "address": cluster.address}, out=out / "on-ray")
    loser.join()
    fedsim.run({**config, "resources": None, "backend": "serial"}, out=out / "serial")
    print("alive", *alive)
finally:
    ray.shutdown()
    cluster.shutdown()
"""


class TestWords:
    """What Ray says is shown without colours, and its own frames only where nobody knows more."""

    def test_why_an_actor_was_lost(self) -> None:
        assert reason(ActorDiedError()) == "The actor died unexpectedly before finishing this task."
        told = "\x1b[36mThe actor died\x1b[39m. There are some potential root causes. Or others."
        assert reason(RayError(told)) == "The actor died."

    def test_what_nobody_foresaw_shows_where(self) -> None:
        text = '\x1b[36mray::AgentHost.handle()\x1b[39m\n  File "host.py", line 1\nKeyError: 3'
        error = RayTaskError("handle", text, KeyError(3))
        found = unforeseen("a host of agent 1", error)
        assert str(found) == "a host of agent 1 failed: KeyError: 3"
        assert found.user_traceback == text.replace("\x1b[36m", "").replace("\x1b[39m", "")


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("resources", ["None", "{'cpus': 1}"], ids=["hosts", "tasks"])
def test_a_node_is_lost_half_way(tmp_path: Path, resources: str) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    path = os.pathsep.join([str(HERE), str(HERE.parents[1]), environment.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(tmp_path / "driver.py"), resources, str(tmp_path)],
        cwd=HERE,
        env={**environment, "HOME": str(tmp_path), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    word, alive, steps = run.stdout.split()[-3:]
    assert (word, alive) == ("alive", "2")
    assert 4 <= int(steps) < 9  # it came in time
    on_ray, serial = (
        (tmp_path / out / "seed-0" / "journal.jsonl").read_bytes() for out in ("on-ray", "serial")
    )
    assert on_ray == serial
