#!/usr/bin/env bash
# Makes .venv at the root and installs Hotlap into it with the extras named, under constraints.txt.
#
#   scripts/setup.sh [EXTRA…]     always: opencl and system; cuda too where libcuda is found
#
# Fast when there is nothing to do: .venv/hotlap-setup records what was installed, and from which pyproject.toml,
# constraints.txt and Python. PYTHON names another interpreter. The log of pip is in .venv/setup.log.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/hotlap-setup
log=$venv/setup.log

fail() { # what is wrong, what to do
    printf 'setup: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '       %s\n' "$2" >&2
    exit 3
}

say() { printf 'setup: %s\n' "$*" >&2; }

need_linker() {
    # PoCL links each kernel with ld and aborts the whole process where there is none, so this is asked first.
    command -v ld >/dev/null 2>&1 || fail "ld is missing: PoCL, the OpenCL driver for CPUs, links its kernels with it" "apt install binutils"
}

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local name
    if [ -n "${PYTHON:-}" ]; then
        is_recent "$PYTHON" || fail "PYTHON=$PYTHON is not a Python of at least 3.11" "name another, or leave PYTHON out"
        printf '%s\n' "$PYTHON"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null 2>&1 && is_recent "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    fail "no Python of at least 3.11 was found (looked for python3, python3.13, python3.12, python3.11)" "apt install python3 python3-venv"
}

need_venv() {
    # Debian splits ensurepip off: `python3 -m venv` is there without it, and fails halfway.
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1 || fail "$1 cannot make virtual environments" "apt install python3-venv"
}

wanted_extras() { # one per line, sorted, each once
    local libraries
    libraries=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null || true) # it is in /sbin, which is not on every user's path
    {
        printf '%s\n' opencl system "$@"
        if [[ $libraries == *libcuda.so.1* ]] || [ -e /usr/lib/wsl/lib/libcuda.so.1 ]; then echo cuda; fi
    } | tr ', ' '\n\n' | sed '/^$/d' | LC_ALL=C sort -u
}

check_extras() {
    local valid extra
    valid=$(sed -n '/^\[project.optional-dependencies\]/,/^\[project.scripts\]/s/^\([a-z]*\) = .*/\1/p' pyproject.toml)
    for extra in "$@"; do
        grep -qx -- "$extra" <<<"$valid" || # from no pipe: its writer may be ended by grep's leaving early, which counts as a failure
            { printf 'setup: there is no extra %s; valid: %s\n' "'$extra'" "$(echo $valid | sed 's/ /, /g')" >&2; exit 2; }
    done
}

make_venv() {
    [ -x $venv/bin/python ] && $venv/bin/python -c 'import pip' >/dev/null 2>&1 && return
    say "making $venv with $("$1" -V)"
    rm -rf $venv
    "$1" -m venv $venv || fail "$1 -m venv $venv failed; its message is above" "apt install python3-venv"
}

install() { # the extras, comma separated
    say "installing Hotlap with $1 (log: $log)"
    if ! $venv/bin/python -m pip install --disable-pip-version-check --progress-bar off \
        --constraint constraints.txt --editable ".[$1]" >$log 2>&1; then
        grep -v -E '^WARNING: Location|is ignored: it is' $log | tail -n 12 >&2
        fail "pip could not install Hotlap; the end of its log is above" "all of it: $log; without a network, see PIP_INDEX_URL and PIP_FIND_LINKS"
    fi
}

main() {
    need_linker
    local sources wanted installed=""
    wanted=$(wanted_extras "$@")
    check_extras $wanted
    sources=$(cat pyproject.toml constraints.txt | cksum)
    if [ -x $venv/bin/hotlap ] && [ -f $stamp ] && [ "$(sed -n 1p $stamp)" = "$sources" ]; then
        installed=$(sed 1d $stamp)
        if [ -z "$(printf '%s\n' "$wanted" | grep -vxF -- "$installed")" ] && $venv/bin/python -c 'import hotlap' 2>/dev/null; then return; fi
    fi
    # pip would turn the environment of another checkout to this one.
    [ ! -L $venv ] || fail "$venv is a link to $(readlink -f $venv): installing would change that environment" "rm $venv, then give the command again"
    local python
    python=$(find_python)
    need_venv "$python"
    make_venv "$python"
    # What was there stays: `make test` after `make run WITH=torch` keeps torch.
    wanted=$(printf '%s\n%s\n' "$wanted" "$installed" | sed '/^$/d' | LC_ALL=C sort -u)
    install "$(printf '%s' "$wanted" | tr '\n' ',')"
    printf '%s\n%s\n' "$sources" "$wanted" >$stamp
}

main "$@"
