#!/usr/bin/env bash
# What building needs: Rust (which the user brings), C and C++ compilers with the C library's headers
# (librdkafka and others), OpenSSL's headers (librdkafka's encryption), and protoc for the messages
# of Spark Connect.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is not in PATH: install Rust first" >&2
    exit 1
fi

need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
have=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$need" "$have" | sort -V | head -n1)" != "$need" ]; then
    echo "Rust $have is too old, Onefold needs $need: run 'rustup update stable'" >&2
    exit 1
fi

scripts/need.sh \
    "gcc=command -v cc" \
    "g++=command -v c++" \
    "make=command -v make" \
    "pkg-config=command -v pkg-config" \
    "libssl-dev=pkg-config --exists openssl" \
    "protobuf-compiler=command -v protoc" \
    "libprotobuf-dev=cd \$(mktemp -d) && echo 'import \"google/protobuf/any.proto\";' >a.proto && protoc -o a.out a.proto" \
    "libc6-dev=echo '#include <stdlib.h>' | cc -E -x c -" \
    "ca-certificates=test -s /etc/ssl/certs/ca-certificates.crt"
