package preflight

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// eventWait is how long to wait for the error of a runtime without events; one with events sends none.
const eventWait = 500 * time.Millisecond

// runtime checks the version, the status and the events of the container runtime.
func (m *machine) runtime(ctx context.Context) []Check {
	const start = "start it (systemctl start containerd), or set its socket with --container-runtime-endpoint"
	const log = "see its log: journalctl -u containerd"
	path := socketPath(m.cfg.ContainerRuntimeEndpoint)
	st, err := os.Stat(m.path(path))
	if err != nil {
		return []Check{{Status: Fail, Message: fmt.Sprintf("no runtime at %s: %v", path, err), Remedy: start}}
	}
	if st.Mode()&os.ModeSocket == 0 {
		return []Check{{Status: Fail, Message: path + " is not a socket",
			Remedy: "set the runtime's socket with --container-runtime-endpoint"}}
	}
	conn, err := grpc.NewClient("unix:"+m.path(path), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return []Check{{Status: Fail, Message: fmt.Sprintf("cannot connect to %s: %v", path, err), Remedy: start}}
	}
	defer conn.Close()
	rt := runtimeapi.NewRuntimeServiceClient(conn)
	version, err := rt.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		remedy := start
		if status.Code(err) == codes.Unimplemented {
			remedy = "enable the runtime's CRI plugin (containerd: remove cri from disabled_plugins) and restart it"
		}
		message := fmt.Sprintf("the runtime at %s does not respond: %s", path, status.Convert(err).Message())
		return []Check{{Status: Fail, Message: message, Remedy: remedy}}
	}
	response, err := rt.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return []Check{{Status: Fail, Message: "the runtime's status: " + status.Convert(err).Message(), Remedy: log}}
	}
	out := []Check{ok("%s %s", version.GetRuntimeName(), version.GetRuntimeVersion())}
	if c := condition(response.GetStatus(), runtimeapi.RuntimeReady); !c.GetStatus() {
		message := fmt.Sprintf("%s is not ready: %s %s", version.GetRuntimeName(), c.GetReason(), c.GetMessage())
		out[0] = Check{Status: Fail, Message: message, Remedy: log}
	}
	network := ok("the runtime's network is ready")
	if c := condition(response.GetStatus(), runtimeapi.NetworkReady); !c.GetStatus() {
		message := fmt.Sprintf("only pods with hostNetwork can run: %s %s", c.GetReason(), c.GetMessage())
		network = Check{Status: Warn, Message: message,
			Remedy: "put a CNI configuration into /etc/cni/net.d and its plugins into /opt/cni/bin"}
	}
	network.Name = "runtime-network"
	events := m.events(ctx, rt)
	events.Name = "runtime-events"
	driver := m.cgroupDriver(ctx, rt)
	driver.Name = "cgroup-driver"
	return append(append(out, network, events, driver), m.settings(ctx, rt, version.GetRuntimeName())...)
}

// cgroupDriver checks that the agent can know the runtime's cgroup driver: with the wrong one no container starts.
func (m *machine) cgroupDriver(ctx context.Context, rt runtimeapi.RuntimeServiceClient) Check {
	driver, err := cri.CgroupDriver(ctx, rt)
	switch {
	case err != nil:
		return Check{Status: Warn, Message: "the runtime's cgroup driver is unknown: " + status.Convert(err).Message(),
			Remedy: "see its log: journalctl -u containerd"}
	case driver != "":
		return ok("the runtime uses %s", driver)
	case m.cfg.CgroupDriver == cgroup.Cgroupfs && m.exists("run/systemd/system"):
		return Check{Status: Warn, Message: "the runtime does not report its driver, and systemd runs here: if the runtime " +
			"uses systemd and the agent cgroupfs, no container starts",
			Remedy: "pass --cgroup-driver systemd if the runtime is configured for it (containerd: SystemdCgroup = true)"}
	}
	return ok("the runtime does not report its driver; the agent uses %s", m.cfg.CgroupDriver)
}

func condition(st *runtimeapi.RuntimeStatus, kind string) *runtimeapi.RuntimeCondition {
	for _, c := range st.GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return &runtimeapi.RuntimeCondition{Reason: "it does not report condition " + kind}
}

func (m *machine) events(ctx context.Context, rt runtimeapi.RuntimeServiceClient) Check {
	none := Check{Status: Warn, Message: "the runtime sends no container events: the agent relists every second instead",
		Remedy: "use containerd 1.7 or later, or enable events in CRI-O (enable_pod_events = true)"}
	// Not a deadline: gRPC would send it to the runtime, which would end the stream first.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(eventWait, cancel).Stop()
	stream, err := rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil && status.Code(err) != codes.Canceled {
		return none
	}
	return ok("the runtime sends container events")
}
