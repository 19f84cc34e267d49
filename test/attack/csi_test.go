//go:build attack

package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// hostileStorage are CSI drivers that do harm until they are calmed.
type hostileStorage struct {
	g       *target
	drivers map[string]*fakecsi.Driver // by name
	// calm ends what the drivers do.
	calm     chan struct{}
	calmOnce sync.Once
	stops    map[string]func()
	pods     []string
	leave    []func() // ends of registrations
}

func newHostileStorage(g *target) *hostileStorage {
	return &hostileStorage{
		g: g, drivers: map[string]*fakecsi.Driver{}, calm: make(chan struct{}), stops: map[string]func(){},
	}
}

func (h *hostileStorage) dir(name string) string { return filepath.Join(h.g.Dir, name) }

// add adds a driver with its CSIDriver; change may be nil.
func (h *hostileStorage) add(name string, change func(*fakecsi.Driver)) {
	h.g.Helper()
	d := &fakecsi.Driver{Dir: filepath.Join(h.dir(name), "volumes")}
	if change != nil {
		change(d)
	}
	h.drivers[name] = d
	must.OK(h.g.T, os.MkdirAll(d.Dir, 0o750))
	h.object(name)
	h.serve(name)
	h.register(name, name, filepath.Join(h.dir(name), "csi.sock"))
}

func (h *hostileStorage) register(as, name, socket string) {
	h.leave = append(h.leave, fakecsi.Register(h.g.T, h.g.Root, as, name, socket))
}

// serve serves a driver, also again.
func (h *hostileStorage) serve(name string) {
	_, h.stops[name] = fakecsi.Start(h.g.T, h.drivers[name], h.dir(name))
}

func (h *hostileStorage) object(name string) {
	h.g.world.api.Create("csidrivers.storage.k8s.io", &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired:       ptr.To(false),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
		},
	})
}

// listen adds a driver that is no server of gRPC: f has each of its connections.
func (h *hostileStorage) listen(name string, f func(net.Conn)) {
	h.g.Helper()
	must.OK(h.g.T, os.MkdirAll(h.dir(name), 0o750))
	socket := filepath.Join(h.dir(name), "csi.sock")
	l, err := net.Listen("unix", socket)
	must.OK(h.g.T, err)
	h.g.T.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
	h.object(name)
	h.register(name, name, socket)
}

// until returns an error once the drivers are calm; before, it waits.
func (h *hostileStorage) until(ctx context.Context) error {
	select {
	case <-h.calm:
	case <-ctx.Done():
	}
	return errors.New("at last")
}

// isCalm reports whether the drivers do no more harm.
func (h *hostileStorage) isCalm() bool {
	select {
	case <-h.calm:
		return true
	default:
		return false
	}
}

// pod creates a pod with a volume of each of some drivers.
func (h *hostileStorage) pod(name string, drivers ...string) {
	p := node.Pod(name, node.Image, node.Idle)
	p.Spec.NodeName, p.UID = h.g.Node, uuid.NewUUID()
	for i, d := range drivers {
		volume := fmt.Sprintf("v%d", i)
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: volume, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: d}},
		})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
	}
	h.g.world.api.Create("pods", p)
	h.pods = append(h.pods, name)
}

// waits waits until a pod's container waits, with words in the log: statuses say only that it is created.
func (h *hostileStorage) waits(name, words string) {
	h.g.Helper()
	node.Eventually(h.g.T, settle, name+" to wait: "+words, func() error {
		p := h.get(name)
		if p == nil || node.Ready(p) {
			return fmt.Errorf("it is %+v", p)
		}
		for _, line := range h.g.linesWith(string(p.UID)) {
			if strings.Contains(line, words) {
				return nil
			}
		}
		return errors.New("the log does not say so")
	})
}

// runs waits until a pod is ready.
func (h *hostileStorage) runs(name string) {
	h.g.Helper()
	node.Eventually(h.g.T, settle, name+" to run", func() error {
		if p := h.get(name); p == nil || !node.Ready(p) {
			return fmt.Errorf("it is %+v", p)
		}
		return nil
	})
}

// haveSandboxes waits until each pod has its sandbox, which waits for no volume.
func (h *hostileStorage) haveSandboxes() {
	h.g.Helper()
	node.Eventually(h.g.T, settle, "sandboxes of all pods", func() error {
		for _, name := range h.pods {
			p := h.get(name)
			if p == nil || node.Condition(p, corev1.PodReadyToStartContainers) != corev1.ConditionTrue {
				return fmt.Errorf("%s: %+v", name, p)
			}
		}
		return nil
	})
}

// remove deletes the pods, waits until nothing of them is left, and removes the drivers.
func (h *hostileStorage) remove() {
	h.g.Helper()
	for _, name := range h.pods {
		h.g.world.api.Delete("pods", "default", name, 1)
	}
	node.Eventually(h.g.T, settle, "every pod with a volume to be gone", func() error {
		for _, name := range h.pods {
			if p := h.get(name); p != nil {
				return fmt.Errorf("%s: %+v", name, p.Status)
			}
		}
		return nil
	})
	left, err := filepath.Glob(filepath.Join(h.g.Root, "pods/*/volumes/kubernetes.io~csi"))
	if all := fakecsi.Mounts(filepath.Join(h.g.Root, "pods")); len(all)+len(left) > 0 || err != nil {
		h.g.Errorf("mounted are %v, left are %v (%v)", all, left, err)
	}
	for _, leave := range h.leave {
		leave()
	}
}

func (h *hostileStorage) get(name string) *corev1.Pod {
	p := new(corev1.Pod)
	if !h.g.world.api.Get("pods", "default", name, p) {
		return nil
	}
	return p
}

// CSI drivers return nothing, an endless response, something else, or report a success that did not happen. Pods of an
// honest driver, and pods without a driver, start all the while.
func TestHostileCSIDrivers(t *testing.T) {
	var h *hostileStorage
	huge := strings.Repeat("no \x1b[2J", 1<<20)
	const honest, hangs, refuses, vanishes, lies, twice, stays = "honest.example.com", "hangs.example.com",
		"refuses.example.com", "vanishes.example.com", "lies.example.com", "twice.example.com", "stays.example.com"
	attack{
		cluster: true, memory: hostileMemory,
		first: func(g *target) { // from its first driver on, the agent follows the CSIDrivers
			h = newHostileStorage(g)
			h.add(honest, nil)
			node.Eventually(g.T, settle, "the agent to follow the CSIDrivers", func() error {
				if stacks := g.holdings().stacks; !strings.Contains(stacks, "persistentvolume.(*periods).Run") {
					return errors.New(stacks)
				}
				return nil
			})
		},
		begin: func(g *target) {
			unlessCalm := func(f func(ctx context.Context, rpc string) error) func(*fakecsi.Driver) {
				return func(d *fakecsi.Driver) {
					d.Before = func(ctx context.Context, rpc string, _ any) error {
						if h.isCalm() {
							return nil
						}
						return f(ctx, rpc)
					}
				}
			}
			h.add(hangs, unlessCalm(func(ctx context.Context, _ string) error { return h.until(ctx) }))
			h.add(refuses, unlessCalm(func(context.Context, string) error { return status.Error(codes.Internal, huge) }))
			h.add(vanishes, unlessCalm(func(ctx context.Context, _ string) error {
				go h.stops[vanishes]()
				<-ctx.Done()
				return ctx.Err()
			}))
			h.add(stays, func(d *fakecsi.Driver) {
				d.Before = func(_ context.Context, rpc string, _ any) error {
					if rpc == "NodeUnpublishVolume" && !h.isCalm() {
						return fakecsi.ErrNothingDone
					}
					return nil
				}
			})
			h.add(lies, unlessCalm(func(context.Context, string) error { return fakecsi.ErrNothingDone }))
			h.add(twice, nil)
			h.register("another", twice, filepath.Join(h.dir(honest), "csi.sock"))
			h.add("segments.example.com", func(d *fakecsi.Driver) {
				d.Info = &csi.NodeGetInfoResponse{NodeId: "n", AccessibleTopology: &csi.Topology{Segments: map[string]string{}}}
				for i := range 100_000 {
					d.Info.AccessibleTopology.Segments[fmt.Sprint("example.com/", i)] = "v"
				}
			})
			h.add("hostname.example.com", func(d *fakecsi.Driver) {
				d.Info = &csi.NodeGetInfoResponse{NodeId: "n", AccessibleTopology: &csi.Topology{
					Segments: map[string]string{corev1.LabelHostname: "another"},
				}}
			})
			h.listen("silent.example.com", func(c net.Conn) {
				_ = h.until(context.Background())
				_ = c.Close()
			})
			h.listen("garbage.example.com", func(c net.Conn) {
				defer c.Close()
				for !h.isCalm() {
					if _, err := c.Write([]byte(huge)); err != nil {
						return
					}
				}
			})
			for _, name := range []string{hangs, refuses, vanishes, lies, twice, stays} {
				h.pod(strings.TrimSuffix(name, ".example.com"), name)
			}
			h.pod("garbage", "garbage.example.com")
			h.pod("mixed", honest, hangs)
			for i := range 40 { // more than one driver may have calls under way
				h.pod(fmt.Sprintf("queue-%d", i), hangs)
			}
			h.haveSandboxes() // 47 of them at once take seconds, whatever drivers do
			g.bystander()
			h.pod("honest", honest)
			h.runs("honest")
		},
		check: func(g *target) {
			h.waits("refuses", "NodePublishVolume")
			h.waits("vanishes", "NodePublishVolume")
			h.waits("lies", "there is no directory at")
			h.waits("garbage", "not found in the list of registered CSI drivers")
			h.runs("stays")
			h.runs("twice")
			for _, name := range []string{"hangs", "mixed"} {
				if p := h.get(name); p == nil || node.Ready(p) {
					t.Errorf("%s runs without its volume: %+v", name, p)
				}
			}
			for _, line := range g.linesWith("CSI") {
				if len(line) > 16<<10 || strings.Contains(line, "\x1b") {
					t.Errorf("a line of %d bytes in the log: %.200q", len(line), line)
				}
			}
			g.world.api.Delete("pods", "default", "stays", 1)
			h.waits("stays", "is still mounted, although its driver has said that it is not")
		},
		end: func(g *target) {
			h.calmOnce.Do(func() { close(h.calm) })
			h.serve(vanishes)
			h.remove()
		},
	}.run(t)
}
