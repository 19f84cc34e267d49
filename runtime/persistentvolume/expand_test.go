package persistentvolume

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

const (
	pending    = corev1.PersistentVolumeClaimNodeResizePending
	inProgress = corev1.PersistentVolumeClaimNodeResizeInProgress
	infeasible = corev1.PersistentVolumeClaimNodeResizeInfeasible
)

func gigs(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// sized returns a claim that asks for 2Gi and has 1Gi.
func sized(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		Spec:   corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: gigs("2Gi")}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: gigs("1Gi")},
	}
	change(c)
	return c
}

// turn has the controller say that it is the node's turn to expand, in a state.
func turn(state corev1.ClaimResourceStatus, allocated string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = gigs(allocated)
		if state != "" {
			setResizing(c, state)
		}
	}
}

func TestAVolumeIsExpandedWhenItsClaimSaysThatItIsTheNodesTurn(t *testing.T) {
	all := func(changes ...func(*corev1.PersistentVolumeClaim)) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			for _, change := range changes {
				change(c)
			}
		}
	}
	shared := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	elsewhere := func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = gigs("2Gi") }
	for what, c := range map[string]struct {
		claim                   *corev1.PersistentVolumeClaim
		capacity, had, size     string
		call, updated, recovers bool
	}{
		"nothing to do":             {sized(turn("", "1Gi")), "1Gi", "1Gi", "1Gi", false, false, false},
		"smaller":                   {sized(turn(pending, "2Gi")), "1Gi", "2Gi", "2Gi", false, false, true},
		"an old controller":         {sized(all()), "2Gi", "1Gi", "2Gi", true, false, false},
		"an old controller, shared": {sized(elsewhere), "2Gi", "1Gi", "2Gi", true, true, false},
		"its turn":                  {sized(turn(pending, "2Gi")), "2Gi", "1Gi", "2Gi", true, false, true},
		"begun":                     {sized(turn(inProgress, "2Gi")), "2Gi", "1Gi", "2Gi", true, false, true},
		"less than the volume has":  {sized(turn(pending, "2Gi")), "3Gi", "1Gi", "2Gi", true, false, true},
		"the controller's turn": {sized(turn(corev1.PersistentVolumeClaimControllerResizeInProgress, "2Gi")), "2Gi", "1Gi",
			"1Gi", false, false, true},
		"infeasible": {sized(turn(infeasible, "2Gi")), "2Gi", "1Gi", "1Gi", false, false, true},
		"no size": {sized(func(c *corev1.PersistentVolumeClaim) { setResizing(c, pending) }), "2Gi",
			"1Gi", "0", false, false, true},
		"done by others":    {sized(all(turn("", "2Gi"), elsewhere)), "2Gi", "1Gi", "2Gi", false, true, true},
		"shared, elsewhere": {sized(all(turn("", "2Gi"), elsewhere, shared)), "2Gi", "1Gi", "2Gi", true, true, true},
		"shared, no node has to": {sized(all(turn("", "2Gi"), elsewhere, shared, func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{notOnNodes: "true"}
		})), "2Gi", "1Gi", "2Gi", false, true, true},
	} {
		got := resizeOf(c.claim, resource.MustParse(c.capacity), resource.MustParse(c.had))
		if c.size == "0" {
			c.size = "1Gi"
		}
		if got.size.Cmp(resource.MustParse(c.size)) != 0 || got.call != c.call || what != "nothing to do" &&
			(got.updated != c.updated || got.recovers != c.recovers) {
			t.Errorf("%s: size %v, call %t, updated %t, recovers %t", what, got.size.String(), got.call, got.updated,
				got.recovers)
		}
	}
}

// growing returns a node with a pod whose claim has grown, before or after its set-up.
func growing(t *testing.T, online bool, change func(*corev1.PersistentVolumeClaim)) (*rig, *corev1.Pod) {
	r := newRig(t, fakecsi.Stage, fakecsi.Expand)
	p := r.pod("p1", r.claimed("a"))
	r.pvcs["a"].Spec.Resources.Requests, r.pvcs["a"].Status.Capacity = gigs("1Gi"), gigs("1Gi")
	r.volumes["pv-a"].Spec.Capacity = gigs("1Gi")
	if online {
		must.OK(t, r.setUp(p))
		r.refreshAll()
		r.expect("NodeStageVolume h-a", "NodePublishVolume h-a")
	}
	r.volumes["pv-a"].Spec.Capacity, r.pvcs["a"].Spec.Resources.Requests = gigs("2Gi"), gigs("2Gi")
	r.pvcs["a"].Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue},
		{Type: corev1.PersistentVolumeClaimVolumeModifyVolumeError, Status: corev1.ConditionTrue},
	}
	change(r.pvcs["a"])
	return r, p
}

// expanded fails unless the claim says that its volume has 2Gi.
func (r *rig) expanded() {
	r.t.Helper()
	s := r.pvcs["a"].Status
	if s.Capacity.Storage().String() != "2Gi" || len(s.AllocatedResourceStatuses) > 0 || len(s.Conditions) != 1 {
		r.t.Errorf("the claim has %+v", s)
	}
	message := `Normal FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv-a" n1`
	if got := r.emitted(); !slices.Equal(got, []string{"Pod p1 " + message, "PersistentVolumeClaim a " + message}) {
		r.t.Errorf("events: %q", got)
	}
}

func TestAVolumeIsExpandedAtItsSetUpAndInUse(t *testing.T) {
	for what, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"an old controller": func(*corev1.PersistentVolumeClaim) {}, "a new one": turn(pending, "2Gi"),
	} {
		r, p := growing(t, false, change)
		must.OK(t, r.setUp(p))
		r.expect("NodeStageVolume h-a", "NodePublishVolume h-a", "NodeExpandVolume h-a to 2147483648")
		r.expanded()
		r.refreshAll()
		r.expect()
		must.OK(t, r.tearDown("p1"))

		r, _ = growing(t, true, change)
		r.refreshAll()
		r.expect("NodeExpandVolume h-a to 2147483648")
		r.expanded()
		r.restart("boot-1")
		r.refreshAll()
		r.expect()
		must.OK(t, r.tearDown("p1"))
		r.nothingLeft()
		if what == "a new one" && (len(r.patches) != 2 || !strings.Contains(r.patches[0], string(inProgress))) {
			t.Errorf("%s: patches %v", what, r.patches)
		}
	}
}

func TestARefusedExpansionIsSaidByTheClaim(t *testing.T) {
	for code, want := range map[codes.Code]corev1.ClaimResourceStatus{
		codes.InvalidArgument: infeasible, codes.OutOfRange: infeasible, codes.NotFound: infeasible,
		codes.Internal: inProgress, codes.FailedPrecondition: inProgress, codes.DeadlineExceeded: inProgress,
	} {
		r, _ := growing(t, true, turn(pending, "2Gi"))
		calls := 0
		r.fake.Before = func(_ context.Context, rpc string, _ any) error {
			if rpc == "NodeExpandVolume" {
				calls++
				return status.Error(code, "no room")
			}
			return nil
		}
		r.refreshAll()
		s := r.pvcs["a"].Status
		i := slices.IndexFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimNodeResizeError
		})
		if i < 0 || !strings.Contains(s.Conditions[i].Message, "failed to expand pvc with NodeExpandVolume") ||
			s.AllocatedResourceStatuses[corev1.ResourceStorage] != want || s.Capacity.Storage().String() != "1Gi" {
			t.Errorf("%v: the claim has %+v", code, s)
		}
		events := r.emitted()
		if emitted := len(events) == 1 && strings.HasPrefix(events[0], `Pod p1 Warning VolumeResizeFailed `+
			`NodeExpandVolume.NodeExpandVolume failed for volume "pv-a" : NodeExpandVolume: rpc error`); emitted !=
			(code != codes.FailedPrecondition) {
			t.Errorf("%v: events %q", code, events)
		}
		r.refreshAll()
		again := 2
		if want == infeasible || code == codes.FailedPrecondition {
			again = 1
		}
		if calls != again || len(r.patches) != 2 {
			t.Errorf("%v: %d calls, want %d; patches %v", code, calls, again, r.patches)
		}
		if r.Lost("p1", "v-a") {
			t.Errorf("%v: the volume is lost", code)
		}
		must.OK(t, r.tearDown("p1"))
	}
}

// A size that the driver has refused, and that the user has withdrawn, is for the controller to settle. One that may
// not be refused stays with the node.
func TestARefusedSizeThatIsRequestedNoMoreIsInfeasible(t *testing.T) {
	for code, want := range map[codes.Code]corev1.ClaimResourceStatus{
		codes.Internal: infeasible, codes.Unavailable: inProgress,
	} {
		r, _ := growing(t, true, turn(pending, "2Gi"))
		r.fake.Before = func(_ context.Context, rpc string, _ any) error {
			if rpc == "NodeExpandVolume" {
				return status.Error(code, "no room")
			}
			return nil
		}
		r.refreshAll()
		r.pvcs["a"].Spec.Resources.Requests = gigs("1536Mi")
		r.refreshAll()
		if s := r.pvcs["a"].Status.AllocatedResourceStatuses[corev1.ResourceStorage]; s != want {
			t.Errorf("%v: the claim is %s, want %s", code, s, want)
		}
		must.OK(t, r.tearDown("p1"))
	}
}

func TestAVolumeThatIsNotExpandedIsNotSetUp(t *testing.T) {
	r, p := growing(t, false, turn(pending, "2Gi"))
	fail := errors.New("no room")
	r.fake.Before = func(_ context.Context, rpc string, _ any) error {
		if rpc == "NodeExpandVolume" {
			return fail
		}
		return nil
	}
	if err := r.setUp(p); err == nil || !strings.Contains(err.Error(), "failed while expanding volume") {
		t.Errorf("got %v", err)
	}
	if !r.Lost("p1", "v-a") {
		t.Error("it is set up")
	}
	r.fake.Lock()
	r.fake.Before = nil
	r.fake.Unlock()
	must.OK(t, r.setUp(p))
	r.expanded()
	if all := fakecsi.Mounts(r.root); len(all) != 2 {
		t.Errorf("mounted: %v", all)
	}
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestAReadOnlyVolumeIsNotExpanded(t *testing.T) {
	r, p := growing(t, false, turn(pending, "2Gi"))
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	must.OK(t, r.setUp(p))
	r.refreshAll()
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a")
	if e := r.emitted(); len(e) != 2 || !strings.Contains(e[0], "FileSystemResizeFailed") {
		t.Errorf("events: %q", e)
	}
	must.OK(t, r.tearDown("p1"))
}

func TestAVolumeOfTwoPodsIsExpandedOnce(t *testing.T) {
	r, _ := growing(t, true, turn("", "2Gi"))
	c := r.pvcs["a"] // another node has expanded it
	c.Spec.AccessModes, c.Status.Capacity = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, gigs("2Gi")
	must.OK(t, r.setUp(r.pod("p0", corev1.Volume{Name: "v-a", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}})))
	r.expect("NodePublishVolume h-a")
	r.refreshAll()
	r.expect("NodeExpandVolume h-a to 2147483648")
	r.refreshAll()
	r.expect()
	if len(r.patches) > 0 {
		t.Errorf("patches: %v", r.patches)
	}
	must.OK(t, r.tearDown("p0"))
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestAVolumeThatAnotherPodHasExpandedIsNotExpandedAgain(t *testing.T) {
	r, p := growing(t, true, turn(pending, "2Gi"))
	r.pvcs["a"].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	must.OK(t, r.setUp(r.pod("p2", p.Spec.Volumes...)))
	r.expect("NodePublishVolume h-a", "NodeExpandVolume h-a to 2147483648")
	r.refreshAll()
	r.expect()
	must.OK(t, r.tearDown("p1"))
	must.OK(t, r.tearDown("p2"))
}

func TestASizeOfADriverThatExpandsNothingIsLeftAlone(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	p := r.pod("p1", r.claimed("a"))
	r.pvcs["a"].Status.Capacity, r.volumes["pv-a"].Spec.Capacity = gigs("1Gi"), gigs("2Gi")
	must.OK(t, r.setUp(p))
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a")
	if len(r.due()) > 0 || len(r.patches) > 0 {
		t.Errorf("due %v, patches %v", r.due(), r.patches)
	}
	must.OK(t, r.tearDown("p1"))
}

func TestABlockDeviceIsExpandedAsOne(t *testing.T) {
	r, p := growing(t, false, turn(pending, "2Gi"))
	r.volumes["pv-a"].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	r.fake.Before = func(_ context.Context, _ string, req any) error {
		if x, is := req.(*csi.NodeExpandVolumeRequest); is && (x.GetVolumeCapability().GetBlock() == nil ||
			x.GetVolumePath() != r.target("p1", "pv-a") || x.GetStagingTargetPath() == "") {
			t.Errorf("the request is %v", x)
		}
		return nil
	}
	must.OK(t, r.setUp(p))
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a", "NodeExpandVolume h-a to 2147483648")
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}
