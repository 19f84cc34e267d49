//go:build attack

package attack

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// Lists with an object that cannot be read: stored by an earlier API server, or by who writes to etcd. Only the API
// server in memory has them.

// protobufType is the Content-Type of answers in protobuf.
const protobufType = "application/vnd.kubernetes.protobuf"

// protobufList returns a list of pods with these items, each a pod in protobuf, or none.
func protobufList(t *testing.T, version string, items [][]byte) []byte {
	t.Helper()
	meta, err := (&metav1.ListMeta{ResourceVersion: version}).Marshal()
	must.OK(t, err)
	raw := field(nil, 1, meta)
	for _, item := range items {
		raw = field(raw, 2, item)
	}
	b, err := (&runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: raw,
	}).Marshal()
	must.OK(t, err)
	return append([]byte("k8s\x00"), b...)
}

// field appends a field of bytes to a message.
func field(message []byte, number uint64, data []byte) []byte {
	message = binary.AppendUvarint(message, number<<3|2)
	return append(binary.AppendUvarint(message, uint64(len(data))), data...)
}

// broken is a pod of the attacker that is listed between pods of others.
func broken(g *target, change func(*corev1.Pod)) *corev1.Pod {
	p := node.Pod("broken", node.Image, node.Idle)
	p.Namespace, p.UID, p.ResourceVersion, p.Spec.NodeName = g.ns.mine, "broken", "1", g.Node
	if change != nil {
		change(p)
	}
	return p
}

// lists returns what the API server answers, by what is wrong with it. honest are the pods of others.
func lists(g *target) map[string]func(version string, honest []corev1.Pod) (kind string, body []byte) {
	asProtobuf := func(item func() []byte) func(string, []corev1.Pod) (string, []byte) {
		return func(version string, honest []corev1.Pod) (string, []byte) {
			items := [][]byte{item()}
			for i := range honest {
				b, err := honest[i].Marshal()
				must.OK(g.T, err)
				items = append(items, b)
			}
			items[0], items[len(items)/2] = items[len(items)/2], items[0]
			return protobufType, protobufList(g.T, version, items)
		}
	}
	whole := func(change func(*corev1.Pod)) []byte {
		b, err := broken(g, change).Marshal()
		must.OK(g.T, err)
		return b
	}
	args := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{text} }
	}
	return map[string]func(string, []corev1.Pod) (string, []byte){
		"no UTF-8":  asProtobuf(func() []byte { return whole(args("\xff\xfe")) }),
		"truncated": asProtobuf(func() []byte { b := whole(args(strings.Repeat("x", 1000))); return b[:len(b)-500] }),
		"5 MiB":     asProtobuf(func() []byte { return whole(args(strings.Repeat("x", 5<<20))) }),
		"no object": asProtobuf(func() []byte { return []byte("\xff\xff\xff") }),
		"truncated JSON": func(version string, honest []corev1.Pod) (string, []byte) {
			list := corev1.PodList{Items: append(honest, *broken(g, args(strings.Repeat("x", 1000))))}
			list.Kind, list.APIVersion, list.ResourceVersion = "PodList", "v1", version
			b, err := json.Marshal(list)
			must.OK(g.T, err)
			return "application/json", b[:len(b)-500]
		},
	}
}

// relists has the API server answer so many lists of a resource otherwise, once the watch has failed. A watch that is
// to begin with the objects is refused, so that there is a list.
func (w *world) relists(resource string, times int32, answer http.HandlerFunc) (answered *atomic.Int32) {
	answered = &atomic.Int32{}
	w.breaks(func(r fakeapi.APIRequest) *fakeapi.Fault {
		switch {
		case r.Resource != resource || r.Name != "" || r.Namespace != "" || answered.Load() >= times:
		case r.Verb == "watch" && r.HTTP.URL.Query().Get("sendInitialEvents") == "true":
			return &fakeapi.Fault{Code: http.StatusUnprocessableEntity, Reason: "Invalid"}
		case r.Verb == "watch": // one that had not begun when the others were ended
			return &fakeapi.Fault{Code: http.StatusGone, Reason: "Expired"}
		case r.Verb == "list":
			return &fakeapi.Fault{Serve: func(rw http.ResponseWriter, r *http.Request) {
				answer(rw, r)
				answered.Add(1)
			}}
		}
		return nil
	})
	w.api.FailWatches(resource)
	return answered
}

func TestObjectsThatCannotBeRead(t *testing.T) {
	*realAPI = "" // that one has no such objects: it encodes them itself, and a damaged one in etcd fails its whole list
	attack{
		tenants: true,
		begin: func(g *target) {
			all := lists(g)
			for _, what := range slices.Sorted(maps.Keys(all)) {
				before, err := startOf("bystander-1", g.Node)
				must.OK(t, err)
				answered := g.world.relists("pods", 3, func(w http.ResponseWriter, _ *http.Request) {
					var honest corev1.PodList
					g.must(http.MethodGet, pathOf(g.ns.others, "pods"), nil, &honest)
					kind, body := all[what](honest.ResourceVersion, honest.Items)
					w.Header().Set("Content-Type", kind)
					_, _ = w.Write(body) // all, or the agent has left
				})
				g.bystander()
				if answered.Load() == 0 {
					t.Errorf("%s: the list was not requested", what)
				}
				g.served()
				if after, err := startOf("bystander-1", g.Node); err != nil || !after.Equal(before) {
					t.Errorf("%s: another pod runs since %s, before the list since %s (%v)", what, after, before, err)
				}
			}
			g.world.breaks(nil)
			g.world.api.FailWatches("pods")
		},
	}.run(t)
}

// servicesOf are lists of Services of a tenant, by what they are: so many, each with so many ports.
var servicesOf = []struct {
	what       string
	all, ports int
}{
	{"more than a node keeps", 140_000, 1}, {"large ones", 500, 10_000}, {"nearly what a node keeps", 110_000, 1},
}

// leftOut waits until the agent has left out the Services of the attacker.
func (g *target) leftOut() {
	g.Helper()
	node.Eventually(g.T, settle, "the Services of the largest namespace to be left out", func() error {
		for _, line := range g.linesWith("is left out") {
			if strings.Contains(line, "resource=services") && strings.Contains(line, g.ns.mine) {
				return nil
			}
		}
		return errors.New("the log has no such line")
	})
}

// A real API server lets a tenant create such Services, too: 100,000 in an hour, until its addresses are used up, and
// in a minute some with more ports than a node keeps.
func realServices(g *target) {
	g.Helper()
	each(70, func(i int) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s-", i)}}
		for port := range 10_000 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", port), Port: int32(port + 1)})
		}
		g.must(http.MethodPost, pathOf(g.ns.mine, "services"), s, nil)
	})
	g.leftOut()
}

// A tenant has more Services than a node keeps, and just so many, and pods whose variables they are. Those of the
// largest namespace are left out.
func TestServicesBeyondAllNumbers(t *testing.T) {
	attack{
		tenants: true, restart: *realAPI != "",
		begin: func(g *target) {
			if *realAPI != "" {
				realServices(g)
				return
			}
			for _, list := range servicesOf {
				answered := g.world.relists("services", 1, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[{}`,
						g.world.api.Version())
					ports := strings.Repeat(`,{"port":80}`, list.ports)[1:]
					for i := range list.all {
						fmt.Fprintf(w, `,{"metadata":{"name":"s-%d","namespace":%q,"uid":"s-%d","resourceVersion":"1"},"spec":`+
							`{"clusterIP":"10.0.0.1","ports":[%s]}}`, i, g.ns.mine, i, ports)
					}
					fmt.Fprint(w, "]}")
				})
				node.Eventually(t, settle, "the list of Services: "+list.what, func() error {
					if answered.Load() == 0 {
						return errors.New("it was not requested")
					}
					return nil
				})
				g.bystander()
			}
			// As on a node with a kubelet, no process can be given the variables of so many.
			each(20, func(i int) { g.create(g.ns.mine, node.Pod(fmt.Sprint("linked-", i), node.Image, node.Idle)) })
			for i := range 20 {
				g.awaitPod(g.ns.mine, fmt.Sprint("linked-", i), "to wait", func(p *corev1.Pod) bool {
					waiting := node.Container(p, "main").State.Waiting
					return waiting != nil && strings.Contains(waiting.Message, "enableServiceLinks")
				})
			}
		},
	}.run(t)
}
