#!/usr/bin/env bash
# Prints a folder with a ready-made librocksdb.so for builds that are to be tested: the library that
# PySpark of the tests' Python brings for Java, which has the C interface too. Compiling RocksDB
# takes half an hour of processor time; what is shipped is compiled (without ROCKSDB_LIB_DIR).
#
# The folder is in cargo's target folder. What is built so needs it at run time: the command knows
# where it is, tests are told by LD_LIBRARY_PATH (`cargo xtask` sets it).
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$(scripts/venv.sh)
target=${CARGO_TARGET_DIR:-$PWD/target}
jar=("$venv"/lib/python3*/site-packages/pyspark/jars/rocksdbjni-*.jar)
folder=$target/$(basename "${jar[0]}" .jar)
inside=librocksdbjni-linux64.so
[ "$(uname -m)" != aarch64 ] || inside=librocksdbjni-linux-aarch64.so

if [ ! -e "$folder/complete" ]; then
    mkdir -p "$folder"
    "$venv/bin/python" -m zipfile -e "${jar[0]}" "$folder/jar"
    mv -- "$folder/jar/$inside" "$folder/librocksdb.so"
    rm -rf -- "$folder/jar"
    touch "$folder/complete"
fi
echo "$folder"
