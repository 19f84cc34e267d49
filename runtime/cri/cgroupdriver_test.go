package cri

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// reporter is a runtime that reports its configuration in one way or another.
type reporter struct {
	runtimeapi.RuntimeServiceClient
	linux  *runtimeapi.LinuxRuntimeConfiguration
	err    error
	config string
}

func (r reporter) RuntimeConfig(
	context.Context, *runtimeapi.RuntimeConfigRequest, ...grpc.CallOption,
) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{Linux: r.linux}, r.err
}

func (r reporter) Status(
	_ context.Context, in *runtimeapi.StatusRequest, _ ...grpc.CallOption,
) (*runtimeapi.StatusResponse, error) {
	if !in.GetVerbose() || r.config == "" {
		return &runtimeapi.StatusResponse{}, nil
	}
	return &runtimeapi.StatusResponse{Info: map[string]string{"config": r.config, "golang": `"go1.19.8"`}}, nil
}

// As containerd 1.6.20 reports it, with less around it.
func configOf(kind, options string) string {
	return `{"containerd":{"snapshotter":"overlayfs","defaultRuntimeName":"runc","defaultRuntime":{"runtimeType":"",` +
		`"options":null},"runtimes":{"kata":{"runtimeType":"io.containerd.kata.v2","options":null},` +
		`"runc":{"runtimeType":"` + kind + `","runtimePath":"","options":` + options + `}}},"systemdCgroup":false}`
}

func TestCgroupDriverIsTheRuntimes(t *testing.T) {
	unimplemented := status.Error(codes.Unimplemented, "unknown method RuntimeConfig")
	const runc = "io.containerd.runc.v2"
	for name, c := range map[string]struct {
		runtime reporter
		want    string
	}{
		"reports systemd": {reporter{linux: &runtimeapi.LinuxRuntimeConfiguration{}}, cgroup.Systemd},
		"reports cgroupfs, whatever its configuration": {reporter{
			linux:  &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
			config: configOf(runc, `{"SystemdCgroup":true}`),
		}, cgroup.Cgroupfs},
		"configured for systemd": {
			reporter{err: unimplemented, config: configOf(runc, `{"SystemdCgroup":true}`)}, cgroup.Systemd,
		},
		"configured for cgroupfs": {
			reporter{err: unimplemented, config: configOf(runc, `{"SystemdCgroup":false}`)}, cgroup.Cgroupfs,
		},
		"configured without it":   {reporter{err: unimplemented, config: configOf(runc, "null")}, cgroup.Cgroupfs},
		"another default handler": {reporter{err: unimplemented, config: configOf("io.containerd.kata.v2", "null")}, ""},
		"no configuration":        {reporter{err: unimplemented}, ""},
		"reports nothing":         {reporter{}, ""},
		"not JSON":                {reporter{err: unimplemented, config: "{"}, ""},
		"too large": {reporter{
			err: unimplemented, config: strings.Repeat(" ", maxConfigBytes) + configOf(runc, `{"SystemdCgroup":true}`),
		}, ""},
	} {
		got, err := CgroupDriver(t.Context(), c.runtime)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
		d := &Driver{rt: c.runtime, opts: Options{CgroupDriver: "flag"}}
		if got, err := d.cgroupDriver(t.Context()); err != nil || got != cmp.Or(c.want, "flag") {
			t.Errorf("%s: the agent uses %q, %v", name, got, err)
		}
	}
	down := reporter{err: status.Error(codes.Unavailable, "no connection")}
	if got, err := CgroupDriver(t.Context(), down); err == nil {
		t.Errorf("a runtime that does not respond uses %q", got)
	}
}

func TestRefusedCgroupPathNamesTheFlag(t *testing.T) {
	const refused = `runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, ` +
		`got "/kubepods/besteffort/pod1/a" instead: unknown`
	for _, err := range []error{createError(status.Error(codes.Unknown, refused)), status.Error(codes.Unknown, refused)} {
		if m := failureOf(err).Message; !strings.HasPrefix(m, refused) || !strings.HasSuffix(m, "--cgroup-driver systemd") {
			t.Errorf("%s", m)
		}
	}
	if m := messageOf(status.Error(codes.Unknown, "no")); m != "no" {
		t.Error(m)
	}
}
