#!/usr/bin/env bash
# What can only be seen on a machine with a GPU. Each part ends within 9 minutes; `all` is a shortened set of them, also within 9.
#
#   scripts/gpu_check.sh [all|conform|measure|model|burn]
#
#   conform   the conformance suite and every workload on every target that is found; the same kernel by events, wall clock and graph replay
#   measure   the plan quick on cuda and torch:cuda; the plan kernels, each of its 200 cases checked, on torch:cuda
#   model     the kernels of Llama 3 8B and 70B, each measured number against its limit; nothing may beat its bound; where work on them pays.
#             PyTorch's kernels, power and clock beside the model
#   burn      'hotlap stress' for five minutes with its verdict, every sensor for twenty seconds, and the facts of the node audited
#
# Logs, summary.txt and the packed runs land in $OUT (default: out), at most 8 files, and all of them in one zip, gpu-check-PART.zip. PYTHON names the Python (default: python3); Hotlap is
# taken from src/, and needs NumPy and msgspec; cuda-bindings, nvidia-cuda-nvrtc, nvidia-ml-py, torch and pytest for the parts they carry.
# TARGET (default: cuda) and TORCH (default: torch:cuda) name other targets, so that the script can be tried without a GPU:
# TARGET='simulated:h200-sxm?noise=0.01' TORCH=torch:cpu scripts/gpu_check.sh model
# SLOWER=5 gives each step five times its time, and BURN names a lighter plan than scripts/burn.toml, for a machine that is slow.
# What could not be done is named with its reason. Exit 1 if a step failed, 3 if nothing could be run.
set -uo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
TARGET=${TARGET:-cuda}
TORCH=${TORCH:-torch:cuda}
OUT=${OUT:-out}
SLOWER=${SLOWER:-1}
BURN=${BURN:-scripts/burn.toml}
case $PYTHON in /*) ;; */*) PYTHON=$PWD/$PYTHON ;; esac
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
export HOTLAP_HOME=$OUT/home PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 NO_COLOR=1 COLUMNS=120
summary=()
failures=0
ran=0
part=${1:-all}

note() { # name, verdict
    summary+=("$(printf '%-34s %s' "$1" "$2")")
    printf -- '-- %s: %s\n' "$1" "$2"
}

step() { # name, seconds at most, command …
    local name=$1 limit=$(($2 * SLOWER)) began=$SECONDS code=0
    shift 2
    printf '\n== %s\n$ %s\n' "$name" "$*"
    timeout --kill-after=10 --signal=INT "$limit" "$@" || code=$?
    ran=$((ran + 1))
    if [ $code -eq 0 ]; then
        note "$name" "ok, $((SECONDS - began)) s"
        return 0
    fi
    failures=$((failures + 1))
    [ $code -eq 124 ] && note "$name" "FAILED: not done within $limit s" || note "$name" "FAILED: exit $code after $((SECONDS - began)) s"
    return 1
}

without() { # name, reason
    note "$1" "not run, because $2"
}

has() { "$PYTHON" -c "import $1" >/dev/null 2>&1; }

hotlap() { "$PYTHON" -m hotlap "$@"; }

usable() { # name of the step, target. Says why not, and counts as failed what is not a plain answer
    local said code=0
    said=$(hotlap devices --target "$2" 2>&1 >/dev/null) || code=$?
    [ $code -eq 0 ] && return 0
    if [ $code -eq 3 ]; then
        without "$1" "$(printf '%s\n' "$said" | sed 's/^hotlap: //' | tail -n 1)"
    else
        printf '%s\n' "$said"
        failures=$((failures + 1))
        note "$1" "FAILED: hotlap devices --target $2: exit $code: $(printf '%s\n' "$said" | tail -n 1)"
    fi
    return 1
}

measure_plan() { # name, seconds, plan, target, further options …
    local name=$1 limit=$2 plan=$3 target=$4
    shift 4
    usable "$name" "$target" || return 0
    step "$name" "$limit" "$PYTHON" -m hotlap run "$plan" --target "$target" --label "part=$part" --label "step=${name// /-}" --no-report "$@"
}

conform() { # seconds
    if has pytest; then
        step "conformance of the targets" "$1" "$PYTHON" -m pytest -p no:cacheprovider --tb=short -rfE tests/core/targets tests/core/workloads/test_workloads.py
    else
        without "conformance of the targets" "pytest is missing ($PYTHON -m pip install pytest)"
    fi
}

agreement() { # seconds: events, wall clock and graph replay over the same kernel
    usable "agreement of timers" "$TARGET" || return 0
    step "agreement of timers" "$1" "$PYTHON" benchmarks/agreement.py --target "$TARGET"
}

measured() { # are there runs to compare with limits?
    [ -n "$(ls -A "$HOTLAP_HOME/runs" 2>/dev/null)" ]
}

limits() {
    if ! measured; then
        without "numbers against limits" "no run was kept"
        return 0
    fi
    step "numbers against limits" 20 "$PYTHON" scripts/gpu_summary.py limits
    step "explain" 20 "$PYTHON" -m hotlap explain "part=$part"
    step "report" 30 "$PYTHON" -m hotlap report "part=$part" --out "$OUT/report.html"
}

burn() { # seconds of load, further options …
    local seconds=$1
    shift
    measure_plan "burn" $((seconds + 60)) "$BURN" "$TORCH" --budget "$seconds s" "$@"
    if measured; then
        step "clock, power, temperature" 20 "$PYTHON" scripts/gpu_summary.py readings
    else
        without "clock, power, temperature" "no run was kept"
    fi
}

part_conform() {
    conform 360
    agreement 120
}

part_measure() {
    measure_plan "quick on ${TARGET%%:*}" 100 quick "$TARGET" --round-time '6 s'
    measure_plan "quick on ${TORCH%%:*}" 100 quick "$TORCH" --round-time '6 s'
    measure_plan "kernels on ${TORCH%%:*}" 320 kernels "$TORCH"
}

llama() { # seconds: the kernels of a served step of Llama 3, two sizes, two types, and what they leave
    local plan=$OUT/llama.toml
    step "plan from Llama 3" 20 "$PYTHON" -m hotlap plan from llama-3-8b llama-3-70b --phase prefill,decode --batch 1,64 --context 2k \
        --dtype bf16,fp8 --top 99% --out "$plan" || return 0
    measure_plan "Llama 3 on ${TORCH%%:*}" "$1" "$plan" "$TORCH" --rounds 6 --round-time '18 s' --budget "$(($1 - 30)) s"
    measured && step "opportunities" 30 "$PYTHON" -m hotlap kernel opportunities latest --out "$OUT/opportunities.html"
}

beside() { # name, seconds, what, further options …: PyTorch's own kernels beside the model
    local name=$1 limit=$2 what=$3
    shift 3
    if ! has torch; then
        without "$name" "PyTorch is missing ($PYTHON -m pip install torch)"
    elif [ "${TORCH#*:}" != cpu ] && ! "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; then
        without "$name" "PyTorch sees no GPU"
    elif [ "$what" = power ] && { [ "${TORCH#*:}" = cpu ] || ! has pynvml; }; then
        without "$name" "NVML is missing ($PYTHON -m pip install nvidia-ml-py), or there is no GPU"
    else
        step "$name" "$limit" "$PYTHON" scripts/kernels_on_gpu.py "$what" --device "${TORCH#*:}" --out "$OUT/$what.jsonl" "$@"
    fi
}

part_model() { # at worst 90 + 230 + 70 + 110 + 40 s
    measure_plan "quick on ${TARGET%%:*}" 90 quick "$TARGET" --round-time '5 s'
    llama 180
    limits
    beside "kernels beside the model" 110 kernels --budget 80
    beside "power and clock beside the model" 40 power
}

part_burn() { # at worst 420 + 40 + 60 s; a verdict that fails is a failed step, its reason stands in the log
    usable "stress on ${TORCH%%:*}" "$TORCH" || return 0
    step "stress on ${TORCH%%:*}" 420 "$PYTHON" -m hotlap stress burn-in --for '300 s' --target "$TORCH" --label part=burn --out "$OUT/stress.html"
    step "sensors for 20 s" 40 "$PYTHON" -m hotlap node watch --for '20 s' --every '100 ms' --target "$TORCH" --to "file:$OUT/watch.jsonl"
    step "audit" 60 "$PYTHON" -m hotlap node audit
}

part_all() { # at worst 120 + 30 + 2 · 90 + 70 + 90 + 20 s
    conform 120
    agreement 30
    measure_plan "quick on ${TARGET%%:*}" 90 quick "$TARGET" --round-time '5 s'
    measure_plan "quick on ${TORCH%%:*}" 90 quick "$TORCH" --round-time '5 s'
    limits
    burn 30 --round-time '10 s'
}

pack() { # a zip for each run, which every command takes in place of the run; the folder stays where that fails
    measured || return 0
    if "$PYTHON" scripts/gpu_summary.py pack "$OUT"; then
        note "runs" "packed: $(cd "$OUT" && echo *.zip)"
        rm -rf "$HOTLAP_HOME"
    else
        failures=$((failures + 1))
        note "runs" "FAILED: not packed; they are in $HOTLAP_HOME"
    fi
}

finish() {
    pack
    printf '%s\n' "${summary[@]}" >"$OUT/summary.txt"
    printf '\n== summary of %s\n' "$part"
    cat "$OUT/summary.txt"
}

main() {
    case $part in all | conform | measure | model | burn) ;; *)
        echo "gpu_check: there is no part '$part'; valid: all, conform, measure, model, burn" >&2
        exit 2
        ;;
    esac
    local missing
    for missing in numpy msgspec; do
        has $missing || { echo "gpu_check: $PYTHON has no $missing ($PYTHON -m pip install $missing)" >&2; exit 3; }
    done
    hotlap devices || true
    "part_$part"
    finish
    [ $ran -gt 0 ] || exit 3
    [ $failures -eq 0 ] || exit 1
}

one_zip() { # of all that lies in $OUT, but for zips of this kind
    cd "$OUT" || return
    rm -f gpu-check-*.zip
    "$PYTHON" -m zipfile -c "gpu-check-$part.zip" * && echo "all of it in one file: $OUT/gpu-check-$part.zip"
}

main 2>&1 | tee "$OUT/$part.log"
code=${PIPESTATUS[0]}
[ "$code" -eq 2 ] || [ ! -f "$OUT/summary.txt" ] || one_zip
exit "$code"
