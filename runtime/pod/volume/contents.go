package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/pod/downward"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

const (
	// defaultMode is the mode of files whose volume sets no mode.
	defaultMode = fs.FileMode(0o644)
	// privateMode is the mode of tokens and certificates that have an owner.
	privateMode = fs.FileMode(0o600)
	// maxTokenBytes bounds a token that is read from a volume.
	maxTokenBytes = 64 << 10
)

// contentsOf collects the files of a volume. Its errors name objects, keys and paths, never values.
func (d *Driver) contentsOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (payload, error) {
	c := collector{Driver: d, ctx: ctx, pod: pod, volume: v.Name, files: payload{}}
	var err error
	switch {
	case v.ConfigMap != nil:
		c.setMode(v.ConfigMap.DefaultMode)
		err = c.configMap(v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		c.setMode(v.Secret.DefaultMode)
		err = c.secret(v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.DownwardAPI != nil:
		c.setMode(v.DownwardAPI.DefaultMode)
		err = c.downwardAPI(v.DownwardAPI.Items)
	case v.Projected != nil:
		c.setMode(v.Projected.DefaultMode)
		var all []error
		for i := range v.Projected.Sources {
			all = append(all, c.projection(i, &v.Projected.Sources[i]))
		}
		err = aggregate(all)
	}
	return c.files, err
}

// aggregate joins errors as the kubelet does. It is permanent if all of them are.
func aggregate(all []error) error {
	joined := utilerrors.NewAggregate(all)
	if joined == nil {
		return nil
	}
	var p permanent
	for _, err := range joined.Errors() {
		if !errors.As(err, &p) {
			return joined
		}
	}
	return permanent{joined}
}

// collector collects the files of one volume. A path that two sources have is the last one's.
type collector struct {
	*Driver
	ctx    context.Context
	pod    *corev1.Pod
	volume string
	mode   fs.FileMode // of files that set none
	files  payload
}

// add adds a file. Of two spellings of one path, the last counts, too.
func (c *collector) add(path string, f file) {
	if checkPath(path) == nil { // else the error is the writer's
		path = filepath.Clean(path)
	}
	c.files[path] = f
}

func (c *collector) setMode(mode *int32) { c.mode = modeOr(mode, defaultMode) }

func modeOr(mode *int32, otherwise fs.FileMode) fs.FileMode {
	if mode == nil {
		return otherwise
	}
	return fs.FileMode(*mode).Perm()
}

// projection adds the files of a source of a projected volume; i is its index.
func (c *collector) projection(i int, s *corev1.VolumeProjection) error {
	switch {
	case s.ConfigMap != nil:
		return c.configMap(s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
	case s.Secret != nil:
		return c.secret(s.Secret.Name, s.Secret.Items, s.Secret.Optional)
	case s.DownwardAPI != nil:
		return c.downwardAPI(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return c.token(s.ServiceAccountToken)
	case s.ClusterTrustBundle != nil:
		return c.trustBundle(s.ClusterTrustBundle)
	case s.PodCertificate != nil:
		return c.certificate(i, s.PodCertificate)
	}
	return permanent{errors.New("this kind of projection is not supported; use configMap, secret, downwardAPI, " +
		"serviceAccountToken, clusterTrustBundle or podCertificate")}
}

// errNoObjects means that the agent has no store of objects.
var errNoObjects = errors.New("this agent has no ConfigMaps and Secrets")

// required returns nil if an optional object does not exist.
func required(err error, optional *bool) error {
	if optional != nil && *optional && errors.Is(err, objects.ErrNotFound) {
		return nil
	}
	return err
}

func (c *collector) configMap(name string, items []corev1.KeyToPath, optional *bool) error {
	if c.opts.Objects == nil {
		return errNoObjects
	}
	data := map[string][]byte{}
	object, err := c.opts.Objects.ConfigMap(c.ctx, objects.OwnerOf(c.pod), name)
	if err != nil {
		if err := required(err, optional); err != nil {
			return err
		}
		object = &corev1.ConfigMap{}
	}
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	for key, value := range object.BinaryData {
		data[key] = value
	}
	return c.keys("configmap references non-existent config key: ", data, items, optional)
}

func (c *collector) secret(name string, items []corev1.KeyToPath, optional *bool) error {
	if c.opts.Objects == nil {
		return errNoObjects
	}
	object, err := c.opts.Objects.Secret(c.ctx, objects.OwnerOf(c.pod), name)
	if err != nil {
		if err := required(err, optional); err != nil {
			return err
		}
		object = &corev1.Secret{}
	}
	return c.keys("references non-existent secret key: ", object.Data, items, optional)
}

// keys adds the values of an object: all values, or the values of the items.
func (c *collector) keys(missing string, data map[string][]byte, items []corev1.KeyToPath, optional *bool) error {
	if len(items) == 0 {
		for key, value := range data {
			c.add(key, file{data: value, mode: c.mode})
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		switch {
		case ok:
			c.add(item.Path, file{data: value, mode: modeOr(item.Mode, c.mode)})
		case optional == nil || !*optional:
			return errors.New(missing + item.Key)
		}
	}
	return nil
}

func (c *collector) downwardAPI(items []corev1.DownwardAPIVolumeFile) error {
	fields := downward.Pod{Pod: c.pod}
	if c.opts.Allocatable != nil {
		fields.Allocatable = c.opts.Allocatable()
	}
	var all []error
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = fields.Field(item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = fields.Resource(nil, item.ResourceFieldRef)
		}
		if err != nil {
			all = append(all, permanent{err})
			continue
		}
		c.add(item.Path, file{data: []byte(value), mode: modeOr(item.Mode, c.mode)})
	}
	return aggregate(all)
}

func (c *collector) token(source *corev1.ServiceAccountTokenProjection) error {
	if c.opts.Objects == nil {
		return errNoObjects
	}
	token, err := c.opts.Objects.Token(c.ctx, c.pod, source)
	if errors.Is(err, objects.ErrAway) {
		return c.tokenOfBefore(source.Path)
	}
	if err != nil {
		return err
	}
	c.addPrivate(source.Path, []byte(token))
	return nil
}

// tokenOfBefore adds the token that the volume holds. After a reboot the volume holds no token: the pod runs without a
// token until the API server is back, which changes the volume. A pod without a container so far waits: the store may
// have had its token without a volume that was given it.
func (c *collector) tokenOfBefore(path string) error {
	dir, err := c.Path(c.pod, c.volume)
	if err != nil {
		return err
	}
	data, err := bounded.ReadFileWithin(dir, path, maxTokenBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.ranBefore()
	case err != nil:
		return fmt.Errorf("the token from before: %w", err)
	}
	c.addPrivate(path, data)
	return nil
}

// ranBefore returns an error unless a container of the pod was created before.
func (c *collector) ranBefore() error {
	for _, err := range bounded.Entries(filepath.Join(c.PodDir(string(c.pod.UID)), containersDir)) {
		return err
	}
	return fmt.Errorf("the pod had no token before: %w", objects.ErrAway)
}

func (c *collector) trustBundle(source *corev1.ClusterTrustBundleProjection) error {
	if c.opts.Objects == nil {
		return errNoObjects
	}
	if source.Name == nil && source.SignerName == nil {
		return permanent{errors.New("ClusterTrustBundle projection requires either name or signerName to be set")}
	}
	bundle, err := c.opts.Objects.TrustBundle(c.ctx, objects.OwnerOf(c.pod), source)
	if err := required(err, source.Optional); err != nil {
		return err
	}
	c.addPrivate(source.Path, bundle)
	return nil
}

// certificate adds the files of a key and its certificates, in the kubelet's order: of two with one path the last
// counts (pkg/volume/projected).
func (c *collector) certificate(i int, source *corev1.PodCertificateProjection) error {
	if c.opts.Objects == nil {
		return errNoObjects
	}
	issued, err := c.opts.Objects.Certificate(c.ctx, c.pod, c.volume, i)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		data []byte
	}{
		{source.CredentialBundlePath, slices.Concat(issued.Key, issued.Chain)},
		{source.KeyPath, issued.Key},
		{source.CertificateChainPath, issued.Chain},
	} {
		if f.path != "" {
			c.addPrivate(f.path, f.data)
		}
	}
	return nil
}

// addPrivate adds a file that only its owner may read if it has one: the user that all containers run as, or the
// fsGroup.
func (c *collector) addPrivate(path string, data []byte) {
	f := file{data: data, mode: c.mode, user: userOf(c.pod)}
	if f.user != nil || fsGroupOf(c.pod) != nil {
		f.mode = privateMode
	}
	c.add(path, f)
}

// userOf returns the user that all containers of the pod run as; nil if they differ, or one does not set any.
func userOf(pod *corev1.Pod) *int64 {
	var podUser *int64
	if pod.Spec.SecurityContext != nil {
		podUser = pod.Spec.SecurityContext.RunAsUser
	}
	var user *int64
	for _, s := range securityContexts(pod) {
		own := podUser
		if s != nil && s.RunAsUser != nil {
			own = s.RunAsUser
		}
		if own == nil || user != nil && *user != *own {
			return nil
		}
		user = own
	}
	return user
}

func securityContexts(pod *corev1.Pod) []*corev1.SecurityContext {
	var out []*corev1.SecurityContext
	for c := range containers.All(pod) {
		out = append(out, c.SecurityContext)
	}
	return out
}

// setUpContents creates a volume of files, or brings it to its newer ones.
func (d *Driver) setUpContents(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, rel string) error {
	files, err := d.contentsOf(ctx, pod, v)
	if err != nil {
		return err
	}
	root, err := d.openPod(string(pod.UID), true)
	if err != nil {
		return err
	}
	defer root.Close()
	medium := corev1.StorageMediumMemory
	if v.ConfigMap != nil { // on disk, as by the kubelet
		medium = corev1.StorageMediumDefault
	}
	if err := d.setUpEmptyDir(root, pod, &corev1.EmptyDirVolumeSource{Medium: medium}, rel); err != nil {
		return err
	}
	if v.ConfigMap != nil { // what is mounted over it is not the pod's to write
		path := filepath.Join(d.PodDir(string(pod.UID)), rel)
		kind, err := d.mounts.kindAt(path)
		if err == nil && kind != "" {
			err = fmt.Errorf("%s is a mount of another kind (%s); unmount it", path, kind)
		}
		if err != nil {
			return err
		}
	}
	volume, err := root.OpenRoot(rel)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer volume.Close()
	points := mountPoints(pod, v.Name)
	if err := createParents(volume, points, fsGroupOf(pod)); err != nil {
		return err
	}
	w := writer{ctx: ctx, root: volume, files: files, fsGroup: fsGroupOf(pod), points: points}
	w.shown = func() (map[subpath.File]bool, error) { return subpath.Shown(d.PodDir(string(pod.UID)), v.Name) }
	// A container may be created meanwhile: what it is to mount must not be removed between its opening and its mount.
	d.contents.LockKey(string(pod.UID))
	defer func() { _ = d.contents.UnlockKey(string(pod.UID)) }()
	return w.write()
}
