"""The resource plan of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.actors.plan import ACTOR_MEGABYTES, CLUSTER_MEGABYTES, TABLES_MEGABYTES, make_plan
from fedsim.errors import ResourceError


class TestPlan:
    def test_one_run_takes_a_host_per_cpu(self) -> None:
        plan = make_plan(1000, "auto", jobs=1, cpus=8, address=None)
        assert (plan.hosts, plan.parallel, plan.actors) == (8, 1, 9)
        assert plan.cpus_per_host == 1.0
        assert plan.megabytes == 9 * ACTOR_MEGABYTES + TABLES_MEGABYTES + CLUSTER_MEGABYTES

    def test_several_runs_share_the_cpus(self) -> None:
        plan = make_plan(1000, "auto", jobs=3, cpus=8, address=None)
        assert (plan.hosts, plan.parallel, plan.actors) == (2, 3, 9)

    def test_more_runs_than_cpus_wait(self) -> None:
        plan = make_plan(1000, "auto", jobs=10, cpus=2, address=None)
        assert (plan.hosts, plan.parallel) == (1, 2)

    def test_never_more_hosts_than_agents(self) -> None:
        assert make_plan(3, "auto", jobs=1, cpus=8, address=None).hosts == 3

    def test_agents_per_actor_decides(self) -> None:
        assert make_plan(10, 4, jobs=1, cpus=8, address=None).hosts == 3

    def test_an_existing_cluster_costs_nothing_extra(self) -> None:
        own = make_plan(10, "auto", jobs=1, cpus=2, address=None)
        there = make_plan(10, "auto", jobs=1, cpus=2, address="head:6379")
        assert own.megabytes - there.megabytes == CLUSTER_MEGABYTES
        assert own.start_seconds > there.start_seconds
        assert "head:6379" in there.describe()

    def test_it_says_what_it_starts(self) -> None:
        words = make_plan(200, "auto", jobs=2, cpus=4, address=None).describe()
        assert "200 agents in 2 host actors" in words
        assert "2 runs at a time" in words

    def test_what_cannot_fit_is_refused_with_numbers(self) -> None:
        plan = make_plan(100_000, 1, jobs=1, cpus=2, address=None)
        with pytest.raises(
            ResourceError, match=r"100001 actors .*, but only 8\.0 GB are available"
        ) as raised:
            plan.check_memory(8000.0)
        assert raised.value.exit_code == 4
        plan.check_memory(plan.megabytes)

    @given(
        agents=st.integers(1, 2000),
        per_actor=st.one_of(st.just("auto"), st.integers(1, 50)),
        jobs=st.integers(1, 20),
        cpus=st.floats(0, 64),
    )
    def test_what_hosts_ask_for_is_there(
        self, agents: int, per_actor: int, jobs: int, cpus: float
    ) -> None:
        plan = make_plan(agents, per_actor, jobs, cpus, None)
        assert 1 <= plan.hosts <= agents
        assert 1 <= plan.parallel <= jobs
        asked = plan.parallel * plan.hosts * plan.cpus_per_host
        assert asked <= max(cpus, plan.parallel * plan.hosts * 1e-4) * (1 + 1e-12)
