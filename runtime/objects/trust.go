package objects

import (
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// certificateBlock is the type of the PEM blocks that a bundle has.
	certificateBlock = "CERTIFICATE"
	// maxLabelSelectorBytes bounds the text of a label selector of trust bundles. It is the kubelet's bound
	// (pkg/kubelet/clustertrustbundle/clustertrustbundle_manager.go).
	maxLabelSelectorBytes = 100 << 10
	// maxTrustSelectorBytes bounds a selector of trust bundles as JSON, which has more bytes than its text.
	maxTrustSelectorBytes = 512 << 10
)

// Certificates are the certificates of trust bundles, each once. The zero value has none.
type Certificates struct{ all map[[sha256.Size]byte][]byte }

// Add adds the certificates of a text in PEM. What else is in it is dropped: also blocks of other types, which the
// kubelet would pass to the pod as certificates, be they private keys.
func (c *Certificates) Add(text string) {
	if c.all == nil {
		c.all = map[[sha256.Size]byte][]byte{}
	}
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return
		}
		if block.Type == certificateBlock {
			c.all[sha256.Sum256(block.Bytes)] = block.Bytes
		}
	}
}

// PEM returns the certificates sorted by their hash, an order that no reader can depend on, and that is the same after
// a restart. It is never nil.
func (c *Certificates) PEM() []byte {
	out := []byte{}
	order := func(a, b [sha256.Size]byte) int { return slices.Compare(a[:], b[:]) }
	for _, sum := range slices.SortedFunc(maps.Keys(c.all), order) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.all[sum]})...)
	}
	return out
}

// TrustSelector returns which trust bundles a key without a name selects: a signer's bundles, by their labels. As in
// the kubelet, a missing label selector selects nothing, and an empty label selector everything.
func TrustSelector(k Key) (signer string, matches labels.Selector, err error) {
	var projection corev1.ClusterTrustBundleProjection
	if bounded.JSON([]byte(k.Selector), maxTrustSelectorBytes, &projection) != nil || projection.SignerName == nil {
		return "", nil, errors.New("the label selector of the trust bundles cannot be read")
	}
	matches, err = metav1.LabelSelectorAsSelector(projection.LabelSelector)
	if err != nil {
		return "", nil, fmt.Errorf("while parsing label selector: %w", err)
	}
	if n := len(matches.String()); n > maxLabelSelectorBytes {
		return "", nil, fmt.Errorf("label selector length (%d) is larger than %d", n, maxLabelSelectorBytes)
	}
	return *projection.SignerName, matches, nil
}
