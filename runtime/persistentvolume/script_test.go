package persistentvolume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// TestScripts runs the scripts in testdata, which tell the lives of volumes. Above ---- are commands, below is what
// came of each: calls of the driver and changes of what the Node has in use, in their order, then what the command
// shows or why it failed. At the end of a script nothing may be left on the node. JSON changes an object.
//
//	driver [stage]                a new node, and a driver with that capability
//	csi-driver JSON               its CSIDriver; null: it is gone
//	claim A [JSON], volume A JSON a claim, which gets a volume h-A of the driver, and its PersistentVolume
//	local A                       the volume is a local one
//	attached A DEVICE             the control plane attaches the volume when it is in use, with a publish context
//	fail RPC CODE, deregister     the driver fails in an RPC, OK: no more; it is gone
//	set-up P V=A... [JSON]        the volumes of a new pod, of claims or inline; JSON: the pod's spec
//	set-up P [interrupted]        the same again; by an agent that ends
//	tear-down P, refresh, unstage-left
//	restart, reboot, unmount      of the agent, of the machine, of all volumes
//	path P V, lost P V, mounts    where a volume is, whether it is lost, what is mounted
//	write P V                     what the driver has after a container has written to a volume
//	record P DIR [FIELD=X|TEXT]   changes a field of a record as it was at first, or all of its text
//	find TEXT                     the files of the agent that have a text
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := ""
			for command := range strings.FieldsFuncSeq(d.String(), func(r rune) bool { return r == ';' || r == '\n' }) {
				out += s.run(t, strings.TrimSpace(command))
			}
			return out
		})
		s.nothingLeft()
	})
}

// script is a node on which a script runs.
type script struct {
	*rig
	mu      sync.Mutex
	came    []string // calls and changes of what is in use, since the last command
	changes int      // how many changes of what is in use have come
	failing map[string]codes.Code
	records map[string][]byte // as they were before a change
}

// reporting are the commands that report it when nothing has come of them.
var reporting = []string{"set-up", "tear-down", "refresh", "unstage-left", "mounts", "find"}

// run runs a command and returns what came of it.
func (s *script) run(t *testing.T, command string) (out string) {
	words := strings.Fields(command)
	if words[0] == "driver" {
		s.begin(t, slices.Contains(words, "stage"))
		return ""
	}
	shown, err := s.do(words[0], words[1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteInUse()
	if s.came != nil {
		shown = append([]string{strings.Join(s.came, ", ")}, shown...)
	}
	s.came = nil
	if err != nil {
		shown = append(shown, "error: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	} else if len(shown) == 0 && slices.Contains(reporting, words[0]) {
		shown = []string{"nothing"}
	}
	for _, text := range shown {
		out += command + ": " + strings.ReplaceAll(text, s.root, "<root>") + "\n"
	}
	return out
}

// do runs a command and returns what it shows.
func (s *script) do(command string, args []string) (shown []string, err error) {
	args = append(args, "", "") // which may be left out
	change := func(o any, text string) { must.OK(s.t, json.Unmarshal([]byte(text), o)) }
	switch name := args[0]; command {
	case "csi-driver":
		change(&s.driver, name)
	case "claim":
		s.claimed(name)
		change(s.pvcs[name], cmp.Or(args[1], "{}"))
	case "volume":
		change(s.volumes["pv-"+name], args[1])
	case "local":
		s.local(name)
	case "attached":
		s.attached(name, args[1])
	case "fail":
		var code codes.Code
		change(&code, strconv.Quote(args[1]))
		s.mu.Lock()
		s.failing[name] = code
		s.mu.Unlock()
	case "deregister":
		s.drivers.Deregister(driverName, s.socket)
	case "set-up":
		err = s.setUpPod(name, args[1:])
	case "tear-down":
		err = s.tearDown(name)
	case "refresh":
		if s.refreshAll(); len(s.due()) == 0 {
			shown = []string{"nothing is due"}
		}
	case "unstage-left":
		s.unstageLeft(s.t.Context())
	case "restart":
		s.restart("boot-1")
	case "reboot":
		s.reboot()
	case "unmount":
		fakecsi.Clean(s.root)
	case "path":
		path, err := s.Path(name, args[1])
		return []string{path}, err
	case "lost":
		shown = []string{strconv.FormatBool(s.Lost(name, args[1]))}
	case "mounts":
		shown = fakecsi.Mounts(s.root)
	case "write":
		shown = []string{s.write(name, args[1])}
	case "record":
		s.changeRecord(filepath.Join(s.claimDir(name, args[1]), recordFile), args[2])
	case "find":
		shown = s.holding(name)
	default:
		s.t.Fatalf("there is no command %s", command)
	}
	return shown, err
}

func (s *script) begin(t *testing.T, stage bool) {
	if s.rig != nil {
		s.nothingLeft()
	}
	var capabilities []csi.NodeServiceCapability_RPC_Type
	if stage {
		capabilities = append(capabilities, fakecsi.Stage)
	}
	s.rig, s.changes = newRig(t, capabilities...), 0
	s.failing, s.records = map[string]codes.Code{}, map[string][]byte{}
	s.fake.Before = func(_ context.Context, rpc string, req any) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.noteInUse()
		call := rpc + " " + req.(interface{ GetVolumeId() string }).GetVolumeId()
		if p, is := req.(interface{ GetPublishContext() map[string]string }); is && p.GetPublishContext() != nil {
			call += " device=" + p.GetPublishContext()["device"]
		}
		s.came = append(s.came, call)
		return status.Error(s.failing[rpc], "not today") // nil for OK
	}
}

// noteInUse notes what the Node has got as in use.
func (s *script) noteInUse() {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	for ; s.changes < len(s.cluster.inUse); s.changes++ {
		s.came = append(s.came, fmt.Sprintf("in use %v", s.cluster.inUse[s.changes]))
	}
}

func (s *script) attached(claim, device string) {
	s.attachInUse = true
	s.attachment = &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: key{driverName, "h-" + claim}.attachment(nodeName)},
		Status: storagev1.VolumeAttachmentStatus{
			Attached: true, AttachmentMetadata: map[string]string{"device": device},
		},
	}
}

// setUpPod sets up the volumes of a pod, which is a new one if it is given volumes.
func (s *script) setUpPod(uid string, args []string) error {
	ctx, end := context.WithCancel(s.t.Context())
	defer end()
	if strings.Contains(args[0], "=") {
		s.pod(uid)
	}
	spec := &s.Pod(uid).Spec
	for _, a := range args {
		name, claim, is := strings.Cut(a, "=")
		switch {
		case a == "interrupted":
			end()
		case claim == "inline":
			spec.Volumes = append(spec.Volumes, inline(name))
		case is:
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		case a != "":
			must.OK(s.t, json.Unmarshal([]byte(a), spec))
		}
	}
	var errs []error
	for i := range spec.Volumes {
		err := s.SetUp(ctx, s.Pod(uid), &spec.Volumes[i])
		if _, r := s.find(uid, spec.Volumes[i].Name); err != nil && r != nil {
			err = fmt.Errorf("%w (the pod keeps its claim)", err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// write writes to a volume as a container does, and returns what its driver has then.
func (s *script) write(uid, volume string) string {
	path, err := s.Path(uid, volume)
	must.OK(s.t, err)
	_, r := s.find(uid, volume)
	kept, text := s.fake.Image(r.Handle), "what a container writes"
	if r.Block == "" {
		path, kept = filepath.Join(path, "file"), filepath.Join(s.fake.Dir, r.Handle, "file")
	}
	must.OK(s.t, os.WriteFile(path, []byte(text), 0o600))
	b, err := os.ReadFile(kept)
	must.OK(s.t, err)
	return strings.TrimRight(string(b), "\x00")
}

// changeRecord changes a field of a record as it was at first, or all of its text.
func (s *script) changeRecord(path, to string) {
	var err error
	if s.records[path] == nil {
		s.records[path], err = os.ReadFile(path)
		must.OK(s.t, err)
	}
	text := []byte(to)
	if field, value, is := strings.Cut(to, "="); is {
		fields := map[string]string{}
		must.OK(s.t, json.Unmarshal(s.records[path], &fields))
		fields[field] = value
		text, err = json.Marshal(fields)
		must.OK(s.t, err)
	}
	must.OK(s.t, os.WriteFile(path, text, 0o600))
}

// holding returns the files below the agent's root directory that have a text.
func (s *script) holding(text string) (paths []string) {
	must.OK(s.t, filepath.WalkDir(s.root, func(path string, e fs.DirEntry, err error) error {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}
