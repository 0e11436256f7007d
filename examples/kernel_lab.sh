#!/usr/bin/env bash
# The whole journey of docs/kernel-lab.md on a machine without a GPU: what a network runs, what a plan of it leaves out, measured on a
# simulated GPU and on the processor, where work pays, a kernel of one's own beside the library's, and a regression down to its commit.
#
#   examples/kernel_lab.sh [FOLDER]     needs PyTorch and OpenCL on the CPU: pip install 'hotlap[torch,opencl]'
#
# Plans, pages and runs stay in FOLDER (default: a new temporary one). ROUNDS=1 is quicker and less sure: an interval takes 6.
set -euo pipefail
examples=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
export HOTLAP_HOME=$PWD/home
few="--rounds ${ROUNDS:-6} --round-time 0.5s --no-report"
short="--phase forward --context 32" # of a sentence encoder that is small enough for two cores
gpu='simulated:h200-sxm?noise=0.003'

step() { # one command, shown on standard error before it runs
    printf '\n$ %s\n' "$*" >&2
    "$@"
}

# 1. What does the network run? The kernels that make 80 % of a step, each with its calls and its weight.
step hotlap plan from minilm-l6 $short --batch 1 --top 80% --out sentences.toml

# 2. What does that leave out? Other batches, edges of tiles, whole regions of the roofline; and the cases that close it, each of at most 4 MiB.
step hotlap kernel coverage sentences.toml --networks minilm-l6 $short --batch 1,4 --strength 1 --memory 4MiB --complete --out more.toml

# 3. The plan on a GPU that is only simulated: the same cases, no GPU needed.
step hotlap run sentences.toml --target "$gpu&seed=1" --label side=simulation $few

# 4. The same plan on silicon: the processor here, torch:cuda:0 where there is a GPU. Of what was missing a round tells whether it is right.
step hotlap run sentences.toml --target torch:cpu --label side=silicon $few
step hotlap run more.toml --target torch:cpu --label part=completion --rounds 1 --round-time 1s --no-report

# 5. How far is the simulation from the silicon, by regime? (This one simulates a GPU, so on a processor it is far.)
step hotlap model correlate side=simulation side=silicon --out scatter.html

# 6. Where does work pay? A simulated GPU whose row kernels take three times as long as they should stands in for a real one. The
#    network as it is served: of kernels of 3 µs little can be said. Six rounds, since without intervals nothing is sure.
step hotlap plan from minilm-l6 --phase forward --batch 256 --context 128 --top 95% --out serving.toml
step hotlap run serving.toml --target "$gpu&seed=3&slow_kernel=2.0@rowwise" --label side=planted --rounds 6 --round-time 0.5s --no-report
step hotlap kernel opportunities side=planted --out opportunities.html

# 7. Kernels of one's own: kept, checked, and measured beside the library's on the same cases.
step hotlap kernel add "$examples/kernels/softmax_rows.cl"
step hotlap kernel add "$examples/kernels/softmax_steps.py"
step hotlap kernel check softmax-rows rows=512 columns=256
step hotlap kernel plan softmax-rows rows=512 columns=256 >rows.toml
step hotlap kernel plan softmax-steps rows=512 columns=256 --beside >steps.toml
step hotlap run rows.toml --target opencl:cpu --label stage=mine $few
step hotlap run steps.toml --target torch:cpu --label stage=mine $few
step hotlap compare stage=mine --by implementation

# 8. Months later a commit makes a kernel slower: its life shows the change, and the search names the commit. (A repository is made for it.)
mkdir -p life
step python3 "$examples/kernel_life.py" --commits "${COMMITS:-9}" --every "${EVERY:-4}" --folder life
