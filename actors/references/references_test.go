package references

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func local(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestReferencesAreSortedAndNamedOnce(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		ServiceAccountName: "robot",
		Volumes: []corev1.Volume{
			{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: local("conf"), Optional: ptr.To(true)}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("conf")}},
					{Secret: &corev1.SecretProjection{LocalObjectReference: local("tls")}},
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}},
					{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr.To("roots"), Path: "ca.pem"}},
					{DownwardAPI: &corev1.DownwardAPIProjection{}},
					{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/ca", KeyType: "ED25519",
						UserAnnotations: map[string]string{"example.com/secret": "canary"}}},
				}}}},
		},
		InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("all")}},
		}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "A", Value: "plain"},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: local("keys"), Key: "k"}}},
		}}},
	}}
	got := ""
	for _, r := range References(p) {
		got += r.GetKind().String()[len("OBJECT_KIND_"):] + " " + r.GetName() + " " + r.GetSelector() + "\n"
	}
	want := `CONFIG_MAP all 
CONFIG_MAP conf 
SECRET keys 
SECRET tls 
SERVICE_ACCOUNT_TOKEN robot {"audience":"vault","expirationSeconds":3600}
CLUSTER_TRUST_BUNDLE roots 
POD_CERTIFICATE all {"source":5,"signerName":"example.com/ca","keyType":"ED25519"}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if uses := OfVolume(p, &p.Spec.Volumes[2]); len(uses) != 1 || !uses[0].Optional {
		t.Errorf("an optional volume refers to %v", uses)
	}
	if References(nil) != nil {
		t.Error("no pod refers to something")
	}
}

func TestSelectorsSayWhatIsProjected(t *testing.T) {
	seconds := int64(600)
	ref := Token(&corev1.Pod{}, &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"})
	if ref.GetName() != "default" || ref.GetSelector() != `{"expirationSeconds":600}` {
		t.Errorf("a token without an audience is %v", ref)
	}
	ref = TrustBundle(&corev1.ClusterTrustBundleProjection{
		SignerName: ptr.To("x.io/y"), Path: "ca.pem",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"b": "1", "a": "2"}},
	})
	want := `{"signerName":"x.io/y","labelSelector":{"matchLabels":{"a":"2","b":"1"}},"path":""}`
	if ref.GetName() != "" || ref.GetSelector() != want {
		t.Errorf("a trust bundle by its signer is %v", ref)
	}
}
