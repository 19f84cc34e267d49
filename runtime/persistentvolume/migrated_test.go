package persistentvolume

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/test/must"
)

const (
	ebs     = "ebs.csi.aws.com"
	ebsZone = "topology.ebs.csi.aws.com/zone"
)

// migratedKinds are inline volumes of the kinds that CSI drivers have taken over, with the driver, the handle and the
// directory in the pod that the kubelet gives them.
var migratedKinds = map[string]struct {
	source              corev1.VolumeSource
	driver, handle, dir string
}{
	"awsElasticBlockStore": {
		corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{
			VolumeID: "aws://eu-west-1a/vol-0123456789abcdef0", FSType: "ext4", Partition: 2}},
		ebs, "vol-0123456789abcdef0", "ebs.csi.aws.com-vol-0123456789abcdef0",
	},
	"gcePersistentDisk": {
		corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "disk-1"}},
		"pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-1", "pd.csi.storage.gke.io-disk-1",
	},
	"azureDisk": {
		corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
			DiskName: "d", DataDiskURI: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"}},
		"disk.csi.azure.com", "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d",
		"~subscriptions~s~resourceGroups~g~providers~Microsoft.Compute~disks~d",
	},
	"azureFile": {
		corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{
			SecretName: "azure-storage-account-acc-secret", ShareName: "share"}},
		"file.csi.azure.com", "#acc#share#data#default", "#acc#share#data#default",
	},
	"cinder": {
		corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "c1", FSType: "xfs"}},
		"cinder.csi.openstack.org", "c1", "cinder.csi.openstack.org-c1",
	},
	"vsphereVolume": {
		corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{
			VolumePath: "[ds] kubevols/v.vmdk", StoragePolicyName: "gold"}},
		"csi.vsphere.vmware.com", "[ds] kubevols/v.vmdk", "csi.vsphere.vmware.com-[ds] kubevols~v.vmdk",
	},
	"portworxVolume": {
		corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "p1", FSType: "ext4"}},
		"pxd.portworx.com", "p1", "pxd.portworx.com-p1",
	},
}

// The deciders know the kinds by their fields, and the library by its translators: both must know the same.
func TestDecidersAndLibraryKnowTheSameMigratedKinds(t *testing.T) {
	kinds := reflect.TypeFor[corev1.VolumeSource]()
	for i := range kinds.NumField() {
		v := &corev1.Volume{Name: "data"}
		f := reflect.ValueOf(&v.VolumeSource).Elem().Field(i)
		f.Set(reflect.New(f.Type().Elem()))
		name, _, _ := strings.Cut(kinds.Field(i).Tag.Get("json"), ",")
		_, listed := migratedKinds[name]
		if m := references.IsMigrated(v); m != listed || m != translator.IsInlineMigratable(v) {
			t.Errorf("%s: migrated for deciders %v, for the library %v, in this test %v", name, m,
				translator.IsInlineMigratable(v), listed)
		}
	}
}

func TestInlineVolumesOfCloudsAreThoseOfTheirDrivers(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for kind, want := range migratedKinds {
		vol := &corev1.Volume{Name: "data", VolumeSource: want.source}
		before := vol.DeepCopy()
		s, err := ofMigrated(p, vol)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if s.key.driver != want.driver || s.handle != want.handle || s.dir != want.dir {
			t.Errorf("%s: driver %q, handle %q, directory %q", kind, s.key.driver, s.handle, s.dir)
		}
		if !s.migrated || s.inline || s.block || !s.attached() || s.claim != nil {
			t.Errorf("%s: inline %v, block %v, attached %v", kind, s.inline, s.block, s.attached())
		}
		if got := DriverOf(vol); got != want.driver {
			t.Errorf("%s: driver %q", kind, got)
		}
		if !reflect.DeepEqual(vol, before) {
			t.Errorf("%s: the manifest was changed to %v", kind, vol)
		}
		if err := checkName("volume", s.dir); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	azure, err := ofMigrated(p, &corev1.Volume{Name: "data", VolumeSource: migratedKinds["azureFile"].source})
	must.OK(t, err)
	if r := azure.stageSecret; r == nil || r.Namespace != "default" || r.Name != "azure-storage-account-acc-secret" {
		t.Errorf("secret %v", r)
	}
	vsphere, err := ofMigrated(p, &corev1.Volume{Name: "data", VolumeSource: migratedKinds["vsphereVolume"].source})
	if must.OK(t, err); vsphere.attributes[storagePolicyAttribute] != "gold" {
		t.Errorf("attributes %v", vsphere.attributes)
	}
}

// What no cloud has written must end in an error at most.
func TestTranslationOfAnyVolumeEndsInAnErrorAtMost(t *testing.T) {
	p := &corev1.Pod{}
	for kind := range migratedKinds {
		v := &corev1.Volume{}
		named := func(field string) bool { return strings.EqualFold(field, kind) }
		f := reflect.ValueOf(&v.VolumeSource).Elem().FieldByNameFunc(named)
		f.Set(reflect.New(f.Type().Elem()))
		if s, err := ofMigrated(p, v); err == nil && s.key.driver == "" {
			t.Errorf("%s: %v", kind, s)
		}
	}
	if _, err := translate(func() (*corev1.PersistentVolume, error) { panic("boom") }); err == nil {
		t.Error("a panic is no error")
	}
	if _, err := translate(func() (*corev1.PersistentVolume, error) { return nil, nil }); err == nil {
		t.Error("no volume is no error")
	}
}

// resolved returns what a volume of a pod is in a cluster.
func resolved(t *testing.T, c *cluster, vol corev1.Volume) (*source, error) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p1"}}
	v := &Volumes{opts: Options{Node: c, Objects: c}}
	return v.resolve(t.Context(), c, p, &vol)
}

// A PersistentVolume of an old cluster is its driver's, in the zone that the driver names. Its object stays as it is.
func TestAPersistentVolumeOfACloudIsItsDrivers(t *testing.T) {
	zone := func(key string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"eu-west-1a"},
			}},
		}}}}
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-a"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{UID: "claim-a"}, NodeAffinity: zone(corev1.LabelFailureDomainBetaZone),
			PersistentVolumeSource: corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{
				VolumeID: "aws://eu-west-1a/vol-0123456789abcdef0", FSType: "ext4",
			}},
		},
	}
	c := &cluster{
		driver: &storagev1.CSIDriver{},
		node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{ebsZone: "eu-west-1a"}}},
		pvcs: map[string]*corev1.PersistentVolumeClaim{"a": {
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "claim-a"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-a"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}},
		volumes: map[string]*corev1.PersistentVolume{"pv-a": pv},
	}
	before := pv.DeepCopy()
	vol := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}}
	s, err := resolved(t, c, vol)
	if must.OK(t, err); s.key != (key{ebs, "vol-0123456789abcdef0"}) || s.dir != "pv-a" || s.fsType != "ext4" ||
		!s.attached() || s.claim == nil || !s.migrated {
		t.Errorf("%+v", s)
	}
	if !reflect.DeepEqual(pv, before) {
		t.Error("the object of the PersistentVolume was changed")
	}
	c.node.Labels = map[string]string{ebsZone: "eu-west-1b"}
	if _, err := resolved(t, c, vol); err == nil {
		t.Error("a volume of another zone is taken")
	}
	pv.Spec.AWSElasticBlockStore.VolumeID = "aws://eu-west-1a/nonsense"
	const want = "failed to translate in-tree pv to CSI"
	if _, err := resolved(t, c, vol); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// An inline one is attached by the control plane, and needs no driver for ephemeral volumes.
func TestAnInlineVolumeOfACloudIsAttached(t *testing.T) {
	c := &cluster{driver: &storagev1.CSIDriver{}}
	s, err := resolved(t, c, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-0123456789abcdef0", ReadOnly: true}}})
	if must.OK(t, err); !s.attached() || !s.readOnly || s.claim != nil {
		t.Errorf("%+v", s)
	}
}
