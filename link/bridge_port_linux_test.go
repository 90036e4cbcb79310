package link_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// Isolated ports reach the gateway and those that are not isolated, and not each other.
func TestBridgePortIsolation(t *testing.T) {
	bridged(t)
	spaces := []*skeltest.NS{space(t), space(t), space(t)}
	for i, ns := range spaces {
		p := plugin(link.Bridge{Name: "cni7"}, link.Veth{Bridge: "cni7", Isolated: i < 2},
			ipam([]string{"10.1.0.2/24", "10.1.0.3/24", "10.1.0.4/24"}[i]), link.Gateway{Bridge: "cni7"}, link.Addresses{})
		made := add(ns, []string{"a", "b", "c"}[i]).Run(t.Context(), t, p).OK(t)
		add(ns, []string{"a", "b", "c"}[i]).With(netconf.Check).WithPrev(made).Run(t.Context(), t, p).OK(t)
		ns.Ping("10.1.0.1")
	}
	spaces[0].Ping("10.1.0.4")
	spaces[2].Ping("10.1.0.3")
	if reaches(spaces[0], "10.1.0.3") || reaches(spaces[1], "10.1.0.2") {
		t.Error("an isolated port reaches another")
	}
}

// Two macvlans behind one port, in the mode vepa, send what is for each other out to the bridge: only a hairpin brings it back.
func TestBridgePortHairpin(t *testing.T) {
	for _, hairpin := range []bool{false, true} {
		bridged(t)
		ns := space(t)
		p := plugin(link.Bridge{Name: "cni7"}, link.Veth{Bridge: "cni7", Hairpin: hairpin}, ipam("10.1.0.2/24"), link.Gateway{Bridge: "cni7"}, link.Addresses{})
		add(ns, "a").Run(t.Context(), t, p).OK(t)
		ns.Run("sh", "-c", "ip address flush dev eth0; ip link add m1 link eth0 type macvlan mode vepa; ip link set m1 up; ip address add 10.1.0.5/24 dev m1")
		other := space(t)
		_, inside := spaces(t, ns)
		_, second := spaces(t, other)
		peer := link.Macvlan{Parent: link.Parent{Name: "eth0"}, Mode: link.MacvlanVEPA}
		if _, err := peer.Create(t.Context(), inside, second, link.Owner{Network: "net", ContainerID: "m", IfName: "m2"}); err != nil {
			t.Fatal(err)
		}
		other.Run("sh", "-c", "ip link set m2 up; ip address add 10.1.0.6/24 dev m2")
		if reached := reaches(ns, "10.1.0.6"); reached != hairpin {
			t.Errorf("hairpin %v: a packet comes back by the port that it came from: %v", hairpin, reached)
		}
		add(ns, "a").With(netconf.Del).Run(t.Context(), t, p).OK(t)
	}
}

// A container that sends with another's hardware address takes its packets, unless the bridge knows for good who has it.
func TestBridgePortFixed(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		bridged(t)
		victim, thief, third := space(t), space(t), space(t)
		victim.Run("sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1") // he says nothing of himself
		for i, ns := range []*skeltest.NS{victim, thief, third} {
			p := plugin(link.Bridge{Name: "cni7"}, link.Veth{Bridge: "cni7", Fixed: fixed}, ipam([]string{"10.1.0.2/24", "10.1.0.3/24", "10.1.0.4/24"}[i]), link.Addresses{})
			made := add(ns, []string{"a", "b", "c"}[i]).Run(t.Context(), t, p).OK(t)
			add(ns, []string{"a", "b", "c"}[i]).With(netconf.Check).WithPrev(made).Run(t.Context(), t, p).OK(t)
		}
		third.Ping("10.1.0.2")
		mac := field(victim.Run("ip", "link", "show", "eth0"), "link/ether")
		victim.Run("ip", "neighbour", "replace", "10.1.0.4", "lladdr", field(third.Run("ip", "link", "show", "eth0"), "link/ether"), "dev", "eth0", "nud", "permanent")
		third.Run("ip", "neighbour", "replace", "10.1.0.2", "lladdr", mac, "dev", "eth0", "nud", "permanent")
		// The thief asks for what does not answer, with the victim's address: the bridge sees that address behind his port.
		thief.Run("ip", "link", "set", "eth0", "address", mac)
		reaches(thief, "10.1.0.99")
		if reached := reaches(third, "10.1.0.2"); reached != fixed {
			t.Errorf("fixed %v: the victim is reached: %v", fixed, reached)
		}
		ignore(t, "ip link del cni7")
		for _, id := range []string{"a", "b", "c"} {
			ignore(t, "ip link del "+owner(id).HostName("host"))
		}
	}
}

// field is the word behind another.
func field(text, after string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if w == after && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// What is known for good is compared, and brought back; a port that learns again is found.
func TestBridgePortFixedDamaged(t *testing.T) {
	bridge(t)
	ns := space(t)
	host, container := spaces(t, ns)
	v := link.Veth{Bridge: "br7", Fixed: true, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}}
	end := owner("a").HostName("host")
	for _, damage := range []string{"true", "bridge link set dev HOST learning on", "bridge fdb del 02:00:00:00:00:01 dev HOST master", "ip link set HOST nomaster"} {
		skeltest.Host(t, "sh", "-c", strings.ReplaceAll(damage, "HOST", end))
		if err := v.Verify(t.Context(), host, container, owner("a"), nil); !errors.Is(err, netconf.ErrDifferent) {
			t.Errorf("%s: %v", damage, err)
		}
		if _, _, err := v.Ensure(t.Context(), host, container, owner("a")); err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		ns.Run("ip", "link", "set", "eth0", "up")
		if err := v.Verify(t.Context(), host, container, owner("a"), nil); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
	}
	v.Fixed = false
	if _, _, err := v.Ensure(t.Context(), host, container, owner("a")); err != nil {
		t.Fatal(err)
	}
	if port := skeltest.Host(t, "bridge", "-d", "link", "show", "dev", end); !strings.Contains(port, "learning on") {
		t.Error(port)
	}
}

// The container's end may be left down, for who is in it; CHECK takes both.
func TestVethDown(t *testing.T) {
	bridge(t)
	ns := space(t)
	host, container := spaces(t, ns)
	p := plugin(link.Veth{Bridge: "br7", Down: true})
	made := add(ns, "a").Run(t.Context(), t, p).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(made)
	for _, state := range []string{"down", "up"} {
		ns.Run("ip", "link", "set", "eth0", state)
		check.Run(t.Context(), t, p).OK(t)
	}
	ns.Run("ip", "link", "set", "eth0", "down")
	if _, _, err := (link.Veth{Bridge: "br7", Down: true}).Ensure(t.Context(), host, container, owner("a")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(ns.Run("ip", "link", "show", "eth0"), ",UP") { // after <BROADCAST,MULTICAST
		t.Error("Ensure set it up")
	}
}

// What the bridge is asked to be is compared: promiscuous mode that is off again is found, and brought back.
func TestBridgePromiscCheck(t *testing.T) {
	ns := space(t)
	bridged(t)
	host, _ := spaces(t, ns)
	b := link.Bridge{Name: "cni7", Promisc: true}
	for range 2 {
		if _, err := b.Ensure(t.Context(), host, owner("a")); err != nil {
			t.Fatal(err)
		}
		if err := b.Verify(t.Context(), host, owner("a")); err != nil {
			t.Error(err)
		}
		skeltest.Host(t, "ip", "link", "set", "cni7", "promisc", "off")
		if err := b.Verify(t.Context(), host, owner("a")); !errors.Is(err, netconf.ErrDifferent) || !strings.Contains(err.Error(), "promiscuous") {
			t.Errorf("%v", err)
		}
	}
}

// Both ends have the kernel's queue: the container's had none, which a queueing discipline in it would go by.
func TestVethQueueOfTheContainersEnd(t *testing.T) {
	ns := space(t)
	add(ns, "a").Run(t.Context(), t, plugin(link.Veth{}, link.Addresses{})).OK(t)
	if show := ns.Run("ip", "link", "show", "dev", "eth0"); field(show, "qlen") != "1000" {
		t.Error(show)
	}
}
