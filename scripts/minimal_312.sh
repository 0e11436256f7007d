#!/usr/bin/env bash
# The measuring arm on Python 3.12 with NumPy and msgspec alone: a simulated run through the public API and the command.
# Exit 77, with the reason, where there is no Python 3.12. PYTHON312 names one.
set -euo pipefail
cd "$(dirname "$0")/.."

is_312() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 12))' >/dev/null 2>&1; }

python=""
for candidate in ${PYTHON312:-} python3.12 /usr/bin/python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python3.12 python3; do
    if command -v "$candidate" >/dev/null 2>&1 && is_312 "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "skipped: no Python 3.12 with venv was found (apt install python3.12-venv, or PYTHON312=…)"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
mkdir "$work/tree" # built elsewhere: a build/ folder in the tree would keep files that are gone
cp -r pyproject.toml LICENSE src "$work/tree"
[ ! -f README.md ] || cp README.md "$work/tree"
if ! "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$work/tree" >"$work/log" 2>&1; then
    grep -v '^WARNING: Location' "$work/log" | tail -n 10 >&2
    exit 3
fi
packages=$("$work/venv/bin/python" -m pip list --disable-pip-version-check --format=freeze | cut -d= -f1 | grep -v -x -E 'pip|setuptools|wheel' | LC_ALL=C sort | tr '\n' ' ')
echo "$("$work/venv/bin/python" -V) with $packages"
[ "$packages" = "hotlap msgspec numpy " ] || { echo "more than NumPy and msgspec was installed" >&2; exit 1; }
cd "$work" # so that the installed package is imported, not the one in the working tree
"$work/venv/bin/python" "$OLDPWD/tests/minimal/simulated.py"
