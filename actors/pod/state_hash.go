package pod

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// ContainerHash is the kubelet's hash of a container (1.31 and later: of its name and image only), in hexadecimal
// without leading zeros, as it is in the annotation io.kubernetes.container.hash. It must agree with the kubelet
// bit for bit: with another value every container taken over from a kubelet would be restarted.
func ContainerHash(c *corev1.Container) string {
	picked, err := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	if err != nil {
		panic(fmt.Sprintf("pod: two strings did not marshal: %v", err))
	}
	// The bytes themselves are not hashed but their dump as a Go value, as the kubelet hashes any object. It is written
	// here and not by k8s.io/utils/dump, which takes ten times as long: every decision on a running container needs it.
	dump := make([]byte, 0, len("([]uint8)[]")+4*len(picked))
	dump = append(dump, "([]uint8)["...)
	for i, b := range picked {
		if i > 0 {
			dump = append(dump, ' ')
		}
		dump = strconv.AppendUint(dump, uint64(b), 10)
	}
	h := fnv.New32a()
	_, _ = h.Write(append(dump, ']')) // never fails
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
