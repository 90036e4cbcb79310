#!/usr/bin/env bash
# The main job, seen: two containers (network namespaces) are attached by libcni, the runtimes' own
# library, to our macvlan and then to our bridge plugin, with the reference host-local giving addresses.
# Everything happens in namespaces of its own; the machine's network is not touched.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ]; then
  echo "the demo makes network namespaces: run it as root" >&2
  exit 1
fi
if [ -z "${DEMO_INSIDE:-}" ]; then
  bin=$PWD/bin
  echo "# build our plugins, and the reference host-local and cnitool"
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/" ./examples/plugins/...
  go build -C internal/tools -trimpath -o "$bin/" \
    github.com/containernetworking/plugins/plugins/ipam/host-local github.com/containernetworking/cni/cnitool
  DEMO_INSIDE=$bin exec unshare --net --mount --propagation private bash "$0"
fi

export CNI_PATH=$DEMO_INSIDE PATH=$DEMO_INSIDE:$PATH
for dir in /run/netns /run/cnikit /var/lib/cni; do
  mkdir -p "$dir"
  mount -t tmpfs tmpfs "$dir"
done
mount --make-shared /run/netns
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NETCONFPATH=$work

bold='' plain=''
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
run() { printf '$ %s\n' "$*"; "$@"; }
in_both() { for c in red blue; do run ip netns exec "$c" "$@"; done; }
address() { jq -r --argjson n "$2" '.ips[$n].address | split("/")[0]' "$work/$1.result"; }

ip link set lo up
ip link add uplink type veth peer name wire   # stands in for a network card and its cable
ip link set uplink up
ip link set wire up
for c in red blue; do
  ip netns add "$c"
  ip -n "$c" link set lo up
done

ipam='"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.1.0/24"}], [{"subnet": "fd00:1::/64"}]],
              "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}'
cat > "$work/10-macvlan.conflist" <<X
{"cniVersion": "1.1.0", "name": "demo-macvlan", "plugins": [
  {"type": "macvlan", "master": "uplink", $ipam}]}
X
cat > "$work/20-bridge.conflist" <<X
{"cniVersion": "1.1.0", "name": "demo-bridge", "plugins": [
  {"type": "bridge", "bridge": "demo0", "isGateway": true, $ipam}]}
X

attach() { # NETWORK: both containers, and a ping between them
  local network=$1
  say "$network: the configuration"
  cat "$work"/*-"${network#demo-}.conflist"
  say "$network: ADD, by libcni; the plugin prints the result"
  for c in red blue; do
    printf '$ cnitool add %s /run/netns/%s\n' "$network" "$c"
    cnitool add "$network" "/run/netns/$c" > "$work/$c.result"
  done
  echo "(red's result)"
  cat "$work/red.result"
  say "$network: the interfaces that were made"
  in_both ip -br address
  in_both ip route
  in_both ip -6 route
  say "$network: packets flow, IPv4 and IPv6"
  run ip netns exec red ping -n -c 1 -W 2 "$(address blue 0)"
  run ip netns exec red ping -n -c 1 -W 2 "$(address blue 1)"
  say "$network: CHECK finds everything as ADD made it"
  run cnitool check "$network" /run/netns/red
  echo "(exit status 0)"
}

break_it() { # NETWORK: CHECK must say what is wrong
  local network=$1
  say "$network: break it, and CHECK says what is wrong"
  run ip -n red address del "$(jq -r '.ips[0].address' "$work/red.result")" dev eth0
  printf '$ cnitool check %s /run/netns/red\n' "$network"
  local status=0
  cnitool check "$network" /run/netns/red > "$work/check" 2>&1 || status=$?
  if [ $status = 0 ]; then
    echo "CHECK did not see it" >&2
    exit 1
  fi
  tail -n 1 "$work/check" # above it cnitool prints its usage
  echo "(exit status $status)"
}

detach() { # NETWORK: DEL, and nothing is left
  local network=$1 left
  say "$network: DEL, and nothing is left"
  for c in red blue; do run cnitool del "$network" "/run/netns/$c"; done
  in_both ip -br link
  left=$(ip -n red -br link; ip -n blue -br link)
  if grep -qv '^lo ' <<< "$left" || [ -n "$(ls /run/cnikit)" ] || ls "/var/lib/cni/networks/$network" | grep -qE '^[0-9a-f]+[.:]'; then
    echo "something is left: $left; $(ls /run/cnikit); $(ls "/var/lib/cni/networks/$network")" >&2
    exit 1
  fi
  echo "(links: lo alone; addresses reserved on disk: none; locks and state: none)"
}

for network in demo-macvlan demo-bridge; do
  attach "$network"
  break_it "$network"
  detach "$network"
done

say "Done. The demo's own host keeps the bridge demo0: it belongs to the network, not to one container."
cat <<X
Make it yours: the whole macvlan plugin is examples/plugins/macvlan/main.go. Change first
  - its config struct: the keys of your plugin;
  - its steps function: the parts of your attachment, in order.
Then run its test: sudo go test ./examples/plugins/macvlan
X
