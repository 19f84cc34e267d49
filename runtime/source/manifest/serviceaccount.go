package manifest

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What an API server mounts into the pods of a service account: a volume with a token, the cluster's certificates and
// the namespace.
const (
	defaultAccount  = "default"
	accessVolume    = "kube-api-access"
	accessPath      = "/var/run/secrets/kubernetes.io/serviceaccount"
	rootCertificate = "kube-root-ca.crt" // a ConfigMap of each namespace

	// accessTokenSeconds is the lifetime of the token, in seconds. The API server recognizes its own tokens by it.
	accessTokenSeconds int64 = 3607
)

func accountOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount)
}

// automounts reports whether the pod gets a token without a volume of its own for it: it names a service account, or
// asks for the token. A pod that does neither gets none, as a static pod of the kubelet.
func automounts(pod *corev1.Pod) bool {
	if automount := pod.Spec.AutomountServiceAccountToken; automount != nil {
		return *automount
	}
	return accountOf(pod) != ""
}

// tokenSource returns the path of the pod's first projected token, nil if it has none.
func tokenSource(pod *corev1.Pod) *field.Path {
	for i, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for j, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				return field.NewPath("spec", "volumes").Index(i).Child("projected", "sources").Index(j).
					Child("serviceAccountToken")
			}
		}
	}
	return nil
}

// checkToken refuses a pod that uses a service account's token, unless the node has it.
func checkToken(r *report, pod *corev1.Pod, has func(namespace, account string) bool) {
	at, mounted := tokenSource(pod), automounts(pod)
	if at == nil && !mounted {
		return
	}
	namespace := cmp.Or(pod.Namespace, metav1.NamespaceDefault)
	account := cmp.Or(accountOf(pod), defaultAccount)
	if has != nil && has(namespace, account) {
		return
	}
	instead := "or remove this source"
	if mounted {
		instead = "or set spec.automountServiceAccountToken: false"
		if at != nil {
			instead += " and remove the projected token"
		}
		switch spec := field.NewPath("spec"); {
		case pod.Spec.ServiceAccountName != "":
			at = spec.Child("serviceAccountName")
		case pod.Spec.DeprecatedServiceAccount != "":
			at = spec.Child("serviceAccount")
		default:
			at = spec.Child("automountServiceAccountToken")
		}
	}
	refuse(r, at, fmt.Sprintf("the node has no token of service account %s/%s", namespace, account),
		fmt.Sprintf("start the agent with --service-account-token-file %s/%s=PATH, %s", namespace, account, instead))
}

// applyServiceAccount names the pod's service account as the API server does, and mounts its token into the containers
// that mount nothing at its place. The certificates are optional here: a token may be for something else than an API
// server.
func applyServiceAccount(pod *corev1.Pod) {
	spec := &pod.Spec
	mounted := automounts(pod)
	if mounted || tokenSource(pod) != nil {
		spec.ServiceAccountName = cmp.Or(accountOf(pod), defaultAccount)
	}
	spec.ServiceAccountName = accountOf(pod)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	if !mounted {
		return
	}
	name := freeVolumeName(spec)
	used := mountToken(spec.InitContainers, name)
	if mountToken(spec.Containers, name) || used {
		spec.Volumes = append(spec.Volumes, tokenVolume(name))
	}
}

// freeVolumeName returns a name that no volume of the pod has.
func freeVolumeName(spec *corev1.PodSpec) string {
	name := accessVolume
	for i := 1; slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }); i++ {
		name = fmt.Sprintf("%s-%d", accessVolume, i)
	}
	return name
}

// mountToken mounts the volume into containers, and reports whether one of them got it.
func mountToken(list []corev1.Container, volume string) bool {
	used := false
	for i := range list {
		if !slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == accessPath }) {
			used = true
			list[i].VolumeMounts = append(list[i].VolumeMounts,
				corev1.VolumeMount{Name: volume, MountPath: accessPath, ReadOnly: true})
		}
	}
	return used
}

func tokenVolume(name string) corev1.Volume {
	optional, seconds := true, accessTokenSeconds
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCertificate}, Optional: &optional,
				Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}}}
}
