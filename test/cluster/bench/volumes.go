package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/fakecsi"
)

const (
	// driverName is the name of the CSI driver. The driver is the same process for every agent.
	driverName = "bench.example.com"
	// volumesOfPod is how many claims each pod has.
	volumesOfPod = 2
)

// volumes is a round whose pods have volumes of a CSI driver. They are attached as in any cluster: by the controller
// manager, when the node reports them in use, and by an attacher, which is this program.
type volumes struct {
	*round
	driver *fakecsi.Process
}

// provide starts the driver and its attacher, and creates the volumes of all pods with their claims.
func (v *volumes) provide(ctx context.Context) error {
	dir := v.NodeDir(v.agent.node)
	v.driver = &fakecsi.Process{
		Name: driverName, Root: filepath.Join(dir, "root"), Dir: filepath.Join(dir, "volumes"), Stage: true,
	}
	if err := v.driver.Run(); err != nil {
		return err
	}
	if err := v.attacher(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, v.limit)
	defer cancel()
	client := v.pods.client
	err := each(v.n*volumesOfPod, func(i int) error {
		name := v.claim(v.burstPods()[i/volumesOfPod], i%volumesOfPod)
		size := core.ResourceList{core.ResourceStorage: resource.MustParse("1Mi")}
		modes := []core.PersistentVolumeAccessMode{core.ReadWriteOnce}
		volume := v.agent.node + "-" + name
		_, err := client.CoreV1().PersistentVolumes().Create(ctx, &core.PersistentVolume{
			ObjectMeta: meta.ObjectMeta{Name: volume},
			Spec: core.PersistentVolumeSpec{
				Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: core.PersistentVolumeReclaimRetain,
				ClaimRef: &core.ObjectReference{Namespace: v.pods.name, Name: name},
				PersistentVolumeSource: core.PersistentVolumeSource{CSI: &core.CSIPersistentVolumeSource{
					Driver: driverName, VolumeHandle: volume,
				}},
			},
		}, meta.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = client.CoreV1().PersistentVolumeClaims(v.pods.name).Create(ctx, &core.PersistentVolumeClaim{
			ObjectMeta: meta.ObjectMeta{Name: name},
			Spec: core.PersistentVolumeClaimSpec{
				AccessModes: modes, VolumeName: volume, StorageClassName: ptr.To(""),
				Resources: core.VolumeResourceRequirements{Requests: size},
			},
		}, meta.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return cluster.Until(ctx, func() error { return errors.Join(v.bound(ctx), v.registered(ctx)) })
}

// claim is the name of a claim of a pod.
func (v *volumes) claim(pod string, i int) string { return fmt.Sprintf("%s-%d", pod, i) }

// bound returns an error while claims have no volume.
func (v *volumes) bound(ctx context.Context) error {
	all, err := v.pods.client.CoreV1().PersistentVolumeClaims(v.pods.name).List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		if c := &all.Items[i]; c.Status.Phase != core.ClaimBound {
			return fmt.Errorf("the claim %s is %s", c.Name, c.Status.Phase)
		}
	}
	return nil
}

// registered returns an error until the node reports the driver.
func (v *volumes) registered(ctx context.Context) error {
	node, err := v.pods.client.StorageV1().CSINodes().Get(ctx, v.agent.node, meta.GetOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(node.Spec.Drivers, func(d storage.CSINodeDriver) bool { return d.Name == driverName }) {
		return fmt.Errorf("the CSINode has the drivers %v", node.Spec.Drivers)
	}
	return nil
}

// attacher reports every volume as attached that the controller manager wants so, until ctx ends.
func (v *volumes) attacher(ctx context.Context) error {
	client := v.pods.client
	_, err := client.StorageV1().CSIDrivers().Create(ctx, &storage.CSIDriver{
		ObjectMeta: meta.ObjectMeta{Name: driverName},
		Spec:       storage.CSIDriverSpec{AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(false)},
	}, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	attachments := client.StorageV1().VolumeAttachments()
	before, err := attachments.List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, before.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: attachments.Watch,
	})
	if err != nil {
		return err
	}
	wanted := make(chan *storage.VolumeAttachment, v.n*volumesOfPod)
	for range senders {
		go func() {
			for a := range wanted {
				a.Status.Attached = true
				if _, err := attachments.UpdateStatus(ctx, a, meta.UpdateOptions{}); err != nil && ctx.Err() == nil {
					slog.Warn("a volume was not attached", "attachment", a.Name, "error", err)
				}
			}
		}()
	}
	go func() {
		defer close(wanted)
		for e := range w.ResultChan() {
			a, ok := e.Object.(*storage.VolumeAttachment)
			if ok && a.Spec.NodeName == v.agent.node && !a.Status.Attached && a.DeletionTimestamp == nil {
				wanted <- a
			}
		}
	}()
	return nil
}

// burst creates all pods at once, each with its volumes.
func (v *volumes) burst(ctx context.Context) error {
	return v.burstOf(ctx, "cluster_csi_burst", func(p *core.Pod) {
		for i := range volumesOfPod {
			name := fmt.Sprintf("v%d", i)
			p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: name, VolumeSource: core.VolumeSource{
				PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: v.claim(p.Name, i)},
			}})
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, core.VolumeMount{Name: name, MountPath: "/" + name})
		}
	})
}

// idle measures an agent whose pods all run, with their volumes.
func (v *volumes) idle(ctx context.Context) error { return v.idleOf(ctx, "cluster_csi_idle") }

// deletion deletes all pods at once, and requires that nothing stays mounted.
func (v *volumes) deletion(ctx context.Context) error {
	if err := v.deletionOf(ctx, "cluster_csi_delete"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, v.limit)
	defer cancel()
	return cluster.Until(ctx, func() error {
		root := v.driver.Root // a kubelet mounts the directory itself
		all := slices.Concat(fakecsi.Mounts(filepath.Join(root, "pods")), fakecsi.Mounts(filepath.Join(root, "plugins")))
		if len(all) > 0 {
			return fmt.Errorf("%d volumes are still mounted, such as %s", len(all), all[0])
		}
		return nil
	})
}

// stop ends the driver, and unmounts what a round that failed has left.
func (v *volumes) stop() {
	if v.driver != nil {
		v.driver.Kill()
		fakecsi.Clean(v.driver.Root)
	}
}
