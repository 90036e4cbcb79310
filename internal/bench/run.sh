#!/usr/bin/env bash
# Builds both sides and runs the bench in namespaces of its own. Arguments go to the bench (-blocks, -each).
set -euo pipefail
cd "$(dirname "$0")"
if [ -z "${BENCH_INSIDE:-}" ]; then
  for need in /usr/bin/time:time /usr/sbin/iptables:iptables; do # the second is what the reference plugins masquerade with
    if [ ! -x "${need%%:*}" ]; then
      echo "installing the Debian package ${need##*:}"
      apt-get -qq install --no-install-recommends "${need##*:}" > /dev/null
    fi
  done
  work=$(mktemp -d) copies=$(mktemp -d)
  trap 'rm -rf "$work" "$copies"' EXIT
  export CGO_ENABLED=0 BENCH_INSIDE=$copies
  go build -trimpath -ldflags '-s -w' -o "$work/reference/" \
    github.com/containernetworking/plugins/plugins/main/{macvlan,bridge,ptp} \
    github.com/containernetworking/plugins/plugins/ipam/host-local
  (cd ../.. && go build -trimpath -ldflags '-s -w' -o "$work/ours/" ./examples/plugins/... &&
    go build -trimpath -ldflags '-s -w' -tags hostlocal -o "$work/compiled/" ./examples/plugins/...)
  go build -o "$work/bench" .
  # What the linker has just written runs 12 to 18 % slower than a copy of it, on either side: nobody installs it that way.
  cp -r "$work/reference" "$work/ours" "$work/compiled" "$work/bench" "$copies/"
  ls -l "$work/reference" "$work/ours" "$work/compiled" | awk '/plugins|macvlan|bridge|ptp|host-local/ {print $5, $9}'
  unshare --net --mount --propagation private bash run.sh "$@"
  exit
fi
for dir in /run/netns /run/cnikit /var/lib/cni; do
  mkdir -p "$dir"
  mount -t tmpfs tmpfs "$dir"
done
mount --make-shared /run/netns
exec "$BENCH_INSIDE/bench" -reference "$BENCH_INSIDE/reference" -ours "$BENCH_INSIDE/ours" -compiled "$BENCH_INSIDE/compiled" "$@"
