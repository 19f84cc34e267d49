package podresources

import (
	"context"

	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// old serves v1alpha1, which the kubelet still has beside v1 and old monitors call: the devices of containers alone.
type old struct {
	alpha.UnimplementedPodResourcesListerServer
	*Server
}

// List returns the devices that the containers of all pods have.
func (o old) List(ctx context.Context, _ *alpha.ListPodResourcesRequest) (*alpha.ListPodResourcesResponse, error) {
	now, err := o.Server.List(ctx, new(api.ListPodResourcesRequest))
	if err != nil {
		return nil, err
	}
	out := new(alpha.ListPodResourcesResponse)
	for _, p := range now.GetPodResources() {
		pod := &alpha.PodResources{Name: p.GetName(), Namespace: p.GetNamespace()}
		for _, c := range p.GetContainers() {
			container := &alpha.ContainerResources{Name: c.GetName()}
			for _, d := range c.GetDevices() {
				container.Devices = append(container.Devices,
					&alpha.ContainerDevices{ResourceName: d.GetResourceName(), DeviceIds: d.GetDeviceIds()})
			}
			pod.Containers = append(pod.Containers, container)
		}
		out.PodResources = append(out.PodResources, pod)
	}
	return out, nil
}
