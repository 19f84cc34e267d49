//go:build attack

package attack

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/test/fullpod"
	"github.com/journalet/journalet/test/node"
)

// Pods of a tenant, and other objects of it, as large and as many as the API server takes.

// largeArgs are the bytes of a large pod's argument: etcd takes 1.5 MiB.
const largeArgs = 1_380_000

// shorter is a number of objects, less of them in the short form.
func shorter(all, short int) int {
	if *inShort {
		return short
	}
	return all
}

// large gives a pod an argument without which nothing reads it.
func large(i int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Args = []string{strings.Repeat(fmt.Sprintf("%08d<&>", i), largeArgs/11)}
	}
}

// nowhere lets no node admit a pod.
func nowhere(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }

// tolerant gives a pod so many tolerations, which admission compares with the node's taints. 5000 are within what the
// node takes of a pod, 11,000 are as many as the API server takes.
func tolerant(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range n {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
				Key: fmt.Sprintf("%05d.%s", i, strings.Repeat("k", 57)), Operator: corev1.TolerationOpExists,
			})
		}
	}
}

// Pods with tolerations are more memory than text, and stay in it. The agent is restarted.
func TestListsOfTolerantPods(t *testing.T) {
	attack{
		tenants: true,
		begin: func(g *target) {
			each(shorter(52, 8), func(i int) {
				p := node.Pod(fmt.Sprintf("tolerant-%d", i), node.Image, node.Idle, tolerant(5000))
				if i%4 != 0 {
					tolerant(6000)(p)
				}
				g.create(g.ns.mine, p)
			})
			g.awaitPod(g.ns.mine, "tolerant-1", "to be rejected", rejected)
			g.awaitPod(g.ns.mine, "tolerant-0", "to run", node.Ready)
		},
		restart: true,
	}.run(t)
}

// Large pods that use no quota, as the node rejects them, some that it runs, and Services with large annotations: more
// than any bound of a list's bytes. The agent is restarted.
func TestListsOfLargeObjects(t *testing.T) {
	attack{
		tenants: true,
		begin: func(g *target) {
			each(shorter(52, 8), func(i int) {
				p := node.Pod(fmt.Sprintf("large-%d", i), node.Image, node.Idle, large(i))
				if i%4 != 0 {
					nowhere(p)
				}
				g.create(g.ns.mine, p)
			})
			each(shorter(270, 30), func(i int) {
				g.must(http.MethodPost, pathOf(g.ns.mine, "services"), &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{
						Name: fmt.Sprintf("s-%d", i), Annotations: map[string]string{"a": strings.Repeat("x", 250<<10)},
					},
					Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
				}, nil)
			})
			g.awaitPod(g.ns.mine, "large-1", "to be rejected", rejected)
		},
		restart: true,
	}.run(t)
}

// A pod for each field that there is, with this field filled, and a pod with all of them. Each is large enough to be
// kept without its large texts. The agent is restarted.
func TestPodsOfEveryField(t *testing.T) {
	attack{
		tenants: true,
		begin: func(g *target) {
			base := node.Pod("field", node.Image, node.Idle, func(p *corev1.Pod) {
				p.Spec.NodeName = g.Node
				p.Spec.Containers[0].Args = []string{strings.Repeat("x", 2000)}
			})
			all := base.DeepCopy()
			fullpod.Fill(&all.Spec)
			pods := map[string]*corev1.Pod{"every field": all}
			for field, p := range fullpod.Each(base) {
				pods[field] = p
			}
			taken := 0
			for i, field := range slices.Sorted(maps.Keys(pods)) {
				p := pods[field]
				p.Name, p.Namespace, p.Spec.NodeName = fmt.Sprintf("field-%d-%s", i, g.Node), g.ns.mine, g.Node
				p.Annotations = map[string]string{"field": field}
				if _, err := g.send(http.MethodPost, pathOf(g.ns.mine, "pods"), p, nil); err == nil {
					taken++
				}
			}
			g.Logf("the API server takes %d of %d pods", taken, len(pods))
			if taken == 0 {
				g.Error("there is no such pod")
			}
		},
		restart: true,
		check: func(g *target) {
			var list corev1.PodList
			g.must(http.MethodGet, pathOf(g.ns.mine, "pods"), nil, &list)
			for i := range list.Items {
				if p := &list.Items[i]; strings.Contains(p.Status.Message, defect.Remedy) {
					g.Errorf("%s: %s", p.Annotations["field"], p.Status.Message)
				}
			}
		},
	}.run(t)
}

// A reference of a megabyte, which the API server does not validate, in a pod that requests nearly the whole node. It
// is patched, deleted, and deleted by force. What it requests is free all the time.
func TestReferenceOfAMegabyte(t *testing.T) {
	attack{
		tenants: true,
		begin: func(g *target) {
			cpu := corev1.ResourceList{corev1.ResourceCPU: g.most(corev1.ResourceCPU)}
			for name, grace := range map[string]int64{"deleted": 2, "forced": 0} {
				g.create(g.ns.mine, node.Pod(name, node.Image, node.Idle, node.Scratch, func(p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests = cpu
					p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{
						Secret: &corev1.SecretVolumeSource{SecretName: strings.Repeat("s", 1_100_000)},
					}
				}))
				g.awaitPod(g.ns.mine, name, "to be rejected", rejected)
				each(20, func(i int) { g.label(name, fmt.Sprint(i)) })
				g.create(g.ns.others, node.Pod("beside-"+name, node.Image, node.Idle, func(p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests = cpu
				}))
				g.awaitPod(g.ns.others, "beside-"+name, "to run", node.Ready)
				g.remove(g.ns.others, "beside-"+name, 1)
				g.remove(g.ns.mine, name, grace)
				g.gone(g.ns.mine, name)
				g.gone(g.ns.others, "beside-"+name)
			}
		},
		restart: true,
	}.run(t)
}

// label gives a pod of the attacker a label.
func (g *target) label(pod, value string) {
	g.Helper()
	g.must(http.MethodPatch, g.pod(g.ns.mine, pod), map[string]any{
		"metadata": map[string]any{"labels": map[string]string{"l": value}},
	}, nil)
}

// A label of one's own large pod is changed again and again. Of each version the node stores what differs.
func TestPatchesOfALargePod(t *testing.T) {
	const bound = 64 << 20
	patches, patched := 300, each
	if *realAPI != "" { // it repeats each of several at once until it is the only one, or half a minute is over
		patches, patched = 100, inTurn
	}
	attack{
		tenants: true, flags: []string{"--journal-retention-bytes", fmt.Sprint(bound)},
		begin: func(g *target) {
			g.create(g.ns.mine, node.Pod("large", node.Image, node.Idle, func(p *corev1.Pod) {
				p.Spec.Containers[0].Args = []string{strings.Repeat("<", largeArgs)}
			}))
			patched(patches, func(i int) { g.label("large", fmt.Sprint(i)) })
			g.bystander() // comes after all of them in the watch
		},
		check: func(g *target) {
			n := g.stored()
			g.Logf("%d patches take %d MiB", patches, n>>20)
			if n > bound {
				g.Errorf("journal and manifests take %d bytes, the bound is %d", n, bound)
			}
		},
	}.run(t)
}

// Each of many pods has a ConfigMap of its own, as large as can be.
func TestLargeConfigMaps(t *testing.T) {
	attack{
		tenants: true,
		begin: func(g *target) {
			const pods = 30
			each(pods, func(i int) {
				name := fmt.Sprintf("config-%d", i)
				g.must(http.MethodPost, pathOf(g.ns.mine, "configmaps"), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: name},
					Data:       map[string]string{"k": strings.Repeat(fmt.Sprintf("%07d\n", i), 1<<20/8-64)},
				}, nil)
				g.create(g.ns.mine, node.Pod(name, node.Image, "[ $(wc -c </v/k) -gt 1000000 ] && "+node.Idle, node.Scratch,
					func(p *corev1.Pod) {
						p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
					}))
			})
			for i := range pods {
				g.awaitPod(g.ns.mine, fmt.Sprintf("config-%d", i), "to run", node.Ready)
			}
		},
		restart: true,
	}.run(t)
}

// Containers that end at once, again and again, with what acts on a terminal or is no UTF-8 as their last message.
func TestCrashLoopsWithEscapeSequences(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;owned\x07\xff\xfe\u202e" + strings.Repeat("\x1b[31m", 500)
	attack{
		tenants: true,
		begin: func(g *target) {
			script := "echo " + base64.StdEncoding.EncodeToString([]byte(hostile)) +
				" | base64 -d | tee /dev/termination-log; exit 1"
			const pods, containers = 3, 8
			for i := range pods {
				g.create(g.ns.mine, node.Pod(fmt.Sprintf("crash-%d", i), node.Image, script, func(p *corev1.Pod) {
					for c := 1; c < containers; c++ {
						p.Spec.Containers = append(p.Spec.Containers, node.Shell(fmt.Sprintf("c-%d", c), node.Image, script))
					}
				}))
			}
			for i := range pods {
				g.awaitPod(g.ns.mine, fmt.Sprintf("crash-%d", i), "to crash again and again", func(p *corev1.Pod) bool {
					return node.Container(p, "main").RestartCount > 1 && node.Container(p, "c-7").RestartCount > 1
				})
			}
		},
		check: func(g *target) {
			for _, line := range g.linesWith("\x1b") {
				g.Errorf("the log has an escape sequence: %.200q", line)
			}
			crash := "crash-0-" + g.Node
			for _, args := range [][]string{{"pods"}, {"pod", crash}, {"timeline", crash}} {
				out, errs, code := g.CLI(args...)
				if code != 0 || !strings.Contains(out, "crash-0") || strings.ContainsAny(out+errs, "\x1b\x07\u202e") {
					g.Errorf("%v ended with %d and printed %.2000q", args, code, out+errs)
				}
			}
		},
	}.run(t)
}

// Pods that are deleted while they start, some by force.
func TestStormsOfDeletions(t *testing.T) {
	attack{
		tenants: true,
		begin: func(g *target) {
			for storm := range 3 {
				name := func(i int) string { return fmt.Sprintf("storm-%d-%d", storm, i) }
				const pods = 30
				each(pods, func(i int) {
					g.create(g.ns.mine, node.Pod(name(i), node.Image, "trap '' TERM; "+node.Idle, node.Scratch))
					if i%3 == 0 {
						g.remove(g.ns.mine, name(i), 0)
					}
				})
				each(pods, func(i int) {
					if i%3 != 0 {
						g.remove(g.ns.mine, name(i), int64(i%2))
					}
				})
			}
		},
		restart: true,
	}.run(t)
}
