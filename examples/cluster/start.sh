#!/bin/sh
# Starts three Bruit nodes and a broker of three nats-servers on this machine, to try a cluster.
#
#   start.sh [DIRECTORY]    all files are in DIRECTORY (default: bruit-cluster); a second start reuses them
#
# BRUIT is the program to run (default: bruit), PORT the first of thirty ports on loopback (default: 24500).
# See docs/operators/cluster.md.
set -eu

directory=${1:-bruit-cluster}
bruit=${BRUIT:-bruit}
port=${PORT:-24500}
# Debian installs daemons in /usr/sbin, which may not be on PATH.
PATH=$PATH:/usr/sbin

fail() {
    echo "start.sh: $*" >&2
    exit 1
}

# Ports of node or broker $1.
client_port() { echo $((port + $1)); }
route_port() { echo $((port + 10 + $1)); }
http_port() { echo $((port + 20 + $1)); }

broker_config() {
    cat <<EOF
server_name: broker-$1
listen: "127.0.0.1:$(client_port "$1")"
jetstream { store_dir: "$directory/broker-$1", max_file_store: 2GB }
cluster {
  name: bruit
  listen: "127.0.0.1:$(route_port "$1")"
  routes: ["nats-route://127.0.0.1:$(route_port 1)", "nats-route://127.0.0.1:$(route_port 2)",
           "nats-route://127.0.0.1:$(route_port 3)"]
}
EOF
}

# The part of a node's configuration that its first start needs: data directory and listeners.
node_config() {
    cat <<EOF
data = "$directory/node-$1"
memory = "64MiB"
razor.listen = []
dcc.listen = []
pyzor.listen = []
fuzzy.listen = []
http.listen = "127.0.0.1:$(http_port "$1")"
EOF
}

# The part of a node's configuration for the cluster: the broker servers, beginning with its own, and the keys of the
# other nodes.
cluster_config() {
    cat <<EOF

[nats]
url = ["nats://127.0.0.1:$(client_port "$1")", "nats://127.0.0.1:$(client_port $(($1 % 3 + 1)))",
       "nats://127.0.0.1:$(client_port $((($1 + 1) % 3 + 1)))"]
replicas = 3
max_bytes = "256MiB"
EOF
    for other in 1 2 3; do
        [ "$other" = "$1" ] || cat <<EOF

[[peers]]
name = "node-$other"
key = "$("$bruit" keys show --data "$directory/node-$other")"
relation = "cluster"
EOF
    done
}

# Starts a program in the background, with a log and a PID file named after $1.
launch() {
    name=$1
    shift
    "$@" >"$directory/$name.log" 2>&1 &
    echo $! >"$directory/$name.pid"
}

wait_for_node() {
    tries=600
    until grep -q '^ready' "$directory/node-$1.log"; do
        kill -0 "$(cat "$directory/node-$1.pid")" 2>/dev/null || fail "node-$1 exited; see $directory/node-$1.log"
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "node-$1 is not ready after 60 s; see $directory/node-$1.log"
        sleep 0.1
    done
}

stop_node() {
    kill "$(cat "$directory/node-$1.pid")"
    wait "$(cat "$directory/node-$1.pid")" || fail "node-$1 exited with an error; see $directory/node-$1.log"
    rm "$directory/node-$1.pid"
}

# Starts node $1 once, which creates its key, and stops it. Node 1 also creates the realm, which the others join.
found() {
    node_config "$1" >"$directory/node-$1.toml"
    if [ "$1" = 1 ]; then
        launch "node-$1" "$bruit" serve --config "$directory/node-$1.toml"
    else
        launch "node-$1" "$bruit" serve --config "$directory/node-$1.toml" --realm "$directory/node-1/realm.bruit"
    fi
    wait_for_node "$1"
    stop_node "$1"
}

command -v "$bruit" >/dev/null || fail "program $bruit not found; set BRUIT"
command -v nats-server >/dev/null || fail "nats-server not found; on Debian: apt-get install nats-server"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
chmod 700 "$directory"
for pid in "$directory"/*.pid; do
    [ ! -e "$pid" ] || fail "$pid exists: the cluster is running, or was not stopped with stop.sh"
done

for number in 1 2 3; do
    broker_config "$number" >"$directory/broker-$number.conf"
    launch "broker-$number" nats-server --config "$directory/broker-$number.conf"
done
for number in 1 2 3; do
    [ -e "$directory/node-$number/realm.bruit" ] || found "$number"
done
for number in 1 2 3; do
    { node_config "$number"; cluster_config "$number"; } >"$directory/node-$number.toml"
    launch "node-$number" "$bruit" serve --config "$directory/node-$number.toml"
done
for number in 1 2 3; do wait_for_node "$number"; done

here=$(dirname "$0")
cat <<EOF
Three nodes are running, each with all of the data:

  http://127.0.0.1:$(http_port 1)   http://127.0.0.1:$(http_port 2)   http://127.0.0.1:$(http_port 3)

Try, with any message in a file:

  $bruit report --server http://127.0.0.1:$(http_port 1) MESSAGE
  $bruit check  --server http://127.0.0.1:$(http_port 3) MESSAGE
  $bruit peers  --server http://127.0.0.1:$(http_port 2)
  kill -9 \$(cat $directory/broker-2.pid)     # then report and check again: two of three are enough

Logs and configurations are in $directory. To stop the cluster: $here/stop.sh $directory
EOF
