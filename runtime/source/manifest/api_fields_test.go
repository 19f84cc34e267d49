package manifest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sjson "sigs.k8s.io/json"

	"github.com/journalet/journalet/test/must"
)

// othersFields are the fields of a pod of the API server that the control plane reads and the node does not, of those
// that are taken from a manifest, too.
var othersFields = append([]string{
	"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", "spec.schedulerName",
	"spec.priorityClassName", "spec.serviceAccount", "spec.automountServiceAccountToken",
	"spec.securityContext.windowsOptions", "spec.containers[].securityContext.windowsOptions",
}, schedulerFields...)

// refusedOfAPI are the fields that get a pod of the API server rejected, and why: the node would have to carry them
// out, and it does not. A path includes all fields below it; fields of containers also stand for the other kinds of
// containers.
var refusedOfAPI = map[string]string{
	"spec.containers[].volumeMounts[].bindMountOptions": "gate VolumeBindMountOptions (alpha), not declared",

	"spec.containers[].livenessProbe.httpGet.protocol":       "gate H2CContainerProbe (alpha)",
	"spec.containers[].readinessProbe.httpGet.protocol":      "gate H2CContainerProbe (alpha)",
	"spec.containers[].startupProbe.httpGet.protocol":        "gate H2CContainerProbe (alpha)",
	"spec.containers[].lifecycle.postStart.httpGet.protocol": "gate H2CContainerProbe (alpha)",
	"spec.containers[].lifecycle.preStop.httpGet.protocol":   "gate H2CContainerProbe (alpha)",
	"spec.containers[].livenessProbe.grpc.mode":              "gate GRPCContainerProbeTLS (alpha)",
	"spec.containers[].readinessProbe.grpc.mode":             "gate GRPCContainerProbeTLS (alpha)",
	"spec.containers[].startupProbe.grpc.mode":               "gate GRPCContainerProbeTLS (alpha)",

	"spec.ephemeralContainers[].volumeDevices": "a block device for a running pod is not carried out",
	"spec.resources.claims":                    "claims are of containers: the API server refuses it",

	"spec.volumes[].emptyDir.mode":                                "gate EmptyDirVolumeMode (alpha)",
	"spec.volumes[].secret.defaultUser":                           "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].secret.items[].user":                          "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].configMap.defaultUser":                        "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].configMap.items[].user":                       "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].downwardAPI.defaultUser":                      "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].downwardAPI.items[].user":                     "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].projected.defaultUser":                        "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].projected.sources[].secret.items[].user":      "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].projected.sources[].configMap.items[].user":   "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].projected.sources[].downwardAPI.items[].user": "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].projected.sources[].serviceAccountToken.user": "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].projected.sources[].clusterTrustBundle.user":  "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].projected.sources[].podCertificate.user":      "gate AtomicWriteVolumeUserFields (alpha)",
	"spec.volumes[].iscsi":                                        "not carried out yet",
	"spec.volumes[].fc":                                           "not carried out yet",
	"spec.volumes[].flexVolume":                                   "not carried out yet",
	"spec.volumes[].gitRepo":                                      "removed from Kubernetes",
	"spec.volumes[].glusterfs":                                    "removed from Kubernetes",
	"spec.volumes[].rbd":                                          "removed from Kubernetes",
	"spec.volumes[].cephfs":                                       "removed from Kubernetes",
	"spec.volumes[].flocker":                                      "removed from Kubernetes",
	"spec.volumes[].quobyte":                                      "removed from Kubernetes",
	"spec.volumes[].photonPersistentDisk":                         "removed from Kubernetes",
	"spec.volumes[].scaleIO":                                      "removed from Kubernetes",
	"spec.volumes[].storageos":                                    "removed from Kubernetes",
}

// alsoCarriedOut are fields that a pod of the API server may have, and a manifest not.
var alsoCarriedOut = []string{
	"spec.containers[].volumeDevices", "spec.ephemeralContainers[].targetContainerName",
}

// TestEveryFieldOfAPodOfTheAPIServerIsDecidedOn sets each field of a spec, one at a time. It fails for a field that the
// next version of the Kubernetes types adds, until somebody has said whether the node has to carry it out.
func TestEveryFieldOfAPodOfTheAPIServerIsDecidedOn(t *testing.T) {
	used := map[string]bool{}
	below := func(path string, all []string) bool {
		return slices.ContainsFunc(all, func(listed string) bool {
			in := path == listed || strings.HasPrefix(path, listed+".") || strings.HasPrefix(path, listed+"[")
			used[listed] = used[listed] || in
			return in
		})
	}
	refused := make([]string, 0, len(refusedOfAPI))
	for path := range refusedOfAPI {
		refused = append(refused, path)
	}
	leaves := 0
	eachField(reflect.TypeFor[corev1.PodSpec](), "spec", func(path string, steps []int) {
		leaves++
		spec := &corev1.PodSpec{}
		if !setField(reflect.ValueOf(spec).Elem(), steps) {
			t.Fatalf("%s: cannot be set, so this test needs to learn its type", path)
		}
		as := path // as a field of a container, of whatever kind
		for _, kind := range []string{"initContainers", "ephemeralContainers"} {
			as = strings.Replace(as, "spec."+kind+"[]", "spec.containers[]", 1)
		}
		why := UnsupportedOfAPI(spec)
		switch {
		case below(path, refused) || below(as, refused):
			if why == "" {
				t.Errorf("%s is not refused", path)
			}
		case below(as, controlPlaneFields), below(as, othersFields), below(path, alsoCarriedOut), below(as, alsoCarriedOut),
			listedLeaf(as, map[string]bool{}):
			if why != "" {
				t.Errorf("%s is refused: %s", path, why)
			}
		default:
			t.Errorf("nobody has decided on %s: does the node carry it out, is it the control plane's, or is it refused (%q)?",
				path, why)
		}
	}, nil)
	for _, path := range slices.Concat(refused, controlPlaneFields, othersFields, alsoCarriedOut) {
		if !used[path] {
			t.Errorf("%s is no field of a pod", path)
		}
	}
	if leaves < 900 {
		t.Errorf("only %d fields visited", leaves)
	}
}

// A field of a newer API server is not in the types of this version: it is ignored, as by the kubelet, in whichever
// encoding it comes.
func TestFieldsOfANewerAPIServerAreIgnored(t *testing.T) {
	const newer = `{"metadata":{"name":"p","namespace":"d","uid":"u"},"spec":{"schedulingMood":{"good":true},
		"schedulingGroup":{"podGroupName":"g","newer":1},
		"containers":[{"name":"c","image":"i","newer":["x"]}]}}`
	var pod corev1.Pod
	must.OK(t, k8sjson.UnmarshalCaseSensitivePreserveInts([]byte(newer), &pod))
	if why := UnsupportedOfAPI(&pod.Spec); why != "" {
		t.Errorf("refused for %s", why)
	}
	known, err := pod.Marshal()
	must.OK(t, err)
	var again corev1.Pod
	must.OK(t, again.Unmarshal(append(known, 0xf2, 0x7f, 2, 'h', 'i'))) // field 2046, of two bytes
	if why := UnsupportedOfAPI(&again.Spec); why != "" || again.Spec.SchedulingGroup == nil {
		t.Errorf("refused for %q: %v", why, again.Spec)
	}
	p, err := FromAPI(&again)
	must.OK(t, err)
	if p.Pod.Spec.Containers[0].Name != "c" || !p.Pod.CreationTimestamp.Equal(&metav1.Time{}) {
		t.Errorf("read %v", p.Pod)
	}
}
