package device_test

import (
	"fmt"

	"github.com/cnikit/cnikit/examples/multinet/device"
)

// A pod has two devices of a resource, and two of its networks want one each; the second asks for it by its ID.
func ExampleAllocated_Assign() {
	has := device.Allocated{"vendor.example/nic": {"0000:01:00.1", "0000:01:00.2"}}
	ids, err := has.Assign([]device.Want{
		{}, // the default network wants none
		{Resource: "vendor.example/nic"},
		{Resource: "vendor.example/nic", ID: "0000:01:00.1"},
	})
	fmt.Printf("%q %v\n", ids, err)
	// Output: ["" "0000:01:00.2" "0000:01:00.1"] <nil>
}
