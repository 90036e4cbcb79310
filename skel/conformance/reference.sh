#!/usr/bin/env bash
# Makes the table of README.md anew: holds the reference plugins, as internal/bench pins them, against all requirements.
# Needs root, Go, and what README.md names, and jq; takes some minutes. With -n the table is printed, README.md not written.
# DETAILS=DIR keeps what was seen there, a file of JSON for each plugin; FROM=DIR makes the table of such files.
set -euo pipefail
cd -P "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

module=github.com/containernetworking/plugins
export CGO_ENABLED=0
go build -C ../../internal/bench -o "$work/bin/" $module/plugins/main/{macvlan,bridge,ptp,host-device} \
  $module/plugins/meta/tuning $module/plugins/ipam/host-local
go build -o "$work/conformance" .
version=$(go list -C ../../internal/bench -m -f '{{.Version}}' $module)

plugins=(macvlan bridge ptp host-device tuning host-local)
ipam='"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}'
head='"cniVersion":"1.1.0","name":"net"'
cat > "$work/macvlan.conf" <<< "{$head,\"type\":\"macvlan\",\"master\":\"p0\",\"mtu\":1400,$ipam}"
cat > "$work/bridge.conf" <<< "{$head,\"type\":\"bridge\",\"bridge\":\"br0\",\"isGateway\":true,$ipam}"
cat > "$work/ptp.conf" <<< "{$head,\"type\":\"ptp\",\"mtu\":1400,$ipam}"
cat > "$work/host-device.conf" <<< "{$head,\"type\":\"host-device\",\"device\":\"p0\",$ipam}"
cat > "$work/tuning.conf" <<< "{$head,\"plugins\":[{\"type\":\"ptp\",$ipam},{\"type\":\"tuning\",\"mtu\":1300,\"sysctl\":{\"net.ipv4.conf.IFNAME.arp_filter\":\"1\"}}]}"
cat > "$work/host-local.conf" <<< "{$head,\"type\":\"host-local\",$ipam}"

# At once: most of the time is waiting.
judge() {
  local status=0
  "$work/conformance" -json -plugin "$work/bin/$1" -conf "$work/$1.conf" > "$work/$1.json" || status=$?
  [ $status -le 1 ]
}
jobs=()
for plugin in "${plugins[@]}"; do
  if [ -n "${FROM:-}" ]; then cp "$FROM/$plugin.json" "$work/"; else judge "$plugin" & jobs+=($!); fi
done
for job in "${jobs[@]}"; do wait "$job"; done # each, for its status
for plugin in "${plugins[@]}"; do
  jq -r --arg plugin "$plugin" '[.id, $plugin, .status] | @tsv' "$work/$plugin.json"
  [ -z "${DETAILS:-}" ] || cp "$work/$plugin.json" "$DETAILS/"
done > "$work/all"

{
  printf 'Reference plugins %s, kernel %s; each with the configuration in reference.sh.\n\n' "$version" "$(uname -r | cut -d . -f 1,2)"
  printf '| requirement | level |'; printf ' %s |' "${plugins[@]}"; echo
  printf '| --- | --- |'; printf ' --- |%.0s' "${plugins[@]}"; echo
  jq -r '[.id, .level] | @tsv' "$work/host-local.json" "$work/macvlan.json" "$work/tuning.json" | awk '!seen[$1]++' | sort |
    while IFS=$'\t' read -r id level; do
      printf '| %s | %s |' "$id" "$level"
      for plugin in "${plugins[@]}"; do
        printf ' %s |' "$(awk -F '\t' -v id="$id" -v p="$plugin" '$1 == id && $2 == p { print $3 == "FAIL" ? "**FAIL**" : $3 }' "$work/all")"
      done
      echo
    done
  for status in pass FAIL n/a unjudged; do
    printf '| all: %s | |' "$status"
    for plugin in "${plugins[@]}"; do
      printf ' %s |' "$(awk -F '\t' -v s="$status" -v p="$plugin" '$2 == p && $3 == s' "$work/all" | wc -l)"
    done
    echo
  done
} > "$work/table"

if [ "${1:-}" = -n ]; then
  cat "$work/table"
  exit
fi
awk -v table="$work/table" '
  /^<!-- table -->$/ { print; print ""; while ((getline line < table) > 0) print line; print ""; skip = 1 }
  /^<!-- end of table -->$/ { skip = 0 }
  !skip || /^<!-- end/ { if (!/^<!-- table -->$/) print }
' README.md > "$work/README.md"
cat "$work/README.md" > README.md
