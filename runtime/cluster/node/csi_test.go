package node

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

func TestDriversComeAndGoInTheCSINodeWithTheirTopology(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	a := storagev1.CSINodeDriver{Name: "a.example.com", NodeID: "1", TopologyKeys: []string{"example.com/zone"}}
	b := storagev1.CSINodeDriver{Name: "b.example.com", NodeID: "2"}
	must.OK(t, w.driver.SetCSIDriver(t.Context(), a, map[string]string{"example.com/zone": "z1"}))
	must.OK(t, w.driver.SetCSIDriver(t.Context(), b, nil))
	a.NodeID = "3"
	must.OK(t, w.driver.SetCSIDriver(t.Context(), a, map[string]string{"example.com/zone": "z1"}))
	drivers := func() (ids []string) {
		var n storagev1.CSINode
		w.api.Get("csinodes.storage.k8s.io", "", "n", &n)
		for _, d := range n.Spec.Drivers {
			ids = append(ids, d.Name+"="+d.NodeID)
		}
		return ids
	}
	if got, want := drivers(), []string{"a.example.com=3", "b.example.com=2"}; !slices.Equal(got, want) {
		t.Errorf("drivers %v, want %v", got, want)
	}
	w.until("labelled", func() bool { return w.node().Labels["example.com/zone"] == "z1" })
	w.until("shown", func() bool { return w.driver.Node().Labels["example.com/zone"] == "z1" })
	must.OK(t, w.driver.SetCSIAllocatable(t.Context(), a.Name, &storagev1.VolumeNodeResources{Count: ptr.To[int32](5)}))
	must.OK(t, w.driver.SetCSIAllocatable(t.Context(), "gone.example.com", nil))
	var n storagev1.CSINode
	w.api.Get("csinodes.storage.k8s.io", "", "n", &n)
	if d := n.Spec.Drivers[0]; len(n.Spec.Drivers) != 2 || d.Allocatable == nil || *d.Allocatable.Count != 5 ||
		d.NodeID != "3" || len(d.TopologyKeys) != 1 || n.Spec.Drivers[1].Allocatable != nil {
		t.Errorf("drivers %v", n.Spec.Drivers)
	}
	err := w.driver.SetCSIDriver(t.Context(), b, map[string]string{"example.com/zone": "z2"})
	if err == nil || !strings.Contains(err.Error(), "example.com/zone=z1") {
		t.Errorf("another topology: %v", err)
	}
	must.OK(t, w.driver.RemoveCSIDriver(t.Context(), a.Name))
	if got, want := drivers(), []string{"b.example.com=2"}; !slices.Equal(got, want) {
		t.Errorf("drivers %v, want %v", got, want)
	}
	if w.node().Labels["example.com/zone"] == "" {
		t.Error("the labels went with a driver")
	}
}

func TestADriverThatRegistersFirstWaitsForTheCSINode(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	create := make(chan struct{})
	w.api.Faults = func(r fakeapi.APIRequest) *fakeapi.Fault {
		if r.String() != "create csinodes.storage.k8s.io" {
			return nil
		}
		return &fakeapi.Fault{Hold: func(context.Context) { <-create }}
	}
	w.run()
	w.until("about to be created", func() bool { return len(w.api.Requests("create csinodes.storage.k8s.io")) > 0 })
	set := make(chan error, 1)
	go func() {
		set <- w.driver.SetCSIDriver(t.Context(), storagev1.CSINodeDriver{Name: "a.example.com", NodeID: "1"}, nil)
	}()
	w.until("read by the driver", func() bool { return len(w.api.Requests("get csinodes.storage.k8s.io")) > 1 })
	close(create)
	must.OK(t, <-set)
	var n storagev1.CSINode
	if w.api.Get("csinodes.storage.k8s.io", "", "n", &n); len(n.Spec.Drivers) != 1 {
		t.Errorf("the CSINode has the drivers %v", n.Spec.Drivers)
	}
}

func TestVolumesInUseAreWrittenAtOnce(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	for _, want := range [][]string{{"kubernetes.io/csi/d^1", "kubernetes.io/csi/d^2"}, {"kubernetes.io/csi/d^2"}, nil} {
		w.driver.SetVolumesInUse(want) // the clock stands still: no heartbeat comes
		w.until("in use: "+strings.Join(want, " "), func() bool {
			var got []string
			for _, v := range w.node().Status.VolumesInUse {
				got = append(got, string(v))
			}
			return slices.Equal(got, want)
		})
	}
	if patches := w.api.Requests(http.MethodPatch); len(patches) > 20 {
		t.Errorf("%d patches", len(patches))
	}
}

// The attach controller and the scheduler leave volumes of clouds to CSI drivers only on nodes that say so.
func TestTheCSINodeNamesTheMigratedPlugins(t *testing.T) {
	const want = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder," +
		"kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
	for before, updates := range map[string]int{
		"none": 0, "": 1, "kubernetes.io/aws-ebs": 1, want: 0,
		"kubernetes.io/vsphere-volume," + strings.TrimSuffix(want, ",kubernetes.io/vsphere-volume"): 0,
	} {
		w := newWorld(t, Options{Register: true})
		if before != "none" {
			n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"kept": "yes"}}}
			if before != "" {
				n.Annotations[corev1.MigratedPluginsAnnotationKey] = before
			}
			w.api.Create("csinodes.storage.k8s.io", n)
		}
		w.run()
		w.untilReady(corev1.ConditionTrue)
		var n storagev1.CSINode
		w.api.Get("csinodes.storage.k8s.io", "", "n", &n)
		got := strings.Split(n.Annotations[corev1.MigratedPluginsAnnotationKey], ",")
		if slices.Sort(got); strings.Join(got, ",") != want {
			t.Errorf("%q became %q", before, got)
		}
		if n := len(w.api.Requests("update csinodes.storage.k8s.io")); n != updates {
			t.Errorf("%q: %d updates, want %d", before, n, updates)
		}
		if before != "none" && n.Annotations["kept"] != "yes" {
			t.Errorf("%q: annotations %v", before, n.Annotations)
		}
	}
}
