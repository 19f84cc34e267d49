package logs

import (
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// statusTimeout bounds a call of the runtime (kubelet default: 2 min).
const statusTimeout = 2 * time.Minute

// Statuses is what Instances need of the container runtime; a CRI client implements it.
type Statuses interface {
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (
		*runtimeapi.ContainerStatusResponse, error)
}

// Instances read the logs of the runtime's containers.
type Instances struct {
	Reader  *Reader
	Runtime Statuses
}

// Read writes the log of an instance, named by the runtime's id of it. An empty write shows that the log was opened;
// an error before it means that there is no log.
func (i *Instances) Read(ctx context.Context, id string, q Query, w io.Writer) (Report, error) {
	st, err := i.status(ctx, id)
	if err != nil {
		return Report{}, fmt.Errorf("unable to retrieve container logs for %s: %w", id, err)
	}
	if st.GetLogPath() == "" {
		return Report{}, fmt.Errorf("unable to retrieve container logs for %s: the runtime reports no log", id)
	}
	return i.Reader.Read(ctx, Log{Path: st.GetLogPath(), Ended: func(ctx context.Context) bool {
		st, err := i.status(ctx, id)
		if err != nil { // a runtime that does not answer may run the container nevertheless
			return status.Code(err) == codes.NotFound
		}
		state := st.GetState()
		return state != runtimeapi.ContainerState_CONTAINER_RUNNING && state != runtimeapi.ContainerState_CONTAINER_CREATED
	}}, q, w)
}

func (i *Instances) status(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	got, err := i.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	return got.GetStatus(), err
}
