#!/usr/bin/env bash
# A real Apache Kafka on loopback, for tests.
#
#   kafka.sh jars                                prints the folder of its jars; fetches them once
#   kafka.sh spark-jars                          the same of those that let Spark speak with Kafka
#   kafka.sh serve FOLDER [NODES] [NAME=VALUE…]  runs a cluster until its standard input ends
#   kafka.sh start FOLDER [NODES] [NAME=VALUE…]  the same in the background
#   kafka.sh stop FOLDER                         ends what `start` began
#
# A cluster lives in FOLDER: each node is broker and controller in one process, on ports that were
# free. Once it answers, `serve` and `start` print one line of JSON:
#   {"bootstrap":"127.0.0.1:40001","behind":"","secure":"","pids":[4242]}
# `serve` then takes commands from standard input, one a line, and answers each with a line:
#   kill N    SIGKILL           stop N    SIGTERM, waits for the end
#   start N   on the same ports and logs: prints the pid once it answers
# NAME=VALUE are settings of the broker that replace those below.
# With KAFKA_SECURE=USER:PASSWORD nodes have a second port each, named in "secure", for clients that
# encrypt (TLS, with the certificate in FOLDER/ca.pem) and log in (PLAIN or SCRAM-SHA-512).
# With KAFKA_PROXY=PORT the (only) node has a second port, in "behind", for a proxy that listens on
# PORT: who comes by that one is told to come back by the proxy.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# Beginnings until the chosen ports were still free when the nodes took them.
TRIES=5
# Seconds until a node must answer.
PATIENCE=60

say() { echo "kafka.sh: $*" >&2; }

# Prints as many ports as asked for that nobody listens on now.
free_ports() {
    python3 - "$1" <<'PYTHON'
import socket, sys
taken = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in taken:
    one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in taken])
PYTHON
}

# A key for all nodes, and its certificate, which vouches for itself.
certify() {
    rm -f -- "$1/node.p12"
    keytool -genkeypair -alias node -keyalg EC -groupname secp256r1 -dname CN=127.0.0.1 \
        -ext san=ip:127.0.0.1 -validity 3650 -storetype PKCS12 -keystore "$1/node.p12" \
        -storepass in-a-test >&2
    keytool -exportcert -rfc -alias node -keystore "$1/node.p12" -storepass in-a-test >"$1/ca.pem" \
        2>/dev/null
}

# Gives a node a port for clients that encrypt and log in.
secure() {
    local folder=$1 n=$2 port=$3 file=$1/node-$2/server.properties
    local login=org.apache.kafka.common.security
    sed -i -e "s/^listeners=/&SECURE:\/\/127.0.0.1:$port,/" \
        -e "s/^advertised.listeners=/&SECURE:\/\/127.0.0.1:$port,/" \
        -e "s/^listener.security.protocol.map=/&SECURE:SASL_SSL,/" "$file"
    cat >>"$file" <<SETTINGS
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PKCS12
ssl.keystore.location=$folder/node.p12
ssl.keystore.password=in-a-test
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config=$login.plain.PlainLoginModule required user_${KAFKA_SECURE%%:*}="${KAFKA_SECURE#*:}";
listener.name.secure.scram-sha-512.sasl.jaas.config=$login.scram.ScramLoginModule required;
SETTINGS
    echo "$(cat "$folder/secure")${n:+,}127.0.0.1:$port" | sed 's/^,//' >"$folder/secure.new"
    mv "$folder/secure.new" "$folder/secure"
}

# Writes the settings of each node of a new cluster.
settle() {
    local folder=$1 nodes=$2 copies isr ports voters="" bootstrap="" n
    shift 2
    mkdir -p "$folder"
    copies=$((nodes < 3 ? nodes : 3))
    isr=$((nodes < 3 ? 1 : 2))
    read -ra ports <<<"$(free_ports $((3 * nodes + 1)))"
    : >"$folder/secure"
    for ((n = 1; n <= nodes; n++)); do
        voters+=${voters:+,}$n@127.0.0.1:${ports[nodes + n - 1]}
        bootstrap+=${bootstrap:+,}127.0.0.1:${ports[n - 1]}
    done
    echo "$bootstrap" >"$folder/bootstrap"
    [ -z "${KAFKA_SECURE:-}" ] || certify "$folder"
    for ((n = 1; n <= nodes; n++)); do
        rm -rf -- "${folder:?}/node-$n"
        mkdir -p "$folder/node-$n"
        cat >"$folder/node-$n/server.properties" <<SETTINGS
process.roles=broker,controller
node.id=$n
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:${ports[n - 1]},CONTROLLER://127.0.0.1:${ports[nodes + n - 1]}
advertised.listeners=PLAINTEXT://127.0.0.1:${ports[n - 1]}
log.dirs=$folder/node-$n/logs
auto.create.topics.enable=false
default.replication.factor=$copies
min.insync.replicas=$isr
offsets.topic.num.partitions=2
offsets.topic.replication.factor=$copies
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=$copies
transaction.state.log.min.isr=$isr
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=$copies
share.coordinator.state.topic.min.isr=$isr
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.io.buffer.size=65536
log.initial.task.delay.ms=1000
log.cleaner.backoff.ms=1000
num.network.threads=2
num.io.threads=2
background.threads=2
num.recovery.threads.per.data.dir=1
controlled.shutdown.enable=true
SETTINGS
        if [ -n "${KAFKA_PROXY:-}" ]; then
            echo "${ports[2 * nodes]}" >"$folder/behind"
            sed -i -e "s/^listeners=/&PROXY:\/\/127.0.0.1:${ports[2 * nodes]},/" \
                -e "s/^advertised.listeners=/&PROXY:\/\/127.0.0.1:$KAFKA_PROXY,/" \
                -e "s/^listener.security.protocol.map=/&PROXY:PLAINTEXT,/" \
                "$folder/node-$n/server.properties"
            echo "inter.broker.listener.name=PLAINTEXT" >>"$folder/node-$n/server.properties"
        fi
        [ -z "${KAFKA_SECURE:-}" ] || secure "$folder" "$n" "${ports[2 * nodes + n]}"
        [ $# -eq 0 ] || printf '%s\n' "$@" >>"$folder/node-$n/server.properties"
    done
}

# A node lives for seconds, on few cores: the first compiler alone is soonest. With KAFKA_LONG_LIVED
# both are used, as anybody's broker has it.
run_java() {
    local speed=-XX:TieredStopAtLevel=1
    [ -z "${KAFKA_LONG_LIVED:-}" ] || speed=-XX:+TieredCompilation
    exec env -u LD_LIBRARY_PATH java -Xms64m "-Xmx${KAFKA_HEAP:-320m}" -XX:+UseSerialGC \
        "$speed" -Xshare:auto \
        "-Dlog4j2.configurationFile=$here/kafka/log4j2.properties" -cp "$jars/*" "$@"
}

format() {
    local folder=$1 nodes=$2 cluster n users=()
    if [ -n "${KAFKA_SECURE:-}" ]; then
        users=(--add-scram "SCRAM-SHA-512=[name=${KAFKA_SECURE%%:*},password=${KAFKA_SECURE#*:}]")
    fi
    cluster=$(python3 -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("="))')
    for ((n = 1; n <= nodes; n++)); do
        (run_java kafka.tools.StorageTool format --cluster-id "${cluster/#-/A}" "${users[@]}" \
            --config "$folder/node-$n/server.properties") >"$folder/node-$n/format" 2>&1 || {
            cat "$folder/node-$n/format" >&2
            return 1
        }
    done
}

launch() {
    local folder=$1 n=$2
    : >"$folder/node-$n/output"
    (cd "$folder/node-$n" && run_java kafka.Kafka server.properties </dev/null >output 2>&1) &
    echo $! >"$folder/node-$n/pid"
}

# Waits until a node answers; fails when it ended or takes too long.
answers() {
    local folder=$1 n=$2 pid waited=0
    pid=$(<"$folder/node-$n/pid")
    while ! grep -q "Kafka Server started" "$folder/node-$n/output"; do
        if ! kill -0 "$pid" 2>/dev/null || [ $((waited += 1)) -gt $((PATIENCE * 20)) ]; then
            return 1
        fi
        sleep 0.05
    done
}

end_all() {
    local folder=$1 file pid
    for file in "$folder"/node-*/pid; do
        [ -e "$file" ] || continue
        pid=$(<"$file")
        kill -KILL "$pid" 2>/dev/null || true
        rm -f -- "$file"
    done
    { wait; } 2>/dev/null # which would tell that they were killed
}

# Brings a new cluster up.
bring_up() {
    local folder=$1 nodes=$2 try n up
    for ((try = 1; try <= TRIES; try++)); do
        settle "$@"
        format "$folder" "$nodes"
        up=yes
        for ((n = 1; n <= nodes; n++)); do launch "$folder" "$n"; done
        for ((n = 1; n <= nodes; n++)); do answers "$folder" "$n" || up=no; done
        if [ "$up" = yes ]; then
            local pids=("$folder"/node-*/pid)
            printf '{"bootstrap":"%s","behind":"%s","secure":"%s","pids":[%s]}\n' \
                "$(<"$folder/bootstrap")" "$(cat "$folder/behind" 2>/dev/null || true)" \
                "$(<"$folder/secure")" \
                "$(cat "${pids[@]}" | paste -sd,)"
            return 0
        fi
        local outputs=("$folder"/node-*/output)
        end_all "$folder"
        if ! grep -q "Address already in use\|BindException" "${outputs[@]}"; then break; fi
        say "a port was taken meanwhile; trying others"
    done
    tail -n 40 "$folder"/node-*/output >&2
    say "the cluster in $folder did not come up"
    return 1
}

obey() {
    local folder=$1 act n pid
    while read -r act n; do
        pid=$(cat "$folder/node-$n/pid" 2>/dev/null || echo none)
        case $act in
            kill)
                { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
                echo killed
                ;;
            stop)
                { kill -TERM "$pid" && wait "$pid"; } 2>/dev/null || true
                echo stopped
                ;;
            start)
                launch "$folder" "$n"
                if answers "$folder" "$n"; then cat "$folder/node-$n/pid"; else echo failed; fi
                ;;
            *) echo "unknown command $act" ;;
        esac
    done
}

command=${1:-}
if [ "$command" = spark-jars ]; then
    "$here/jars.sh" "$here/kafka/spark" kafka-spark -DexcludeTransitive=true
    exit
fi
[ "$command" = jars ] || [ $# -ge 2 ] || {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}
jars=$("$here/jars.sh" "$here/kafka" kafka)
case $command in
    jars) echo "$jars" ;;
    serve | start)
        folder=$(mkdir -p "$2" && cd "$2" && pwd)
        nodes=${3:-1}
        shift $(($# < 3 ? $# : 3))
        if [ "$command" = serve ]; then trap 'end_all "$folder"' EXIT; fi
        bring_up "$folder" "$nodes" "$@"
        if [ "$command" = serve ]; then obey "$folder"; else disown -a; fi
        ;;
    stop) end_all "$(cd "$2" && pwd)" ;;
    *)
        say "no command $command"
        exit 2
        ;;
esac
