package node

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/journalet/journalet/runtime/bounded"
)

// maxNodeBytes bounds a patch of a Node: more than etcd stores of one object.
const maxNodeBytes = 4 << 20

// patches are strategic merge patches of a Node and of its status; nil: nothing differs there.
type patches struct{ metadata, status []byte }

func (p patches) empty() bool { return p.metadata == nil && p.status == nil }

// compare returns the patches that turn from into to. They hold no spec, and the UID, so that another Node of the same
// name is not changed.
func compare(from, to *corev1.Node) (patches, error) {
	m, err := difference(from, to)
	if err != nil || len(m) == 0 {
		return patches{}, err
	}
	var out patches
	meta, _ := m["metadata"].(map[string]any)
	status, _ := m["status"].(map[string]any)
	uid := map[string]any{"uid": from.UID}
	if !equality.Semantic.DeepEqual(from.Status.Addresses, to.Status.Addresses) {
		// Merged by type, two addresses of one type would become one.
		if status == nil {
			status = map[string]any{}
		}
		delete(status, "$setElementOrder/addresses")
		all := []any{map[string]any{"$patch": "replace"}}
		for _, a := range to.Status.Addresses {
			all = append(all, a)
		}
		status["addresses"] = all
	}
	if status != nil {
		if out.status, err = json.Marshal(map[string]any{"metadata": uid, "status": status}); err != nil {
			return out, fmt.Errorf("encode the status of the Node: %w", err)
		}
	}
	if meta != nil {
		meta["uid"] = from.UID
		if out.metadata, err = json.Marshal(map[string]any{"metadata": meta}); err != nil {
			return out, fmt.Errorf("encode the metadata of the Node: %w", err)
		}
	}
	return out, nil
}

// difference returns the strategic merge patch of all but the spec.
func difference(from, to *corev1.Node) (map[string]any, error) {
	old, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("encode the Node: %w", err)
	}
	desired := to.DeepCopy()
	desired.Spec = from.Spec
	after, err := json.Marshal(desired)
	if err != nil {
		return nil, fmt.Errorf("encode the Node: %w", err)
	}
	diff, err := strategicpatch.CreateTwoWayMergePatch(old, after, corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("compare the Node: %w", err)
	}
	var m map[string]any
	if err := bounded.JSON(diff, maxNodeBytes, &m); err != nil {
		return nil, fmt.Errorf("compare the Node: %w", err)
	}
	return m, nil
}

// write sends patches, and returns the Node of the last answer.
func (d *Driver) write(ctx context.Context, p patches) (n *corev1.Node, err error) {
	if p.metadata != nil {
		n, err = d.requests().PatchNode(ctx, p.metadata)
	}
	if err == nil && p.status != nil {
		n, err = d.requests().PatchNode(ctx, p.status, "status")
	}
	return n, err
}
