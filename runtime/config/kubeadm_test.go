package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
)

// ofUnit returns the arguments that the unit of deploy/systemd passes, with the files that kubeadm 1.37.1 has written
// into a directory.
func ofUnit(t *testing.T, dir string, extra ...string) []string {
	t.Helper()
	env, err := os.ReadFile(filepath.Join(dir, "kubeadm-flags.env"))
	must.OK(t, err)
	quoted, found := strings.CutPrefix(strings.TrimSpace(string(env)), "KUBELET_KUBEADM_ARGS=")
	args, err := strconv.Unquote(quoted)
	if must.OK(t, err); !found {
		t.Fatalf("no KUBELET_KUBEADM_ARGS: %s", env)
	}
	return slices.Concat([]string{"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
		"--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=" + filepath.Join(dir, "config.yaml")},
		strings.Fields(args), extra)
}

// What kubeadm writes by itself is all in effect: no remark.
func TestFilesOfAKubeadmJoinAreInEffect(t *testing.T) {
	c, problems := mustLoad(t, ofUnit(t, "testdata/kubeadm/join")...)
	if len(problems) > 0 {
		t.Errorf("remarks on %v", problems)
	}
	l, s := c.Cluster, c.Server
	if l.Kubeconfig != "/etc/kubernetes/kubelet.conf" || !l.RotateCertificates || len(l.RegisterWithTaints) != 1 ||
		l.RegisterWithTaints[0] != (corev1.Taint{Key: "example.com/dedicated", Value: "batch", Effect: "NoSchedule"}) {
		t.Errorf("%+v", l)
	}
	if s.ClientCAFile != "/etc/kubernetes/pki/ca.crt" || s.Anonymous || !s.TokenReview ||
		s.Authorization != AuthorizeByWebhook || s.ReviewTTL != defaultReviewTTL || s.Port != 10250 {
		t.Errorf("%+v", s)
	}
	if c.StaticPodPath != "/etc/kubernetes/manifests" || c.CgroupDriver != "systemd" ||
		c.ClusterDomain != "cluster.local" ||
		!slices.Equal(c.ClusterDNS, []string{"10.96.0.10"}) || c.HealthzPort != 10248 ||
		c.ContainerRuntimeEndpoint != "unix:///run/containerd/containerd.sock" || c.NodeIP != "192.0.2.10" ||
		c.HostnameOverride != "node-2" || c.NodeLabels["example.com/disk"] != "ssd" ||
		c.RuntimeRequestTimeout != DefaultRequestTimeout || c.VolumeStatsAggPeriod != DefaultVolumeStatsAggPeriod {
		t.Errorf("%+v", c)
	}
}

// What an operator has kubeadm write is honoured, ignored with a remark, or refused, wherever it is written.
func TestFieldsOfAnOperatorThroughKubeadm(t *testing.T) {
	dropIns := t.TempDir()
	write(t, filepath.Join(dropIns, "10-pods.conf"), head+"maxPods: 70\ncontainerLogMaxSize: 3Mi\n")
	write(t, filepath.Join(dropIns, "20-pods.conf"), head+"maxPods: 80\n")
	c, problems := mustLoad(t, ofUnit(t, "testdata/kubeadm/operator", "--config-dir="+dropIns)...)
	want := []string{"failSwapOn", "featureGates"}
	if got := named(problems); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("remarks on %v, want %v", got, want)
	}
	if c.MaxPods != 80 || c.ContainerLogs.MaxSize != "3Mi" || c.MaxParallelImagePulls != 1 || c.RegistryPullQPS != 7 ||
		c.SystemReserved["cpu"] != "100m" || c.Shutdown.Period != 30*time.Second || !c.SeccompDefault ||
		!c.Cluster.ServerTLSBootstrap || c.Cluster.CloudProvider != ExternalCloud || c.Verbosity != 2 ||
		c.FileCheckFrequency != 7*time.Second || c.Managers.CPUPolicy != "static" {
		t.Errorf("%+v", c)
	}
}

// kubeadm 1.34 and before write flags that are gone since.
func TestFlagsOfAnOlderKubeadmAreTaken(t *testing.T) {
	c, problems := mustLoad(t, "--container-runtime-endpoint=unix:///run/crio/crio.sock",
		"--pod-infra-container-image=registry.k8s.io/pause:3.10.1", "--cgroup-driver=systemd")
	if len(problems) != 1 || problems[0].File != "--pod-infra-container-image" ||
		c.ContainerRuntimeEndpoint != "unix:///run/crio/crio.sock" || c.CgroupDriver != "systemd" {
		t.Errorf("%v, %+v", problems, c)
	}
}

// testdata/kubelet.flags are the flags of kubelet 1.37.1, without --help and --version, which are the command's.
func TestEveryFlagOfTheKubeletIsTaken(t *testing.T) {
	text, err := os.ReadFile("testdata/kubelet.flags")
	must.OK(t, err)
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Defaults().AddFlags(fs)
	for _, name := range strings.Fields(string(text)) {
		if fs.Lookup(name) == nil {
			t.Errorf("there is no --%s", name)
		}
	}
	for _, some := range kubeletFlags {
		for _, one := range strings.Fields(some.flags) {
			_, path, _ := strings.Cut(one, "=")
			top, _, _ := strings.Cut(path, ".")
			if _, known := fields[top]; !known {
				t.Errorf("--%s: no field", one)
			}
		}
	}
}

func TestFlagOfTheKubeletIsAFieldOfTheConfiguration(t *testing.T) {
	for flag, field := range map[string]string{
		"--eviction-soft-grace-period=memory.available=1m30s": "evictionSoftGracePeriod",
		"--feature-gates=AllAlpha=true":                       "featureGates",
		"--vmodule=a=1,b*=2":                                  "logging.vmodule",
		"--log-flush-frequency=1s":                            "logging.flushFrequency",
		"--log-json-split-stream":                             "logging.options.json",
		"--max-open-files=5":                                  "maxOpenFiles",
		"--fail-swap-on=false":                                "failSwapOn",
		"--streaming-connection-idle-timeout=0":               "streamingConnectionIdleTimeout",
		"--cpu-manager-reconcile-period=5s":                   "cpuManagerReconcilePeriod",
	} {
		_, problems := mustLoad(t, flag)
		if len(problems) != 1 || problems[0].Field != field || !strings.HasPrefix(flag, problems[0].File) {
			t.Errorf("%s: %v, want a remark on %s", flag, problems, field)
		}
	}
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"),
		head+"evictionSoft: {nodefs.available: 5%}\nregistryPullQPS: 3\nlogging: {verbosity: 3}\n")
	c, problems := mustLoad(t, "--config", file, "--eviction-soft=", "--registry-qps=9", "--logging-format=json",
		"--serialize-image-pulls", "--fail-swap-on", "--lock-file=", "--node-status-max-images=60",
		"--kubeconfig=/k")
	if len(problems) != 0 || c.RegistryPullQPS != 9 || c.Cluster.MaxImages != 60 || c.LogFormat != LogJSON ||
		c.Verbosity != 3 || c.MaxParallelImagePulls != 1 {
		t.Errorf("%v, %+v", problems, c)
	}
	for _, flag := range []string{
		"--eviction-soft=memory.available=1Gi", "--reserved-memory=memory=1Gi", "--vmodule=a",
		"--feature-gates=A=perhaps", "--pods-per-core=many", "--sync-frequency=5", "--fail-swap-on=perhaps",
	} {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		Defaults().AddFlags(fs)
		if fs.Parse([]string{flag}) == nil {
			t.Errorf("%s is accepted", flag)
		}
	}
	// A value out of bounds is refused as in a file.
	if c, _, err := load(t, "--file-check-frequency=1ms"); err != nil || c.Validate() == nil {
		t.Errorf("--file-check-frequency=1ms is accepted: %v", err)
	}
}
