#!/bin/sh
# Stops the processes that start.sh started in DIRECTORY (default: bruit-cluster), nodes before brokers. The data is
# kept; start.sh reuses it.
set -eu

directory=${1:-bruit-cluster}

# Returns true if process $1 has exited, even if its parent has not waited for it yet.
has_ended() {
    case $(ps -o stat= -p "$1" 2>/dev/null) in
    '' | Z*) true ;;
    *) false ;;
    esac
}

for kind in node broker; do
    for pid in "$directory/$kind"-*.pid; do
        # The process may have been killed already.
        [ ! -e "$pid" ] || kill "$(cat "$pid")" 2>/dev/null || true
    done
    for pid in "$directory/$kind"-*.pid; do
        [ -e "$pid" ] || continue
        until has_ended "$(cat "$pid")"; do sleep 0.1; done
        rm "$pid"
    done
done
