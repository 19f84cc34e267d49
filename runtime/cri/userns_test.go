package cri_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

func TestIDsOutliveTheJournal(t *testing.T) {
	r := newRig(t, nil)
	own := false
	r.pod.Spec.HostUsers = &own
	req := runSandbox(0)
	req.GetRunSandbox().UserNamespace = &journaletv1.UserNamespace{HostId: 131072, Length: 65536}
	r.done("s", req, false)
	root := filepath.Join(r.dir, "root")
	found, err := volume.FindUserNamespaces(root)
	must.OK(t, err)
	if len(found) != 1 || found[uid].GetHostId() != 131072 || found[uid].GetLength() != 65536 {
		t.Errorf("found %v", found)
	}
	file := filepath.Join(root, "pods", uid, "userns")
	const kubelets = `{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],` +
		`"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`
	if text, err := os.ReadFile(file); err != nil || string(text) != kubelets {
		t.Errorf("%s, %v; want the kubelet's file %s", text, err, kubelets)
	}
	must.OK(t, os.WriteFile(file, []byte(`{"uidMappings":[]}`), 0o600))
	if found, err = volume.FindUserNamespaces(root); err == nil || len(found) != 0 {
		t.Errorf("a broken file gave %v, %v", found, err)
	}
	r.done("c", cleanPod("web"), false)
	if found, err = volume.FindUserNamespaces(root); err != nil || len(found) != 0 {
		t.Errorf("a removed pod has %v, %v", found, err)
	}
}

func TestMissingFeaturesOfTheRuntimeFailTheSandbox(t *testing.T) {
	r := newRig(t, nil)
	own := false
	r.pod.Spec.HostUsers = &own
	r.fails("none", runSandbox(0), journaletv1.CallError_CALL_ERROR_CONFIG, "the node has given the pod no ids")
	r.pod.Annotations = map[string]string{manifest.RuntimeHandlerAnnotation: "other"}
	req := runSandbox(0)
	req.GetRunSandbox().UserNamespace = &journaletv1.UserNamespace{HostId: 131072, Length: 65536}
	r.fails("other", req, journaletv1.CallError_CALL_ERROR_CONFIG,
		"can't set `spec.hostUsers: false`, RuntimeClass handler \"other\" does not support user namespaces")
	r.pod.Spec.HostUsers, r.pod.Annotations = nil, nil
	strict := corev1.SupplementalGroupsPolicyStrict
	r.pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}
	r.done("strict", runSandbox(0), false)
}
