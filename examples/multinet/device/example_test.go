package device_test

import (
	"fmt"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/device"
)

// A pod has two devices of a resource, and two of its networks want one each.
func ExampleAllocated_Assign() {
	has := device.Allocated{"vendor.example/nic": {"0000:01:00.1", "0000:01:00.2"}}
	nic := device.Want{Resource: "vendor.example/nic"}
	ids, err := has.Assign([]device.Want{{}, nic, nic}) // the default network wants none
	if err != nil {
		fmt.Println(err)
		return
	}
	network, err := delegate.ParseNetwork([]byte(`{"cniVersion":"1.0.0","name":"fast","type":"sriov"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	if network, err = device.Inject(network, ids[2]); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n%s\n", ids, network.Plugins[0])
	// Output:
	// ["" "0000:01:00.1" "0000:01:00.2"]
	// {"cniVersion":"1.0.0","name":"fast","type":"sriov","deviceID":"0000:01:00.2","pciBusID":"0000:01:00.2"}
}
