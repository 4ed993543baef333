#!/usr/bin/env bash
# Whether the disk has room for a build with all tests: a linker that finds none only says that it
# failed. Counts what an earlier build takes already.
set -euo pipefail

# GiB of a target folder after `make test`, and room for what the tests write.
need=20

target=${CARGO_TARGET_DIR:-${ONEFOLD_CACHE:-$HOME/.cache/onefold}/target}
mkdir -p "$target"
free=$(df -Pk "$target" | awk 'NR == 2 { print int($4 / 1024 / 1024) }')
have=$(du -sk "$target" | awk '{ print int($1 / 1024 / 1024) }')
if [ $((free + have)) -lt "$need" ]; then
    echo "the tests need about $need GiB for their builds in $target, and the disk has $free GiB free" >&2
    echo "besides the $have GiB there: make room, or set CARGO_TARGET_DIR to a folder on another disk" >&2
    exit 1
fi
