#!/usr/bin/env bash
# Makes the tests' Python if it is not there, and prints its folder. One folder for each content
# of requirements.txt and each Python, outside the clone, so that every clone finds it ready.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=tests/e2e/requirements.txt
cache=${ONEFOLD_CACHE:-$HOME/.cache/onefold}
key=$({ cat "$requirements"; python3 --version; } | sha256sum | cut -c1-12)
venv=$cache/venv-$key

if [ ! -e "$venv/complete" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/venv.lock"
    flock 9 # two clones may get here at once
fi
if [ ! -e "$venv/complete" ]; then
    scripts/need.sh "python3-venv=python3 -c 'import ensurepip, venv'"
    echo "making the tests' Python in $venv (PySpark is large: a minute or two)" >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --requirement "$requirements" >&2
    touch "$venv/complete"
fi
echo "$venv"
