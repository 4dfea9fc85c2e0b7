# Prepares an isolated machine for the commands of one page. Commands may add and replace files, which are deleted
# afterwards. The host's own files are read-only. The network is a loopback device, and the user is root. `unshare` runs
# this script in new namespaces, with these variables:
#
#   REPOSITORY            the sources
#   PROGRAM, LABORATORY   `bruit` and `bruit-lab`, built from them
#   EXAMPLES              a folder with the built examples of the workspace
#   RESULTS               a folder with `page.sh`, which receives the output of its commands
set -eu
PATH=$PATH:/usr/sbin:/sbin

mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/repository /mnt/results /mnt/bin /mnt/examples /mnt/etc /mnt/usr/bin /mnt/usr/share
mount --bind "$REPOSITORY" /mnt/repository
mount --bind "$RESULTS" /mnt/results
mount --bind "$EXAMPLES" /mnt/examples
touch /mnt/program /mnt/laboratory
mount --bind "$PROGRAM" /mnt/program
mount --bind "$LABORATORY" /mnt/laboratory
mount --bind /usr/bin /mnt/usr/bin
mount --bind /usr/share /mnt/usr/share
# Ignore errors: files that only their owner may read are not needed.
cp -rL /etc/. /mnt/etc/ 2>/dev/null || true
mount -o remount,bind,ro /
for folder in repository examples program laboratory usr/bin usr/share; do mount -o remount,bind,ro "/mnt/$folder"; done
mount --bind /mnt/etc /etc
for folder in /home /root /var /srv /run /tmp /dev/shm /usr/local/share; do
    mount -t tmpfs tmpfs "$folder"
done
mkdir -p /var/lib /var/log /var/tmp /var/cache /home/you/bruit
# Replace these folders with writable folders of links. Overlays would not do: their files would belong to the real
# root.
PATH=$PATH:/mnt/usr/bin
for folder in /usr/share /usr/bin; do
    mount -t tmpfs tmpfs "$folder"
    hash -r
    ln -s /mnt"$folder"/* "$folder"
done
rm -f /usr/share/bash-completion /usr/share/fish
mkdir -p /usr/share/bash-completion/completions /usr/share/fish/vendor_completions.d /usr/local/share/zsh/site-functions
mount -t proc proc /proc

ip link set lo up
ip address add 192.0.2.10/32 dev lo
echo '127.0.0.1 localhost HOST OTHER bruit.example.org' > /etc/hosts

# Programs that run until they are stopped would block the page. So a server runs in the background and replaces an
# earlier server, and a program that follows a folder or a server is interrupted after two seconds.
cat > /mnt/bin/bruit <<'BRUIT'
#!/bin/bash
words=" $* "
case $words in *' --help '* | *' --check-config '* | *' --once '* | *' --show '*) exec /mnt/program "$@" ;; esac
case $words in
' replica '* | ' watch '*)
    timeout --foreground --preserve-status --signal INT 2 /mnt/program "$@"
    exit ;;
' milter '*)
    # A milter runs in the background and replaces an earlier one.
    if read -r before < /mnt/milter.pid; then
        kill "$before" && while kill -0 "$before"; do sleep 0.02; done
    fi 2> /dev/null
    : > /mnt/milter.greeting
    /mnt/program "$@" >> /mnt/milter.greeting 2>> /mnt/results/server.log < /dev/null &
    echo $! > /mnt/milter.pid
    until grep -qx ready /mnt/milter.greeting; do
        kill -0 $! || { tail -n 1 /mnt/results/server.log >&2; exit 1; }
        sleep 0.02
    done
    cat /mnt/milter.greeting
    exit ;;
' serve '*) ;;
*) exec /mnt/program "$@" ;;
esac
if read -r before < /mnt/server.pid; then
    kill "$before" && while kill -0 "$before"; do sleep 0.02; done
fi 2> /dev/null
# Remove the output of an earlier server.
: > /mnt/greeting
/mnt/program "$@" >> /mnt/greeting 2>> /mnt/results/server.log < /dev/null &
echo $! > /mnt/server.pid
until grep -qx ready /mnt/greeting; do
    kill -0 $! || { tail -n 1 /mnt/results/server.log >&2; exit 1; }
    sleep 0.02
done
cat /mnt/greeting
BRUIT

cat > /mnt/bin/bruit-lab <<'LAB'
#!/bin/bash
case " $* " in
*' --help '*) ;;
*' --follow '*)
    timeout --foreground --preserve-status --signal INT 2 /mnt/laboratory "$@"
    exit ;;
esac
exec /mnt/laboratory "$@"
LAB

# `cargo run` runs the programs that are already built.
cat > /mnt/bin/cargo <<'CARGO'
#!/bin/bash
[ "$1" = run ] || { echo "cargo $1 cannot be run here" >&2; exit 1; }
program=/mnt/bin/bruit
while [ "$1" != -- ]; do
    case "$1 ${2-}" in
    --example\ *) program=/mnt/examples/$2 ;;
    '-p bruit-lab') program=/mnt/bin/bruit-lab ;;
    esac
    shift
done
shift
exec "$program" "$@"
CARGO
chmod 755 /mnt/bin/bruit /mnt/bin/bruit-lab /mnt/bin/cargo

export HOME=/home/you USER=you LOGNAME=you LANG=C.UTF-8 PATH=/mnt/bin:$PATH
unset BRUIT_SERVER BRUIT_DATA BRUIT_TOKEN BRUIT_CONFIG BRUIT_LOG BRUIT_REPLICA XDG_DATA_HOME STATE_DIRECTORY
# The pages show the output of a terminal.
export BRUIT_SIGN_IN_LINK=true
cd "$HOME/bruit"
for file in /mnt/repository/*; do
    case $file in */target) ;; *.toml) cp "$file" . ;; *) ln -s "$file" . ;; esac
done
mkdir -p target/release
ln -s /mnt/program target/release/bruit
ln -s /mnt/laboratory target/release/bruit-lab
ln -s /mnt/program /usr/bin/bruit
ln -s /mnt/laboratory /usr/bin/bruit-lab
exec bash /mnt/results/page.sh
