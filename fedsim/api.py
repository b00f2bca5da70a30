"""What ``import fedsim`` offers: runs, and what is made of them, in Python.

The command line does the same with the same parts. Here a run shows its progress in a terminal and
in a notebook, errors show the user's own traceback, and all paths in results are absolute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim import runner
from fedsim.config.experiment import Experiment, prepare
from fedsim.errors import KEPT, ConfigError, FedsimError, UserCodeError
from fedsim.files import user_path
from fedsim.running.jobs import Listener
from fedsim.streams import streams_kept
from fedsim.usercode.importing import imports_kept, refuse_while_importing

if TYPE_CHECKING:  # these take long to import
    from fedsim.results.analysis import Run
    from fedsim.results.best import BestPoint
    from fedsim.results.listing import RunSummary
    from fedsim.space import Value
    from fedsim.workload import Evaluation


def run(
    config: str | Path | Mapping[str, Any] | Experiment | None = None,
    *,
    scenario: object = None,
    method: object = None,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    out: str | Path | None = None,
    jobs: int | str = "auto",
    progress: bool | None = None,
    listener: Listener | None = None,
) -> Run:
    """Run a simulation and return the finished run.

    A configuration is a mapping of these keys; `fedsim list` shows the names, and
    docs/configuration.md all settings::

        fedsim.run({
            "scenario": {"name": "synthetic", "agents": 20},  # a name, "module:Class" or a class
            "method": {"name": "dp-fts-de", "subregions": 2},  # or only "dp-fts-de"
            "rounds": 40,                 # queries per agent after the initial design
            "seeds": "0-4",               # or a number, or a list
            "backend": "auto",            # or "serial", "ray"
            "variants": {"P = 1": {"method": "dp-fts"}},       # overrides by label, compared
            "grid": {"method.dp.noise_multiplier": [1, 2]},    # crossed; "zip": side by side
            "privacy": {"budget": 4.0},
        })

    Args:
        config: a file, the name of a ready configuration, a mapping, or None for the default. The
            modules that it names are looked for beside the file, then in the current folder.
        scenario: a name, a mapping with a ``name`` and settings, a class, or an object with the
            attributes of :class:`fedsim.workload.Scenario`. It takes the place of a file's or a
            ready configuration's; in a mapping, there may be settings for it, but no other name.
        method: the same, except for an object: every run builds its own.
        overrides: ``dotted.key=value`` assignments.
        data_dir: the folder of the data sets; by default the environment's ``FEDSIM_DATA``.
        out: the run folder, which must not exist; by default ``runs/NAME-NUMBER``.
        jobs: how many seeds and variants run at a time, each in a process of its own; 1: all in
            this process, one after another; ``auto``: one per CPU, where that saves time.
        progress: whether to show the progress; by default in a terminal and in a notebook.
        listener: follows the run, in place of the display.

    Raises:
        FedsimError: for any failure; the message says what failed, ``exit_code`` of what kind it
            is, and ``folder`` is the run folder, if there is one.
    """
    __tracebackhide__ = True  # in IPython
    try:
        refuse_while_importing()
        with imports_kept(), _followed(progress, listener) as follower:
            if not isinstance(config, Experiment):
                config = prepare(config, overrides, data_dir, scenario=scenario, method=method)
            return load(runner.run(config, out=out, jobs=jobs, listener=follower))
    except FedsimError as error:
        raise _presented(error) from None


def resume(
    folder: str | Path,
    *,
    scenario: object = None,
    method: object = None,
    overrides: Sequence[str] = (),
    jobs: int | str = "auto",
    progress: bool | None = None,
    listener: Listener | None = None,
) -> Run:
    """Resume an unfinished run from its last recorded evaluation.

    Args:
        folder: the run folder.
        scenario: the class or the object that the run was given, if it was given one: it is not
            in the run folder. A class of this script or notebook is found by its name.
        method: the same.
        overrides: ``dotted.key=value`` assignments to its configuration, of what may change:
            ``docs/run-folder.md`` has the list.
        jobs: as in :func:`run`.
        progress: as in :func:`run`.
        listener: as in :func:`run`.

    Raises:
        RunFolderError: if it is not a run folder.
        FedsimError: as in :func:`run`.
    """
    __tracebackhide__ = True
    given = [thing for thing in (scenario, method) if thing is not None]
    try:
        refuse_while_importing()
        with imports_kept(), _followed(progress, listener) as follower:
            path = runner.resume(
                folder, given=given, overrides=overrides, jobs=jobs, listener=follower
            )
            return load(path)
    except FedsimError as error:
        raise _presented(error) from None


def load(folder: str | Path) -> Run:
    """Open a run folder, or the folder of one of its variants or seeds.

    Raises:
        RunFolderError: if it is not a run folder, or two of its folders are the same seed.
    """
    from fedsim.results.analysis import load as load_run

    return load_run(user_path(folder).absolute())


def list_runs(folder: str | Path = "runs") -> list[RunSummary]:
    """Return the runs under a folder, the latest first; those that never started come last.

    Args:
        folder: a folder with run folders, at most three levels down, or one run folder.

    Raises:
        RunFolderError: if it is not a folder.
    """
    from fedsim.results.listing import list_runs as listed

    return listed(user_path(folder).absolute())


def best(
    run: Run | str | Path,
    *,
    agent: int | None = None,
    variant: str | None = None,
    seed: int | None = None,
) -> BestPoint:
    """Return a run's point with the best observed value, in the user's units.

    Args:
        run: a run, or its folder; it may be unfinished.
        agent: only this agent's points; None: all agents'.
        variant: only this variant's; None: all variants'.
        seed: only this seed's; None: all seeds'.

    Raises:
        ConfigError: if there is no such point, some variants maximise and others minimise, or
            this is not one run.
        RunFolderError: if the run has nothing to show.
    """
    from fedsim.results.analysis import opened

    found = opened(run)
    if len(found) > 1:
        raise ConfigError(f"best: expected one run, got {len(found)}")
    return found[0].best(agent=agent, variant=variant, seed=seed)


def evaluate(
    scenario: object,
    point: Mapping[str, Value] | Sequence[Value],
    *,
    agent: int = 0,
    seed: int = 0,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> Evaluation:
    """Call an agent's objective at a point, and return its value.

    Args:
        scenario: a scenario (its name, a mapping, a class or an object), or a configuration.
        point: the parameters' values, by name or in order.
        agent: the agent.
        seed: the run's seed.
        overrides: ``dotted.key=value`` assignments.
        data_dir: the folder of the data sets; by default the environment's ``FEDSIM_DATA``.

    Returns:
        ``y``, the observed value, and ``noiseless``, if the objective returns it.

    Raises:
        ConfigError: if the scenario, the point or the agent is wrong.
        UserCodeError: if the scenario or the objective raises, or the objective misses the
            configuration's ``deadlines.evaluation``.
    """
    __tracebackhide__ = True
    from fedsim.running.evaluating import evaluate_once

    try:
        with imports_kept():
            _, found = evaluate_once(
                scenario, point, agent=agent, seed=seed, overrides=overrides, data_dir=data_dir
            )
            return found
    except FedsimError as error:
        raise _presented(error) from None


@contextmanager
def _followed(progress: bool | None, listener: Listener | None) -> Iterator[Listener]:
    """Yield what follows a run: the caller's listener, or a display where somebody may see it."""
    if listener is not None or progress is False:
        yield Listener() if listener is None else listener
        return
    from fedsim.cli.consoles import make_console
    from fedsim.cli.display import LiveDisplay

    console = make_console(stderr=True)
    if progress is None and not sys.stderr.isatty() and not console.is_jupyter:
        yield Listener()
        return
    with streams_kept(), LiveDisplay(console) as display:
        yield display


def _presented(error: FedsimError) -> FedsimError:
    """Return an error without our frames, and with the user's own."""
    if isinstance(error, UserCodeError) and error.user_traceback:
        error.add_note(f"\n{error.user_traceback.rstrip()}")
    if error.folder is not None:
        error.folder = error.folder.absolute()
        told = str(error)
        known = "fedsim.resume(" in told or "fedsim resume" in told
        if not error.resumable:
            error.add_note(f"\n{KEPT} in {error.folder}")
        elif not known and error.exit_code != ConfigError.exit_code:
            again = f"continue with: fedsim.resume({str(error.folder)!r})"
            error.add_note(f"\n{again}" if KEPT in told else f"\n{KEPT}; {again}")
    return error.with_traceback(None)
