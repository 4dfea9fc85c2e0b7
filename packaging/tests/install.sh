# Installs a package in a minimal Debian system, uses it, upgrades it, removes it and purges it. Then runs the archive.
#
#   sh -eu install.sh SYSTEM OLD.deb NEW.deb LAB.deb ARCHIVE.tar.gz
#
# SYSTEM is a folder for the minimal system. OLD.deb is the package of the commit before. testdata/releases has the
# files of a site that used a release. `cargo xtask test --only packages` calls this script as root.

system=$1 old=$2 new=$3 lab=$4 archive=$5
repository=$(cd "$(dirname "$0")/../.." && pwd)
page=$repository/docs/operators/install.md

say() { echo "--- $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
inside() { chroot "$system" env HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

# Replaces the shell with a command in the minimal system. As in the unit's sandbox, the command runs as the service's
# user, without privileges, and can write only to the state directory. Restrictions that need systemd as the first
# process are left out.
as_service() {
    exec unshare --mount sh -euc '
        mount --bind "$0" "$0"
        mount --bind "$0/var/lib/bruit" "$0/var/lib/bruit"
        mount -o remount,bind,ro "$0"
        exec chroot "$0" setpriv --reuid bruit --regid bruit --clear-groups --no-new-privs --bounding-set=-all "$@"
    ' "$system" "$@"
}

start() {
    # The command line of the unit, with its state directory.
    words=$(sed -n 's|^ExecStart=||p' "$system/lib/systemd/system/bruit.service" | sed 's|%S|/var/lib|')
    # shellcheck disable=SC2086
    as_service $words > "$system/log" 2>&1 &
    server=$!
    wait_for_answer bruit stats --token-file /var/lib/bruit/admin.token
}

# Waits until a command inside succeeds.
wait_for_answer() {
    for _ in $(seq 300); do
        if inside "$@" > /dev/null 2>&1; then return; fi
        sleep 0.1
    done
    cat "$system/log" >&2
    fail "the server does not answer"
}

# Prints the files in a package, as absolute paths.
files() {
    dpkg-deb --fsys-tarfile "$1" | tar -t | sed -n 's|^\.\(/.*[^/]\)$|\1|p'
}

stop() {
    kill "$server"
    wait "$server" || fail "the server stopped with an error: $(cat "$system/log")"
}

# Everything below runs in a separate network namespace, in which nothing else listens.
if [ "${IN_NETWORK:-}" != yes ]; then
    rm -rf "$system"
    say "make a minimal system"
    mmdebstrap --quiet --variant=minbase --include=systemd,procps,pyzor bookworm "$system"
    IN_NETWORK=yes exec unshare --net sh -eu "$0" "$@"
fi
ip link set lo up
trap 'kill "${server:-}" 2> /dev/null || true' EXIT
cp "$old" "$system/old.deb"
cp "$new" "$system/new.deb"
cp "$repository/testdata/razor/text.eml" "$system/mail"

say "install"
inside dpkg --install /old.deb
inside id bruit
inside bruit --version
install -d -m 700 -o "$(inside id -u bruit)" -g "$(inside id -g bruit)" "$system/var/lib/bruit"
chgrp "$(inside id -g bruit)" "$system/etc/bruit/bruit.toml"

say "every installed file is in docs/operators/install.md, and every file there is installed"
for package in "$new" "$lab"; do
    files "$package" | while read -r path; do
        case $path in
            /usr/share/man/man1/*) path=/usr/share/man/man1/ ;;
            /usr/share/doc/bruit/*) path=/usr/share/doc/bruit/ ;;
            /usr/share/doc/bruit-lab/*) path=/usr/share/doc/bruit-lab/ ;;
        esac
        grep -qF "\`$path\`" "$page" || fail "docs/operators/install.md does not mention $path"
    done
done
for path in $(grep -oE '`/(etc|lib|usr)/[^`]+`' "$page" | tr -d '\`'); do
    { [ -e "$system$path" ] || files "$lab" | grep -qF "$path"; } || fail "no package installs $path"
done

say "the units are valid"
systemd-analyze verify --root="$system" --man=no bruit.service bruit-milter.service bruit-watch@ann.service

say "a stock client uses the server"
start
inside sh -c 'mkdir -p ~/.pyzor && echo 127.0.0.1:24441 > ~/.pyzor/servers'
inside sh -c 'pyzor check < /mail' && fail "an unknown message is known"
inside sh -c 'pyzor report < /mail'
inside sh -c 'pyzor check < /mail' || fail "a reported message is not known"
inside bruit ready
stop

say "an upgrade keeps data and configuration"
echo '# changed by the operator' >> "$system/etc/bruit/bruit.toml"
inside dpkg --install /new.deb
grep -q 'changed by the operator' "$system/etc/bruit/bruit.toml" || fail "the upgrade overwrote the configuration"
start
inside sh -c 'pyzor check < /mail' || fail "the upgrade lost a report"
stop

for release in "$repository"/testdata/releases/*/; do
    say "an upgrade from $(basename "$release") keeps data and configuration"
    rm -rf "$system/var/lib/bruit"
    mkdir -m 700 "$system/var/lib/bruit"
    tar --no-same-owner -xzf "$release/data.tar.gz" -C "$system/var/lib/bruit"
    inside chown -R bruit:bruit /var/lib/bruit
    cat "$release/bruit.toml" > "$system/etc/bruit/bruit.toml"
    inside dpkg --install /new.deb
    cmp "$release/bruit.toml" "$system/etc/bruit/bruit.toml"
    start
    inside bruit check /mail || fail "the upgrade lost a report"
    inside bruit whitelist list --token-file /var/lib/bruit/admin.token | grep newsletter@example.org
    inside bruit accounts show razor ann@example.org --token-file /var/lib/bruit/admin.token
    stop
done

say "reconfigure"
inside dpkg-reconfigure bruit
inside bruit serve --check-config --config /etc/bruit/bruit.toml

say "remove"
inside dpkg --remove bruit
[ ! -e "$system/usr/bin/bruit" ] || fail "the program is still there"
[ -e "$system/etc/bruit/bruit.toml" ] || fail "removing deleted the configuration"
[ -e "$system/var/lib/bruit/admin.token" ] || fail "removing deleted data"

say "purge"
inside dpkg --purge bruit
[ ! -e "$system/etc/bruit" ] || fail "purging kept the configuration"
[ -e "$system/var/lib/bruit/admin.token" ] || fail "purging deleted data, which install.md says it keeps"

say "the archive runs without being installed"
tar -xzf "$archive" -C "$system/opt"
folder=$(cd "$system/opt" && echo bruit-*)
inside "/opt/$folder/bin/bruit-lab" --version
# Not by the function, whose subshell would get the signal instead of the server.
chroot "$system" env HOME=/tmp "/opt/$folder/bin/bruit" serve --data /tmp/data > "$system/log" 2>&1 &
server=$!
wait_for_answer "/opt/$folder/bin/bruit" ready
inside sh -c 'pyzor report < /mail && pyzor check < /mail'
stop

rm -rf "$system"
say "the package can be installed, used, upgraded, removed and purged, and the archive can be used"
