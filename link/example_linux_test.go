package link_test

import (
	"fmt"

	"github.com/cnikit/cnikit/link"
	"github.com/containernetworking/plugins/pkg/ns"
)

// Code that has an upstream ns.NetNS goes on with it.
func ExampleFromNS() {
	netns, err := ns.GetCurrentNS()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer netns.Close()
	n, err := link.FromNS(netns)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close()
	host, err := link.Current()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer host.Close()
	fmt.Println("the same namespace:", n.Is(host))
	// Output: the same namespace: true
}
