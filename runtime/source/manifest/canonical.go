package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	k8sjson "sigs.k8s.io/json"
)

// canonical returns a pod's canonical bytes and their digest. encoding/json writes fields in the order of the types and
// maps in the order of their keys, so equal pods give equal bytes.
func canonical(pod *corev1.Pod) ([]byte, string, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, "", err
	}
	return data, Digest(data), nil
}

// Digest returns the digest of canonical bytes: "sha256:" and 64 hexadecimal digits.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Load decodes a pod from its canonical bytes. It adds no defaults, because Decode has applied them. Unknown fields of
// a later version are dropped. An error means that the bytes are not those of Decode; compare their Digest with the one
// under which they are stored.
func Load(canonical []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(canonical, pod); err != nil {
		// The decoder's message may quote a value.
		return nil, errors.New("load manifest: not the JSON of a pod; compare the digest of the stored bytes")
	}
	if pod.Kind != "Pod" || pod.APIVersion != "v1" {
		return nil, fmt.Errorf(
			"load manifest: kind %q of apiVersion %q is not a v1 Pod; compare the digest of the stored bytes",
			pod.Kind, pod.APIVersion)
	}
	return pod, nil
}
