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

// canonical gives the bytes that stand for a pod, and their digest. encoding/json writes fields in the order of the
// types and maps in the order of their keys, so the same pod always gives the same bytes.
func canonical(pod *corev1.Pod) ([]byte, string, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, "", err
	}
	return data, Digest(data), nil
}

// Digest names canonical bytes: "sha256:" and 64 hexadecimal digits.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Load reads a pod back from its canonical bytes, adding no defaults: they were applied before the bytes were hashed.
// Fields that a later version wrote and this one does not know are left out. An error means that the bytes are not
// what Decode gave; compare Digest of them with the name they were stored under.
func Load(canonical []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(canonical, pod); err != nil {
		// The decoder's own words may quote a value.
		return nil, errors.New("load manifest: not the JSON of a pod; compare the digest of the stored bytes")
	}
	if pod.Kind != "Pod" || pod.APIVersion != "v1" {
		return nil, fmt.Errorf("load manifest: kind %q of apiVersion %q is not a v1 Pod; compare the digest of the stored bytes",
			pod.Kind, pod.APIVersion)
	}
	return pod, nil
}
