"""Processes of simulated devices without the half second of CPU time that starting Python and importing everything takes.

A session starts `python -m hotlap.core.measure.worker` for each round, a soak `hotlap.stress.stressor` for each device. Where the target is
simulated, that process is forked here from the test's own, which has imported everything, and calls the same `main`: it has its own pipes,
process group and end as ever. Targets with a driver, which does not survive a fork, and commands that a test starts get the real thing.
"""

from __future__ import annotations

import functools
import importlib
import os
import resource
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

_simulated = threading.local()


class Forking:
    """Stands in for the module `subprocess`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, argv: list[str], *, env: dict[str, str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: N802 - the name it has there
        if not getattr(_simulated, "now", False):
            return subprocess.Popen(argv, env=env, **options)
        assert argv[:3] == [sys.executable, "-P", "-m"]
        # preexec_fn runs in the new process, its pipes and session in place; this one never comes to exec.
        return subprocess.Popen(argv, preexec_fn=functools.partial(_become, importlib.import_module(argv[3]), env), **options)


def _become(module: Any, environment: dict[str, str]) -> None:
    code = 1
    try:
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # locks and catalogs of the test, and the pipe by which Popen waits for exec
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - pytest's own are the test's
        code = module.main()
    except BaseException as error:
        traceback.print_exc()
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def _noting(start: Callable[..., Any], target: Callable[..., str]) -> Callable[..., Any]:
    @functools.wraps(start)
    def noted(*args: Any, **options: Any) -> Any:
        _simulated.now = target(*args, **options).startswith("simulated")
        try:
            return start(*args, **options)
        finally:
            _simulated.now = False

    return noted


def install(patch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "fork"):
        return
    from hotlap.core.measure import supervisor

    patch.setattr(supervisor, "subprocess", Forking())
    patch.setattr(supervisor.Process, "__init__", _noting(supervisor.Process.__init__, lambda self, module, job, *_, **__: getattr(job, "spec", "")))
