package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	k8sjson "sigs.k8s.io/json"
)

// canonical returns a pod's canonical bytes and their digest. encoding/json writes fields in the order of the types and
// maps in the order of their keys, so equal pods give equal bytes. Nothing is escaped for HTML: "<" would take
// six bytes.
func canonical(pod *corev1.Pod) ([]byte, string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(pod); err != nil {
		return nil, "", err
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return data, Digest(data), nil
}

// Escaped returns the pod in the bytes of versions up to 0.1.0, which escaped "<", ">" and "&" for HTML. A pod that is
// recorded with their digest keeps it: it would be updated for nothing.
func (p Parsed) Escaped() Parsed {
	if !bytes.ContainsAny(p.Canonical, "<>&") {
		return p
	}
	var b bytes.Buffer
	json.HTMLEscape(&b, p.Canonical)
	p.Canonical = b.Bytes()
	p.Digest = Digest(p.Canonical)
	return p
}

// Digest returns the digest of canonical bytes: "sha256:" and 64 hexadecimal digits.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Load decodes a pod from its canonical bytes. It adds no defaults, because Decode has applied them. Unknown fields of
// a later version are dropped. An error means that the bytes did not come from Decode; compare their Digest with the
// digest that they are stored by.
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
