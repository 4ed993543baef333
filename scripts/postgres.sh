#!/usr/bin/env bash
# A PostgreSQL server on loopback, for tests: Debian's package, data in a temporary folder, nobody
# else's server touched. It never runs as root, which PostgreSQL refuses.
#
#   scripts/postgres.sh spark-jars               prints the folder of the jar that Spark needs
#   scripts/postgres.sh serve [SETTING=VALUE …]
#
# tells {"port": N, "user": "onefold"} and then reads commands, a line each, until its input ends; then
# the server ends too and its folder goes. Each command is answered with a line.
#   kill    the server stops at once, as in a power cut (pg_ctl stop -m immediate)
#   stop    the server stops and ends its sessions (pg_ctl stop -m fast)
#   start   it starts again, on the same port
# With DATABASE_TLS=yes it takes only sessions that are encrypted; what tells the port names the folder of
# ca.pem, the authority of its certificate, in "tls".
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = spark-jars ]; then
    exec "$here/jars.sh" "$here/postgres/spark" postgres-spark -DexcludeTransitive=true
fi
[ "${1:-}" = serve ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
[ -n "$bin" ] || bin=$(dirname "$(command -v pg_ctl || true)")
if [ ! -x "$bin/pg_ctl" ]; then
    echo "PostgreSQL is missing: apt-get install postgresql" >&2
    exit 1
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/onefold-postgres.XXXXXX")
as=()
if [ "$(id -u)" = 0 ]; then
    chown postgres: "$folder"
    as=(setpriv --reuid=postgres --regid=postgres --init-groups)
fi
cd "$folder"
run() { "${as[@]}" env -u LD_LIBRARY_PATH "$bin/$1" "${@:2}"; }
start() { run pg_ctl -D "$folder/data" -w -t 60 -l "$folder/log" start >/dev/null; }
stop() { run pg_ctl -D "$folder/data" -w -t 60 -m "$1" stop >/dev/null 2>&1 || true; }
finish() {
    stop immediate
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

run initdb -D "$folder/data" -U onefold --auth=trust --encoding=UTF8 --locale=C >"$folder/init" 2>&1 ||
    { cat "$folder/init" >&2; exit 1; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
{
    echo "listen_addresses = '127.0.0.1'"
    echo "port = $port"
    echo "unix_socket_directories = ''"
    echo "max_connections = 200"
    for setting in "$@"; do echo "${setting%%=*} = '${setting#*=}'"; done
} >>"$folder/data/postgresql.conf"
tls=
if [ -n "${DATABASE_TLS:-}" ]; then
    tls=$folder/tls
    mkdir "$tls"
    "$here/certify.sh" "$tls"
    [ "$(id -u)" != 0 ] || chown -R postgres: "$tls"
    printf "ssl = on\nssl_cert_file = '%s'\nssl_key_file = '%s'\n" "$tls/server.pem" "$tls/server.key" \
        >>"$folder/data/postgresql.conf"
    sed -i 's/^host /hostssl /' "$folder/data/pg_hba.conf"
fi
start || { cat "$folder/log" >&2; exit 1; }
echo "{\"port\": $port, \"user\": \"onefold\", \"tls\": \"$tls\"}"

while read -r command; do
    case $command in
        kill) stop immediate; echo done ;;
        stop) stop fast; echo done ;;
        start) start && echo done || { cat "$folder/log" >&2; echo failed; } ;;
        *) echo "unknown" ;;
    esac
done
