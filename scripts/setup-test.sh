#!/usr/bin/env bash
# What the tests need beyond a build: rustfmt and clippy, strace (faults of the disk), libclang
# (RocksDB's headers), Java with its compiler (the other engine of the round-trip tests, programs of
# Spark's JVM client, and Kafka), PostgreSQL and MariaDB (servers of
# their own, started by scripts/postgres.sh and scripts/mariadb.sh), the jars of Apache Kafka, and a
# Python with the packages of
# tests/e2e/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/disk.sh

for part in fmt:rustfmt clippy:clippy; do
    if ! cargo "${part%:*}" --version >/dev/null 2>&1; then
        rustup component add "${part#*:}" || {
            echo "cargo ${part%:*} is missing: install the component ${part#*:} of your Rust" >&2
            exit 1
        }
    fi
done

scripts/need.sh \
    "strace=command -v strace" \
    "mount=command -v mount" \
    "util-linux=command -v setpriv" \
    "libclang-dev=ls /usr/lib/llvm-*/lib/libclang-[0-9]*.so*" \
    "postgresql=ls /usr/lib/postgresql/*/bin/pg_ctl" \
    "openssl=command -v openssl" \
    "mariadb-server=test -x /usr/sbin/mariadbd && command -v mariadb-install-db" \
    "default-jdk-headless=java -version && javac -version"

java_version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
if [ "${java_version:-0}" -lt 17 ]; then
    echo "the java in PATH is version ${java_version:-unknown}, the tests need 17 or later:" >&2
    echo "put a newer one first in PATH (Debian: default-jdk-headless)" >&2
    exit 1
fi

scripts/venv.sh >/dev/null
scripts/kafka.sh jars >/dev/null
