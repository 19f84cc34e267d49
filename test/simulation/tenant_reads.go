package simulation

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/source/api"
)

// With a hostile tenant lists and watches of pods have the bytes that an API server sends, and the client reads them:
// what it cannot read, and what is too much, it leaves out.

// newPodReader returns what reads the pods of a run, nil without a hostile tenant.
func newPodReader(r *run) *client.Reader[corev1.Pod] {
	if r.config.hostile == nil {
		return nil
	}
	return client.NewReader(client.Pods.With(api.Reduce), r.config.hostile.listMost,
		func() time.Time { return time.Unix(0, 0).Add(r.clock.uptime) })
}

// Numbers of fields, and what begins an answer in protobuf (k8s.io/api, k8s.io/apimachinery).
const (
	fieldListMeta  = 1
	fieldListItems = 2
	protobufMagic  = "k8s\x00"
)

// enveloped returns an encoded object as the API server sends it.
func enveloped(kind string, raw []byte) ([]byte, error) {
	b, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}).Marshal()
	return append([]byte(protobufMagic), b...), err
}

// encode returns a pod's bytes, other bytes for a damaged pod.
func (a *apiServer) encode(p *corev1.Pod) ([]byte, error) {
	if a.unreadable == p.UID {
		return bytes.Repeat([]byte{0xff}, 64), nil
	}
	return p.Marshal()
}

// readList returns the items of a list of pods as the client reads them.
func (m *member) readList(version int64, items []any) ([]any, error) {
	meta, err := (&metav1.ListMeta{ResourceVersion: fmt.Sprint(version)}).Marshal()
	if err != nil {
		return nil, err
	}
	raw := protowire.AppendBytes(protowire.AppendTag(nil, fieldListMeta, protowire.BytesType), meta)
	for _, item := range items {
		b, err := m.run.api.encode(item.(*corev1.Pod))
		if err != nil {
			return nil, err
		}
		raw = protowire.AppendBytes(protowire.AppendTag(raw, fieldListItems, protowire.BytesType), b)
	}
	body, err := enveloped("PodList", raw)
	if err != nil {
		return nil, err
	}
	list, err := m.reads.List(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	read := list.(*corev1.PodList)
	items = nil
	for i := range read.Items {
		items = append(items, &read.Items[i])
	}
	return items, nil
}

// listAgain returns after which time a watch ends, so that a list follows, since something could not be read; false: it
// does not, for the hour that it waits for changes.
func (m *member) listAgain(nodes bool) (time.Duration, bool) {
	if nodes || m.reads == nil {
		return time.Hour, false
	}
	if pause, due := m.reads.ListAgain(); due {
		return pause, true
	}
	return time.Hour, false
}

// storeEvent stores a change of a pod as the client reads it from a watch.
func (m *member) storeEvent(to cache.ReflectorStore, c *change) error {
	raw, err := m.run.api.encode(c.pod)
	if err != nil {
		return err
	}
	object, err := enveloped("Pod", raw)
	if err != nil {
		return err
	}
	e := metav1.WatchEvent{Type: string(c.kind), Object: runtime.RawExtension{Raw: object}}
	b, err := e.Marshal()
	if err != nil {
		return err
	}
	read, err := m.reads.Event(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)))
	for _, e := range read {
		switch e.Type {
		case watch.Added:
			err = to.Add(e.Object)
		case watch.Deleted:
			err = to.Delete(e.Object)
		default:
			err = to.Update(e.Object)
		}
	}
	m.run.tenants.keeps(c.pod.UID, m.pods.Pods().Get(c.pod.UID))
	return err
}
