package image

import "testing"

func TestFullNameIsTheRuntimes(t *testing.T) {
	for name, want := range map[string]string{
		"busybox":                       "docker.io/library/busybox:latest",
		"busybox:1.36":                  "docker.io/library/busybox:1.36",
		"docker.io/busybox":             "docker.io/library/busybox:latest",
		"index.docker.io/a/b:1":         "docker.io/a/b:1",
		"team/app:2":                    "docker.io/team/app:2",
		"localhost/app":                 "localhost/app:latest",
		"localhost:5000/app":            "localhost:5000/app:latest",
		"r.example/a/b:3@sha256:abc":    "r.example/a/b@sha256:abc",
		"registry.k8s.io/pause:3.10":    "registry.k8s.io/pause:3.10",
		"ghcr.io/x/y@sha256:0123456789": "ghcr.io/x/y@sha256:0123456789",
	} {
		if got := FullName(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
