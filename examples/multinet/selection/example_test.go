package selection_test

import (
	"fmt"

	"github.com/cnikit/cnikit/examples/multinet/selection"
)

// What a pod asks for becomes attachments; here without a cluster.
func Example() {
	asked, err := selection.Parse("storage@data0, backup/net-b", "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	wanted := []string{""} // the default network's
	for _, e := range asked {
		wanted = append(wanted, e.Interface)
	}
	names, err := selection.Names("eth0", wanted)
	fmt.Println(asked, names, err)
	fmt.Println(selection.Fence{On: true, Global: []string{"default"}}.Check("shop", asked[1]))
	network, err := selection.Network([]byte(`{"type":"macvlan","master":"eth1"}`), asked[0].Name, "1.1.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := asked[0].Attach(network, names[1], selection.Options{})
	fmt.Println(a.IfName, a.Network.Name, a.Network.CNIVersion, err)
	// Output:
	// [shop/storage backup/net-b] [eth0 data0 net2] <nil>
	// network "backup/net-b": namespace "backup" is not the pod's, "shop", nor one that all may use (namespaceIsolation is on)
	// data0 storage 1.1.0 <nil>
}
