package status_test

import (
	"fmt"

	"github.com/cnikit/cnikit/examples/multinet/status"
	"github.com/cnikit/cnikit/netconf"
)

// The annotation of a pod with one network.
func Example() {
	result, err := netconf.ParseResult([]byte(`{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/pod"}],"ips":[{"address":"10.0.0.5/24","interface":0}]}`), "1.0.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := status.Encode(status.Of([]status.Attachment{{Name: "default/lan", Result: result}}))
	fmt.Println(text, err)
	// Output:
	// [
	//     {
	//         "name": "default/lan",
	//         "interface": "eth0",
	//         "ips": [
	//             "10.0.0.5"
	//         ],
	//         "default": true,
	//         "dns": {}
	//     }
	// ] <nil>
}
