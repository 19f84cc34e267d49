package redact

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Annotations: map[string]string{
			"vault.example/token": "s.annotated", "journalet.io/start-guarantee": "at-least-once",
			"kubectl.kubernetes.io/last-applied-configuration": `{"env":["applied"]}`,
		}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Env: []corev1.EnvVar{{Name: "FIRST", Value: "first-secret"}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: "app:1", WorkingDir: "/var/lib/app",
				Command: []string{"/bin/app", "--password=flagged", "-v"}, Args: []string{"argument"},
				Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2 \"x\""}, {Name: "DEBUG", Value: "true"},
					{Name: "HOME", Value: "/var/lib"}, {Name: "KEY", Value: "-----BEGIN-----\nMIIBOwIBAAJBAKj34\n-----END-----"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/srv/data"}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
					Path: "/health?key=queried", HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer headed"}},
				}}},
				Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
					Command: []string{"curl", "-u", "user:hooked"},
				}}},
			}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "added-later"}},
			}}},
		},
	}
}

func TestCredentialsAreTakenOut(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"no such image", "no such image"},
		{`bad env "PASSWORD=hunter2 \"x\""`, `bad env "PASSWORD=(withheld)"`},
		{`bad env PASSWORD=hunter2 "x"`, `bad env PASSWORD=(withheld)`},
		{"first-secret, s.annotated, applied", "(withheld), (withheld), (withheld)"},
		{"line MIIBOwIBAAJBAKj34 of a key", "line (withheld) of a key"},
		{`exec "/bin/app" --password=flagged: not found`, `exec "/bin/app" (withheld): not found`},
		{"wrong password flagged", "wrong password (withheld)"},
		{"bad env TOKEN=added-later", "bad env TOKEN=(withheld)"},
		{"app argument", "app (withheld)"},
		{"Bearer headed, user:hooked, key=queried", "(withheld), (withheld), (withheld)"},
		// Not secret, or too short to be one.
		{"true in /var/lib/app, at-least-once, /srv/data: -v", "true in /var/lib/app, at-least-once, /srv/data: -v"},
		// URLs, whatever the manifest holds.
		{`Get "https://me:pw@r.example/v2/?token=abc&x=1": EOF`, `Get "https://(withheld)@r.example/v2/?(withheld)": EOF`},
		{"http://10.0.0.1:80/health?a=b refused, a@b.c", "http://10.0.0.1:80/health?(withheld) refused, a@b.c"},
	} {
		if got := Text(c.text, testPod()); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestWithoutAManifestURLsAreCleaned(t *testing.T) {
	const text, want = "hunter2 at https://me:pw@r.example/?t=1", "hunter2 at https://(withheld)@r.example/?(withheld)"
	for _, got := range []string{URLs(text), Text(text, nil), Container(text, nil)} {
		if got != want {
			t.Errorf("got %s", got)
		}
	}
	if got := Container("first-secret, Bearer headed", &testPod().Spec.Containers[0]); got != "first-secret, (withheld)" {
		t.Errorf("of one container: %s", got)
	}
}

// A manifest of the largest size costs a failure milliseconds.
func BenchmarkText(b *testing.B) {
	pod := testPod()
	for i := range 1000 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{
			Name: "E", Value: strings.Repeat("x", 1000) + string(rune('a'+i%26))})
	}
	text := strings.Repeat("no such file or directory; ", 150)
	for b.Loop() {
		Text(text, pod)
	}
}

func TestSecretsThatAPodRefersToAreTakenOut(t *testing.T) {
	secrets := []string{"s3cret-value", `{"auths":{"r.example":{"auth":"dXNlcjpwYXNz"}}}`, "true"}
	const text = "s3cret-value, auth dXNlcjpwYXNz of web is true"
	const want = "(withheld), auth (withheld) of web is true"
	for _, pod := range []*corev1.Pod{nil, testPod()} {
		if got := Text(text, pod, secrets...); got != want {
			t.Errorf("got %s", got)
		}
	}
}
