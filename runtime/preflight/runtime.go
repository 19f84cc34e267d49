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
)

// eventWait is how long a runtime may take to say that it has no events; one that has them says nothing.
const eventWait = 500 * time.Millisecond

// runtime asks the container runtime what it is and how it is.
func (m *machine) runtime(ctx context.Context) []Check {
	const start = "start it (systemctl start containerd), or name its socket with --container-runtime-endpoint"
	path := socketPath(m.cfg.ContainerRuntimeEndpoint)
	st, err := os.Stat(m.path(path))
	if err != nil {
		return []Check{{Status: Fail, Message: fmt.Sprintf("no runtime at %s: %v", path, err), Remedy: start}}
	}
	if st.Mode()&os.ModeSocket == 0 {
		return []Check{{Status: Fail, Message: path + " is not a socket", Remedy: "name the runtime's socket with --container-runtime-endpoint"}}
	}
	conn, err := grpc.NewClient("unix:"+m.path(path), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return []Check{{Status: Fail, Message: fmt.Sprintf("%s cannot be called: %v", path, err), Remedy: start}}
	}
	defer conn.Close()
	rt := runtimeapi.NewRuntimeServiceClient(conn)
	version, err := rt.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		remedy := start
		if status.Code(err) == codes.Unimplemented {
			remedy = "enable the runtime's CRI plugin (containerd: take cri out of disabled_plugins) and restart it"
		}
		return []Check{{Status: Fail, Message: fmt.Sprintf("the runtime at %s does not answer: %s", path, status.Convert(err).Message()), Remedy: remedy}}
	}
	answer, err := rt.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return []Check{{Status: Fail, Message: "the runtime does not tell its status: " + status.Convert(err).Message(), Remedy: "look into its log: journalctl -u containerd"}}
	}
	out := []Check{ok("%s %s", version.GetRuntimeName(), version.GetRuntimeVersion())}
	if c := condition(answer.GetStatus(), runtimeapi.RuntimeReady); !c.GetStatus() {
		out[0] = Check{Status: Fail, Message: fmt.Sprintf("%s is not ready: %s %s", version.GetRuntimeName(), c.GetReason(), c.GetMessage()), Remedy: "look into its log: journalctl -u containerd"}
	}
	network := ok("the runtime's network is ready")
	if c := condition(answer.GetStatus(), runtimeapi.NetworkReady); !c.GetStatus() {
		network = Check{Status: Warn, Message: fmt.Sprintf("only pods on the host's network can run: %s %s", c.GetReason(), c.GetMessage()), Remedy: "put a CNI configuration into /etc/cni/net.d and its plugins into /opt/cni/bin"}
	}
	network.Name = "runtime-network"
	events := m.events(ctx, rt)
	events.Name = "runtime-events"
	return append(out, network, events)
}

func condition(st *runtimeapi.RuntimeStatus, kind string) *runtimeapi.RuntimeCondition {
	for _, c := range st.GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return &runtimeapi.RuntimeCondition{Reason: "it does not tell its condition " + kind}
}

func (m *machine) events(ctx context.Context, rt runtimeapi.RuntimeServiceClient) Check {
	none := Check{Status: Warn, Message: "the runtime tells no container events: it is listed every second instead", Remedy: "use containerd 1.7 or later, or enable events in CRI-O (enable_pod_events = true)"}
	// Cancelled rather than given a deadline, which would travel to the runtime and end the stream at its end first.
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
	return ok("the runtime tells container events")
}
