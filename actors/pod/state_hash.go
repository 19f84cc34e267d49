package pod

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// ContainerHash is the kubelet's hash of a container (1.31 and later: of its name and image only), in hexadecimal
// without leading zeros, as it is in the annotation io.kubernetes.container.hash. It must agree with the kubelet
// bit for bit: with another value every container taken over from a kubelet would be restarted.
func ContainerHash(c *corev1.Container) string {
	picked, err := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	if err != nil {
		panic(fmt.Sprintf("pod: two strings did not marshal: %v", err))
	}
	h := fnv.New32a()
	// The bytes themselves are not hashed but their dump as a Go value, as the kubelet hashes any object.
	fmt.Fprintf(h, "%v", dump.ForHash(picked))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
