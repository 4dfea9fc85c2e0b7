#!/bin/sh
# Ends what start.sh started in DIRECTORY (bruit-cluster), nodes before brokers. Data stays; start.sh goes on with it.
set -eu

directory=${1:-bruit-cluster}

# Whether process $1 has ended, whoever may still have to be told.
has_ended() {
    case $(ps -o stat= -p "$1" 2>/dev/null) in
    '' | Z*) true ;;
    *) false ;;
    esac
}

for kind in node broker; do
    for pid in "$directory/$kind"-*.pid; do
        # Whoever was killed is gone already.
        [ ! -e "$pid" ] || kill "$(cat "$pid")" 2>/dev/null || true
    done
    for pid in "$directory/$kind"-*.pid; do
        [ -e "$pid" ] || continue
        until has_ended "$(cat "$pid")"; do sleep 0.1; done
        rm "$pid"
    done
done
