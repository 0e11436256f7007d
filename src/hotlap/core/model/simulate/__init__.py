"""A GPU of the machine table, simulated: `calls` gives quick times of any case, the rest simulates kernels tile by tile.

    tasks     what a kernel is made of: tiles, their demands per step, what they read, what a block occupies
    gemm, attention, stream     builders: a case → a Kernel (or the candidates that a library would have)
    cache     L2 as least-recently-used blocks of operands
    engine    events: blocks on slots of units, pipes, L2 and memory shared between what runs
    energy, thermal     activity → watts; watts → clock under the cap and temperature
    launch    the queue between host and device: streams, graphs, dependent launches
    counters  what comes out
    card      all of it together: `simulate(kernel or candidates, chip)`
    hold      over minutes, as the card warms; and several kernels in a queue

    chip = chip_of(machines.load("h200-sxm"))
    counters = card.simulate(gemm.candidates(gemm.Problem(8192, 8192, 8192), chip), chip)
"""

from hotlap.core.model.simulate.calls import LAUNCH_S, expected_call_s
from hotlap.core.model.simulate.card import simulate
from hotlap.core.model.simulate.chip import chip_of
from hotlap.core.model.simulate.counters import Counters
from hotlap.core.model.simulate.hold import hold, sequence
from hotlap.core.model.simulate.tasks import SimulatedKernel

__all__ = ["LAUNCH_S", "Counters", "SimulatedKernel", "chip_of", "expected_call_s", "hold", "sequence", "simulate"]
