#!/bin/sh
# test-ipam: an IPAM plugin for tests, see IPAM in ipam.go. Its folder holds:
#   answer         what ADD prints; @N@ is the reservation's number
#   reserved/N     a reservation, content "CONTAINERID IFNAME"
#   exit           the exit status of ADD after it has printed this, if there
#   fail.VERB, hang.VERB, hold.VERB, calls, input.VERB (the last stdin), pid (of the one that hangs)
set -u
dir=$(dirname "$0")
config=$(cat)
error() { # CODE MESSAGE
	printf '{"cniVersion":"1.0.0","code":%s,"msg":"%s"}\n' "$1" "$2"
	exit 1
}
wait_while() { # FILE
	[ -e "$1" ] || return 0
	echo $$ > "$dir/pid.new" && mv "$dir/pid.new" "$dir/pid"
	while [ -e "$1" ]; do sleep 0.05; done
}
finish() {
	wait_while "$dir/hold.$CNI_COMMAND"
	[ ! -e "$dir/fail.$CNI_COMMAND" ] || error 101 "test-ipam: $CNI_COMMAND fails as the test wants"
	exit 0
}
case $config in *'"test-ipam"'*) ;; *) error 6 "test-ipam: this configuration does not name it" ;; esac
echo "$CNI_COMMAND" >> "$dir/calls"
printf %s "$config" > "$dir/input.$$" && mv "$dir/input.$$" "$dir/input.$CNI_COMMAND"
wait_while "$dir/hang.$CNI_COMMAND"
case $CNI_COMMAND in
GC | STATUS) finish ;;
esac
owner="${CNI_CONTAINERID:?} ${CNI_IFNAME:?}"
mine=$(grep -lx "$owner" "$dir"/reserved/* 2>/dev/null)
case $CNI_COMMAND in
ADD)
	[ -z "$mine" ] || error 100 "test-ipam: $owner has an address already"
	n=2
	until (set -C; echo "$owner" > "$dir/reserved/$n") 2>/dev/null; do n=$((n + 1)); done
	[ -e "$dir/fail.ADD" ] || sed "s/@N@/$n/g" "$dir/answer"
	[ ! -e "$dir/exit" ] || exit "$(cat "$dir/exit")"
	;;
CHECK) [ -n "$mine" ] || error 102 "test-ipam: $owner has no address" ;;
DEL) [ -z "$mine" ] || rm -f $mine ;;
*) error 4 "test-ipam: unknown CNI_COMMAND" ;;
esac
finish
