#!/usr/bin/env bash
# The main job, seen, without a cluster: two pods are attached to three networks each by multinet, as a runtime calls it, with
# an API server of the tests in the place of Kubernetes'. Everything happens in namespaces of its own; the machine's
# network and files are not touched.
set -euo pipefail
cd "$(dirname "$0")"

if [ "$(id -u)" != 0 ]; then
  echo "the demo makes network namespaces: run it as root" >&2
  exit 1
fi
if [ -z "${DEMO_INSIDE:-}" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  echo "# build multinet, the plugins bridge, macvlan, host-local and static, and the API server of the tests"
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/bin/multinet" . # whatever the module's name
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/bin/" ./kube/kubetest/fakeapi \
    github.com/cnikit/cnikit/examples/plugins/{bridge,macvlan,host-local,static}
  DEMO_INSIDE=$work unshare --net --mount --propagation private bash demo.sh
  exit
fi

work=$DEMO_INSIDE
bin=$work/bin
export PATH=$bin:$PATH
for dir in /run/netns /run/cnikit /var/lib/cni; do
  mkdir -p "$dir"
  mount -t tmpfs tmpfs "$dir"
done
mount --make-shared /run/netns

bold='' plain=''
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
run() { printf '$ %s\n' "$*"; "$@"; }
exec 3>&1 # what is called, also where the answer goes into a file

ip link set lo up
ip address add 192.0.2.1/32 dev lo            # something far away, for the default route
ip link add uplink type veth peer name wire   # stands in for a network card and its cable
ip link set uplink up
ip link set wire up

say "The node's configuration: the default network is a bridge"
cat > "$work/multinet.conf" <<X
{
  "cniVersion": "1.1.0", "name": "multinet", "type": "multinet",
  "kubeconfig": "$work/kubeconfig", "binDir": "$bin",
  "delegates": [{
    "cniVersion": "1.1.0", "name": "pods", "plugins": [
      {"type": "bridge", "bridge": "pods0", "isDefaultGateway": true,
       "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}
    ]}]
}
X
cat "$work/multinet.conf"

say "Two definitions, and two pods that ask for them"
cat > "$work/definitions.yaml" <<'X'
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage, namespace: demo}
spec:
  config: |
    {"cniVersion": "1.1.0", "type": "macvlan", "master": "uplink",
     "capabilities": {"ips": true, "mac": true}, "ipam": {"type": "static"}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: lan, namespace: demo}
spec:
  config: |
    {"cniVersion": "1.1.0", "type": "bridge", "bridge": "lan0", "isGateway": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.3.0.0/24"}]]}}
X
pods=(red blue)
for i in 0 1; do
  cat > "$work/${pods[i]}.yaml" <<X
apiVersion: v1
kind: Pod
metadata:
  name: ${pods[i]}
  namespace: demo
  uid: uid-${pods[i]}
  annotations:
    k8s.v1.cni.cncf.io/networks: |
      [{"name": "storage", "ips": ["10.2.0.1$i/24"], "mac": "02:00:00:00:00:1$i"},
       {"name": "lan", "interface": "lan", "default-route": ["10.3.0.1"]}]
X
done
cat "$work/definitions.yaml" "$work/red.yaml"

say "What the pods would get: multinet explain, which needs nothing but these files"
run multinet explain -config "$work/multinet.conf" "$work/red.yaml" "$work/definitions.yaml"
echo "(the graph is Mermaid's: put it into a Markdown file between \`\`\`mermaid and \`\`\`)"

say "An API server: that of the tests"
fakeapi -kubeconfig "$work/kubeconfig" "$work"/{definitions,red,blue}.yaml &
api=$!
trap 'kill "$api"' EXIT
for _ in $(seq 100); do [ -s "$work/kubeconfig" ] && break; sleep 0.1; done
cat "$work/kubeconfig"

# cni VERB POD: as a runtime calls a plugin: the call in the environment, the configuration on stdin.
cni() {
  printf '$ CNI_COMMAND=%s CNI_CONTAINERID=%s-sandbox CNI_NETNS=/run/netns/%s CNI_IFNAME=eth0 ... multinet < multinet.conf\n' "$1" "$2" "$2" >&3
  CNI_COMMAND=$1 CNI_CONTAINERID=$2-sandbox CNI_NETNS=/run/netns/$2 CNI_IFNAME=eth0 CNI_PATH=$bin \
    CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=$2;K8S_POD_UID=uid-$2" \
    multinet < "$work/call"
}

say "ADD: the runtime gets the default network's result"
cp "$work/multinet.conf" "$work/call"
for pod in "${pods[@]}"; do
  ip netns add "$pod"
  cni ADD "$pod" > "$work/$pod.result"
done
echo "(red's result)"
cat "$work/red.result"

say "What it made: three interfaces, and the default route by the network that asked for it"
run ip -n red -br address
run ip -n red route

say "Packets flow on each of the networks, and out by the default route"
for network in eth0 net1 lan; do
  run ip netns exec red ping -n -c 1 -W 2 -I "$network" "$(ip -n blue -j address show dev "$network" | jq -r '.[0].addr_info[] | select(.family == "inet").local')"
done
run ip -n red route get 192.0.2.1
run ip netns exec red ping -n -c 1 -W 2 192.0.2.1

say "What the API server was told: the pod's status"
server=$(sed -n 's/.*server: "http:..\(.*\):\(.*\)".*/\1\/\2/p' "$work/kubeconfig")
token=$(sed -n 's/.*token: \(.*\)}/\1/p' "$work/kubeconfig")
get() { # PATH: of the API server
  exec 5<> "/dev/tcp/$server"
  printf 'GET %s HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "$1" "$token" >&5
  sed '1,/^\r$/d' <&5
}
get /api/v1/namespaces/demo/pods/red |
  jq -r '.metadata.annotations["k8s.v1.cni.cncf.io/network-status"]' | jq .

say "CHECK finds everything as ADD made it; then one address is taken away, and it says so"
jq --slurpfile prev "$work/red.result" '. + {prevResult: $prev[0]}' "$work/multinet.conf" > "$work/call"
cni CHECK red
echo "(exit status 0)"
run ip -n red address flush dev net1
status=0
cni CHECK red || status=$?
[ "$status" != 0 ] || { echo "CHECK did not see it" >&2; exit 1; }
echo "(exit status $status)"

say "DEL needs no API server: the record has all"
kill "$api"
wait "$api" || true
trap - EXIT
cp "$work/multinet.conf" "$work/call"
for pod in "${pods[@]}"; do
  cni DEL "$pod"
  run ip -n "$pod" -br link
done
left=$(ip -n red -br link; ip -n blue -br link)
files=$(find /run/cnikit /var/lib/cni -type f ! -name 'last_reserved_ip*' ! -name 'lock*' ! -name '*.lock')
if grep -qv '^lo ' <<< "$left" || [ -n "$files" ]; then
  echo "something is left: $left; $files" >&2
  exit 1
fi
echo "(links: lo alone; records, addresses reserved on disk: none)"
say "Done. The demo's own host keeps the bridges pods0 and lan0: they belong to the networks, not to one pod."
