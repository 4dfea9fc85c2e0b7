# Upgrades the three nodes of a cluster one by one, and checks after each step that old and new nodes exchange everything.
#
#   sh -eu rolling.sh OLD NEW
#
# OLD is the program of the commit before, and NEW the current one. `cargo xtask test --only packages` calls this
# script as root.

old=$1 new=$2
repository=$(cd "$(dirname "$0")/../.." && pwd)

say() { echo "--- $*"; }
fail() { echo "FAILED: $*" >&2; tail -n 20 "$folder"/*.log >&2; exit 1; }

# Everything below runs in a separate network namespace, in which nothing else listens.
if [ "${IN_NETWORK:-}" != yes ]; then
    IN_NETWORK=yes exec unshare --net sh -eu "$0" "$@"
fi
ip link set lo up
folder=$(mktemp -d)
# shellcheck disable=SC2046
trap 'kill $(cat "$folder"/*.pid 2> /dev/null) 2> /dev/null || true; wait; rm -rf "$folder"' EXIT

cp "$repository"/testdata/razor/*.eml "$folder"
{
    printf 'Subject: the annual report\n\n'
    for number in $(seq 40); do echo "Paragraph $number of the report is about garden $number."; done
} > "$folder/letter.eml"

url() { echo "http://127.0.0.1:863$1"; }

# Starts a node with a program: start NODE PROGRAM [OPTIONS]
start() {
    node=$1 program=$2
    shift 2
    "$program" serve --config "$folder/$node.toml" "$@" > "$folder/$node.out" 2>> "$folder/$node.log" &
    echo $! > "$folder/$node.pid"
    for _ in $(seq 300); do
        if grep -qx ready "$folder/$node.out"; then return; fi
        sleep 0.1
    done
    fail "node $node does not start"
}

stop() {
    kill "$(cat "$folder/$1.pid")"
    wait "$(cat "$folder/$1.pid")" || fail "node $1 stopped with an error"
    rm "$folder/$1.pid"
}

configure() {
    cat > "$folder/$1.toml" <<END
data = "$folder/$1"
memory = "16MiB"
razor.listen = []
dcc.listen = []
pyzor.listen = []
fuzzy.listen = []
http.listen = "127.0.0.1:863$1"
federation.listen = ["127.0.0.1:864$1"]
END
}

# Prints what a node knows of a message: its verdict, its recipients, and how often its exact text was reported and
# revoked, counted over all nodes.
answer() {
    "$new" check --json --server "$(url "$1")" "$folder/$2.eml" | sed -nE \
        's/^."bulk_count":([0-9]+),.*"report_count":([0-9]+),"revoke_count":([0-9]+),"scheme":"exact".*"verdict":"([a-z]+)".$/\4 \1 \2 \3/p'
}

# Waits until all running nodes give the same answer about a message: agree MESSAGE ANSWER
agree() {
    for node in 1 2 3; do
        [ -e "$folder/$node.pid" ] || continue
        for _ in $(seq 300); do
            found=$(answer "$node" "$1")
            if [ "$found" = "$2" ]; then continue 2; fi
            sleep 0.1
        done
        fail "node $node says '$found' about $1, not '$2'"
    done
}

report() { "$3" report --server "$(url "$1")" "$folder/$2.eml" > /dev/null; }
revoke() { "$3" revoke --server "$(url "$1")" "$folder/$2.eml" > /dev/null; }
count() { "$new" check --count 10 --server "$(url "$1")" "$folder/$2.eml" > /dev/null || true; }

say "three old nodes in one realm"
for node in 1 2 3; do
    configure "$node"
    if [ "$node" = 1 ]; then start 1 "$old"; else start "$node" "$old" --realm "$folder/1/realm.bruit"; fi
    stop "$node"
done
for node in 1 2 3; do
    for other in 1 2 3; do
        [ "$other" = "$node" ] || cat >> "$folder/$node.toml" <<END

[[peers]]
name = "node-$other"
url = "https://127.0.0.1:864$other"
key = "$("$old" keys show --data "$folder/$other")"
relation = "cluster"
END
    done
done
for node in 1 2 3; do start "$node" "$old"; done
report 1 text "$old"
count 1 letter
count 2 letter
agree text 'spam 0 1 0'
agree letter 'unknown 20 0 0'

say "one new node"
stop 1
report 2 html "$old"
start 1 "$new"
report 1 multipart "$new"
report 3 multipart "$old"
count 1 letter
count 3 letter
agree text 'spam 0 1 0'
agree html 'spam 0 1 0'
agree multipart 'spam 0 2 0'
agree letter 'unknown 40 0 0'

say "two new nodes"
stop 2
revoke 1 text "$new"
report 3 base64 "$old"
start 2 "$new"
revoke 3 html "$old"
agree text 'ham 0 1 1'
agree html 'ham 0 1 1'
agree base64 'spam 0 1 0'

say "three new nodes"
stop 3
report 2 base64 "$new"
count 2 letter
start 3 "$new"
report 3 multipart "$new"
count 3 letter
agree text 'ham 0 1 1'
agree html 'ham 0 1 1'
agree multipart 'spam 0 3 0'
agree base64 'spam 0 2 0'
agree letter 'unknown 60 0 0'
for node in 1 2 3; do stop "$node"; done
say "a cluster can be upgraded one node at a time"
