#!/usr/bin/env bash
# A MariaDB server on loopback, for tests: Debian's package, data in a temporary folder, nobody else's
# server touched.
#
#   scripts/mariadb.sh serve [SETTING=VALUE …]
#
# tells {"port": N, "user": "onefold", "password": "…"} and then reads commands, a line each, until its
# input ends; then the server ends too and its folder goes. Each command is answered with a line.
#   kill    the server is killed, as in a power cut
#   start   it starts again, on the same port
# With DATABASE_TLS=yes it takes only sessions that are encrypted; what tells the port names the folder of
# ca.pem, the authority of its certificate, in "tls".
set -euo pipefail

[ "${1:-}" = serve ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift

here=$(cd "$(dirname "$0")" && pwd)
server=$(command -v mariadbd || echo /usr/sbin/mariadbd)
if [ ! -x "$server" ] || ! command -v mariadb-install-db >/dev/null; then
    echo "MariaDB is missing: apt-get install mariadb-server" >&2
    exit 1
fi
unset LD_LIBRARY_PATH

folder=$(mktemp -d "${TMPDIR:-/tmp}/onefold-mariadb.XXXXXX")
pid=
who=$(id -un)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
settings=()
for setting in "$@"; do settings+=("--$setting"); done
tls=
if [ -n "${DATABASE_TLS:-}" ]; then
    tls=$folder/tls
    mkdir "$tls"
    "$here/certify.sh" "$tls"
    settings+=("--ssl-cert=$tls/server.pem" "--ssl-key=$tls/server.key" --require-secure-transport=ON)
fi
# Tests kill the server, never the machine: what it wrote is there without syncs, which a busy disk
# holds up for longer than clients wait.
start() {
    "$server" --no-defaults --user="$who" --datadir="$folder/data" --socket="$folder/socket" \
        --pid-file="$folder/pid" --bind-address=127.0.0.1 --port="$port" --skip-name-resolve \
        --innodb-buffer-pool-size=64M --innodb-flush-method=nosync "${settings[@]}" >>"$folder/log" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 600); do
        mariadb-admin --no-defaults --socket="$folder/socket" --user="$who" ping >/dev/null 2>&1 && return 0
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}
stop() {
    if [ -n "$pid" ]; then
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    pid=
}
finish() {
    stop
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

mariadb-install-db --no-defaults --user="$who" --datadir="$folder/data" \
    --auth-root-authentication-method=socket --auth-root-socket-user="$who" --skip-test-db \
    >"$folder/init" 2>&1 || { cat "$folder/init" >&2; exit 1; }
start || { cat "$folder/log" >&2; exit 1; }
password=onefold-secret
mariadb --no-defaults --socket="$folder/socket" --user="$who" -e "
    CREATE DATABASE onefold CHARACTER SET utf8mb4;
    CREATE USER onefold@'127.0.0.1' IDENTIFIED BY '$password';
    GRANT ALL ON *.* TO onefold@'127.0.0.1'" >&2
echo "{\"port\": $port, \"user\": \"onefold\", \"password\": \"$password\", \"tls\": \"$tls\"}"

while read -r command; do
    case $command in
        kill) stop; echo done ;;
        start) start && echo done || { cat "$folder/log" >&2; echo failed; } ;;
        *) echo "unknown" ;;
    esac
done
