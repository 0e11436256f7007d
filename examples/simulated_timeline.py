"""A program on a simulated GPU, recorded as a profiler would: it waits after each kernel, or its kernels are tiny. With --fix, neither.

    python examples/simulated_timeline.py syncs --trace syncs.json && hotlap trace syncs.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hotlap.core import work
from hotlap.core.measure import targets
from hotlap.core.measure.targets import simulated
from hotlap.core.measure.targets.simulated_timeline import SimulatedProgram
from hotlap.core.record import Case, Value

STEPS, LAYERS, POINTWISE = 20, 24, 8  # the last: pointwise operations after each product


def case(workload: str, **params: Value) -> Case:
    """A case with its defaults."""
    return Case(workload=workload, params=work.find(workload).parse(params))


PRODUCT = case("gemm", dtype="bf16", m=2048, n=2048, k=2048)
TINY = case("stream", op="scale", dtype="fp32", size=2**18)  # a launch is longer than it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fault", choices=("syncs", "tiny-kernels"), help="what is wrong with the program")
    parser.add_argument("--fix", action="store_true", help="one wait a step, one kernel for each chain of pointwise operations")
    parser.add_argument("--trace", metavar="OUT", required=True, help="the trace to write")
    parser.add_argument("--target", default="simulated:h200-sxm", help="any GPU of the machine table, with its options")
    args = parser.parse_args()
    spec = targets.parse(args.target)
    target = simulated.open(simulated.find(spec.part, spec.options)[0], spec.options)
    program = SimulatedProgram(target)
    chain = 0 if args.fault == "syncs" else 1 if args.fix else POINTWISE
    for _ in range(STEPS):
        with program.step():
            for _ in range(LAYERS):
                program.launch("aten::mm", "gemm_bf16_tensorop", PRODUCT)
                for _ in range(chain):
                    program.launch("aten::mul", "vectorized_elementwise_kernel", TINY)
                if args.fault == "syncs" and not args.fix:
                    program.synchronise("aten::item")
            program.synchronise("aten::item")
    program.write(Path(args.trace))
    print(f"mean step {1e3 * (program.host_s - program.began_s) / STEPS:.4f} ms")


if __name__ == "__main__":
    main()
