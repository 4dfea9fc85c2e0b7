# Runs the container image, and reports and checks a message through its ports.
#
#   sh -eu container.sh IMAGE.oci.tar BRUIT
#
# BRUIT is the program that plays the mail site. `cargo xtask test --only packages` calls this script as root.

image=$1 bruit=$2
repository=$(cd "$(dirname "$0")/../.." && pwd)
mail=$repository/testdata/razor/text.eml
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs

say() { echo "--- $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# With chroot isolation, the container shares the network of its host. Here, the host is a separate network namespace,
# in which nothing else listens.
if [ "${IN_NETWORK:-}" != yes ]; then
    IN_NETWORK=yes exec unshare --net sh -eu "$0" "$@"
fi
ip link set lo up

folder=$(mktemp -d)
container=
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    [ -z "$container" ] || buildah rm "$container" > /dev/null
    rm -rf "$folder"
}
trap clean_up EXIT

say "start, with a token"
container=$(buildah from "oci-archive:$image")
cat "$repository/packaging/oci/bruit.toml" - > "$folder/bruit.toml" <<END
[[http.tokens]]
name = "mail-1"
token = "a-secret-of-the-mail-site"
standing = "own"
END
chmod 644 "$folder/bruit.toml"
chmod 755 "$folder"
buildah run --volume "$folder/bruit.toml:/etc/bruit/bruit.toml:ro" "$container" -- \
    /bruit serve --config /etc/bruit/bruit.toml > "$folder/log" 2>&1 &
server=$!
for _ in $(seq 300); do
    if "$bruit" check --server http://127.0.0.1:8625 "$mail" > "$folder/answer" 2>&1; then break; fi
    grep -q unknown "$folder/answer" && break
    sleep 0.1
done
grep -q unknown "$folder/answer" || fail "no answer: $(cat "$folder/answer" "$folder/log")"

say "a report without the token has no weight"
"$bruit" report --server http://127.0.0.1:8625 "$mail" && fail "anyone can report"

say "report and check with the token"
export BRUIT_TOKEN=a-secret-of-the-mail-site
"$bruit" report --server http://127.0.0.1:8625 "$mail"
"$bruit" check --server http://127.0.0.1:8625 "$mail"

say "the health check"
buildah run "$container" -- /bruit ready --server http://127.0.0.1:8625
say "the container can be used"
