package kubelet

import (
	"fmt"
	_ "unsafe" // for go:linkname

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the types of manifests
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	_ "k8s.io/kubernetes/pkg/kubelet/config" // linked to below
)

// Decoded is the kubelet's result for a manifest.
type Decoded struct {
	// Pod is nil if the kubelet rejects the manifest, unless it does so only because of Static.
	Pod *v1.Pod
	// Err is the kubelet's error.
	Err error
	// Errors holds the single errors of validation.
	Errors field.ErrorList
	// Static names an API object that a static pod may not refer to.
	Static string
}

// Missing reports whether the pod has no name, and returns the path of that field.
func (d Decoded) Missing() (string, bool) {
	if len(d.Errors) == 1 && d.Errors[0].Field == nameField && d.Errors[0].Detail == nameless {
		return nameField, true
	}
	return "", false
}

const (
	nameField = "metadata.name"
	nameless  = "name is needed for the pod"
)

//go:linkname tryDecodeSinglePod k8s.io/kubernetes/pkg/kubelet/config.tryDecodeSinglePod
func tryDecodeSinglePod(logger klog.Logger, data []byte, defaults func(klog.Logger, *api.Pod) error) (bool, *v1.Pod,
	error)

//go:linkname applyDefaults k8s.io/kubernetes/pkg/kubelet/config.applyDefaults
func applyDefaults(logger klog.Logger, pod *api.Pod, source string, isFile bool, nodeName types.NodeName) error

// Decode reads the manifest of one static pod as the kubelet reads a file. It also sets the defaults of pod-level
// resources, as the API server does: kubelet 1.37 leaves them out for static pods, and we do not.
func Decode(path string, data []byte, node string) Decoded {
	defaults := func(l klog.Logger, pod *api.Pod) error {
		podutil.DefaultPodLevelResources(pod)
		return applyDefaults(l, pod, path, true, types.NodeName(node))
	}
	out := Decoded{}
	_, pod, err := tryDecodeSinglePod(klog.Background(), data, defaults)
	if err == nil {
		out.Pod = pod
		return out
	}
	out.Err = err
	// Once more, to get the single errors, which the error's text joins.
	internal, err := decodeOnly(data)
	if err != nil {
		return out
	}
	if internal.Name == "" {
		out.Errors = field.ErrorList{field.Required(field.NewPath("metadata", "name"), nameless)}
		return out
	}
	if err := defaults(klog.Background(), internal); err != nil {
		return out
	}
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	out.Errors = validation.ValidatePodCreate(internal, opts)
	if len(out.Errors) > 0 {
		return out
	}
	if _, out.Static, err = podutil.HasAPIObjectReference(internal); err != nil {
		return out // of a kind of volume that it does not know
	}
	out.Pod = &v1.Pod{}
	if err := corev1.Convert_core_Pod_To_v1_Pod(internal, out.Pod, nil); err != nil {
		out.Pod = nil
	}
	return out
}

func decodeOnly(data []byte) (*api.Pod, error) {
	json, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, err
	}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), json)
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*api.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is not a pod", obj)
	}
	return pod, nil
}

// A kubelet allows privileged containers at its start.
func init() {
	capabilities.Setup(true, 0)
	klog.SetLogger(logr.Discard())
}
