package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/redact"
)

// inspectTimeout bounds an inspection of the runtime.
const inspectTimeout = 10 * time.Second

// Inspect returns a function that inspects the container runtime behind conn.
func Inspect(conn grpc.ClientConnInterface) func(context.Context) Runtime {
	rt, images := runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
	return func(ctx context.Context) Runtime {
		ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
		defer cancel()
		return inspect(ctx, rt, images)
	}
}

// inspectRuntime inspects the runtime if that is due: something has changed, or it had a problem when it was inspected
// last. A problem that is over before the runtime's health is observed again is not recorded.
func (d *Driver) inspectRuntime(ctx context.Context) {
	d.mu.Lock()
	due := d.inspect || d.world.Runtime.hasProblem() && !d.opts.Monotonic().Before(d.inspected.Add(d.opts.Update))
	d.inspect = false
	d.mu.Unlock()
	if !due {
		return
	}
	r := d.opts.Runtime(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.world.Runtime.hasProblem()
	d.world.Runtime, d.inspected = r.orBefore(&d.world.Runtime), d.opts.Monotonic()
	d.urgent = d.urgent || before && !r.hasProblem()
}

// untilInspection returns how long nothing is due, if it is wait without an inspection.
func (d *Driver) untilInspection(wait time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.world.Runtime.hasProblem() {
		return wait
	}
	return min(wait, max(0, d.inspected.Add(d.opts.Update).Sub(d.opts.Monotonic())))
}

func inspect(ctx context.Context, rt runtimeapi.RuntimeServiceClient, images runtimeapi.ImageServiceClient) Runtime {
	out := Runtime{}
	state, err := rt.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		out.Down = redact.URLs(status.Convert(err).Message())
		return out
	}
	problem := func(kind string) string {
		for _, c := range state.GetStatus().GetConditions() {
			switch {
			case c.GetType() != kind:
			case c.GetStatus():
				return ""
			default:
				return kind + "=false reason:" + c.GetReason() + " message:" + redact.URLs(c.GetMessage())
			}
		}
		return "the runtime does not report its condition " + kind
	}
	out.Problem, out.NetworkProblem = problem(runtimeapi.RuntimeReady), problem(runtimeapi.NetworkReady)
	out.Groups = state.GetFeatures().GetSupplementalGroupsPolicy()
	for _, h := range state.GetRuntimeHandlers() {
		out.Handlers = append(out.Handlers, corev1.NodeRuntimeHandler{
			Name: h.GetName(), Features: &corev1.NodeRuntimeHandlerFeatures{
				RecursiveReadOnlyMounts: new(h.GetFeatures().GetRecursiveReadOnlyMounts()),
				UserNamespaces:          new(h.GetFeatures().GetUserNamespaces()),
			},
		})
	}
	slices.SortStableFunc(out.Handlers, func(a, b corev1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	if v, err := rt.Version(ctx, &runtimeapi.VersionRequest{}); err == nil {
		out.Name, out.Version = v.GetRuntimeName(), v.GetRuntimeVersion()
	}
	if list, err := images.ListImages(ctx, &runtimeapi.ListImagesRequest{}); err == nil {
		for _, i := range list.GetImages() {
			out.Images = append(out.Images, corev1.ContainerImage{
				Names: slices.Concat(i.GetRepoDigests(), i.GetRepoTags()), SizeBytes: int64(i.GetSize()),
			})
		}
		slices.SortFunc(out.Images, func(a, b corev1.ContainerImage) int {
			return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
		})
	}
	return out
}
