#!/usr/bin/env bash
# Builds both sides and runs the bench in namespaces of its own. Arguments go to the bench (-blocks, -each).
set -euo pipefail
cd -P "$(dirname "$0")"
if [ -z "${BENCH_INSIDE:-}" ]; then
  if [ ! -x /usr/bin/time ]; then
    echo "installing the Debian package time"
    apt-get -qq install --no-install-recommends time > /dev/null
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  export CGO_ENABLED=0 BENCH_INSIDE=$work
  go build -C tools -trimpath -ldflags '-s -w' -o "$work/" gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus
  go build -C .. -trimpath -ldflags '-s -w' -o "$work/multinet" .
  go build -C .. -trimpath -ldflags '-s -w' -o "$work/plugins/" github.com/cnikit/cnikit/examples/plugins/macvlan
  go build -o "$work/bench" .
  unshare --net --mount --propagation private bash run.sh "$@"
  exit
fi
for dir in /run/netns /run/cnikit /var/lib/cni; do
  mkdir -p "$dir"
  mount -t tmpfs tmpfs "$dir"
done
mount --make-shared /run/netns
exec "$BENCH_INSIDE/bench" -multus "$BENCH_INSIDE/multus" -multinet "$BENCH_INSIDE/multinet" -plugins "$BENCH_INSIDE/plugins" "$@"
