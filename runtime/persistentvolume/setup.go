package persistentvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/redact"
)

// tokensKey is the attribute, or the secret, that has the tokens of a pod's service account. kubelet: the same.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// SetUp has a volume of a pod staged, if its driver does that, and published. It is idempotent. An error has nothing of
// Secrets, tokens and publish context.
func (v *Volumes) SetUp(ctx context.Context, pod *corev1.Pod, vol *corev1.Volume) error {
	uid := string(pod.UID)
	if dir, r := v.find(uid, vol.Name); r.isDone(published, v.opts.BootID) {
		if there, err := v.isThere(v.target(uid, dir), r); there || err != nil {
			return err
		}
	}
	src, err := v.resolve(ctx, v.opts.Objects, pod, vol)
	if err != nil {
		return err
	}
	if src.driverless() {
		began := v.opts.Clock.Now()
		s := &setUp{Volumes: v, pod: pod, vol: vol, src: src}
		err := s.setUpOnNode(ctx)
		s.observe(ctx, either(src.block, opMap, OpMount), began, err)
		return err
	}
	d, err := v.opts.Drivers.Caller(src.key.driver)
	if err != nil {
		return err
	}
	s := &setUp{Volumes: v, pod: pod, vol: vol, src: src, driver: d}
	return s.withheld(s.run(ctx))
}

// setUp is the set-up of one volume.
type setUp struct {
	*Volumes
	pod    *corev1.Pod
	vol    *corev1.Volume
	src    *source
	driver Caller

	can capabilities
	// attachment is the publish context, which the control plane has of the driver.
	attachment map[string]string
	// label is the SELinux label that the volume is mounted with; empty: none.
	label string
	// secrets is what no error may repeat.
	secrets []string
}

// withheld returns an error without secrets.
func (s *setUp) withheld(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s%.0w", redact.Text(err.Error(), nil, s.secrets...), err)
}

func (s *setUp) run(ctx context.Context) error {
	began := s.opts.Clock.Now()
	if s.src.attached() {
		err := s.awaitAttachment(ctx)
		s.observe(ctx, opAttached, began, err)
		if err != nil {
			return err
		}
	} else {
		s.waitNoMore()
	}
	began = s.opts.Clock.Now()
	err := s.mount(ctx)
	s.observe(ctx, either(s.src.block, opMap, OpMount), began, err)
	return err
}

// mount has a volume that is attached staged and published.
func (s *setUp) mount(ctx context.Context) (err error) {
	release, err := s.locks.lock(ctx, s.src.key)
	if err != nil {
		return err
	}
	defer release()
	if err := s.checkInUse(); err != nil {
		return err
	}
	if s.can, err = capabilitiesOf(ctx, s.driver); err != nil {
		return err
	}
	if s.label, err = s.seLinuxLabel(); err != nil {
		return err
	}
	// Before the claim: while the pod had one, the volume would stay staged with the other label.
	if err := s.checkLabel(); err != nil {
		return err
	}
	uid, dir := string(s.pod.UID), s.claimDir(string(s.pod.UID), s.src.dir)
	r, done, err := s.claim(uid, dir)
	if err != nil || done {
		return err
	}
	if s.stagedAt() != "" {
		if err := s.stage(ctx); err != nil {
			return err
		}
	}
	if err := s.publish(ctx, uid, dir, r); err != nil {
		return err
	}
	if err := s.own(ctx, filepath.Join(dir, podMount)); err != nil {
		return fmt.Errorf("applying fsGroup: %w", err)
	}
	if err := s.expandAtSetUp(ctx, r); err != nil {
		return err
	}
	r.Stage = published
	return s.save(uid, dir, r)
}

// claim writes the pod's claim on the volume. done reports that another volume of the pod is the same one, and is
// published.
func (s *setUp) claim(uid, dir string) (r *record, done bool, err error) {
	if r, err = s.readRecord(dir); err != nil {
		return nil, false, err
	}
	switch {
	case r == nil:
		r = &record{Stage: claimed}
	case r.key() != s.src.key:
		return nil, false, fmt.Errorf("the pod's volume was volume %.64q of driver %s, and is volume %.64q of driver %s "+
			"now; delete the pod", r.Handle, r.Driver, s.src.handle, s.src.key.driver)
	}
	if r.isDone(published, s.opts.BootID) {
		if done, err = s.isThere(filepath.Join(dir, podMount), r); err != nil {
			return nil, false, err
		}
	}
	if !done && r.Stage != claimed {
		r.Stage = publishing
	}
	r.Name, r.Handle, r.Driver, r.Node = s.src.dir, s.src.handle, s.src.key.driver, s.opts.NodeName
	r.Boot, r.Attach, r.Block = s.opts.BootID, flag(s.src.attached()), flag(s.src.block)
	r.Republish, r.SELinux, r.Migrated = flag(s.src.republished()), s.label, flag(s.src.migrated)
	if !slices.Contains(r.volumes(), s.vol.Name) {
		r.Volumes = strings.Join(append(r.volumes(), s.vol.Name), ",")
	}
	r.Mode, r.Attachment = "Persistent", s.src.attachment(s.opts.NodeName)
	if s.src.inline {
		r.Mode = "Ephemeral"
	}
	return r, done, s.save(uid, dir, r)
}

// save writes a claim.
func (v *Volumes) save(uid, dir string, r *record) error {
	if err := v.writeRecord(dir, r); err != nil {
		return err
	}
	c := *r
	v.index(uid, filepath.Base(dir), &c)
	return nil
}

// stagedAt returns where the volume is staged; empty if its driver stages none.
func (s *setUp) stagedAt() string {
	if !s.can.stage || s.src.inline {
		return ""
	}
	return filepath.Join(s.stageDir(s.src.key), globalMount)
}

// stage has the volume staged.
func (s *setUp) stage(ctx context.Context) error {
	dir, target := s.stageDir(s.src.key), s.stagedAt()
	r, err := s.readRecord(dir)
	if err != nil {
		return err
	}
	switch {
	case r.isDone(staged, s.opts.BootID) && r.SELinux == s.label:
		return nil
	case r != nil && r.Boot == s.opts.BootID && r.SELinux != s.label:
		// It was staged for a pod that is gone, and this one had a claim already, or its driver has not unstaged it.
		if err := s.unstage(ctx, s.src.key); err != nil {
			return err
		}
		r = nil
	}
	before := r
	r = &record{
		Name: s.src.dir, Handle: s.src.handle, Driver: s.src.key.driver, Stage: staging, Boot: s.opts.BootID,
		SELinux: s.label, Attach: flag(s.src.attached()), Block: flag(s.src.block),
		Migrated: flag(s.src.migrated),
	}
	secrets, err := s.read(ctx, s.src.stageSecret)
	if err != nil {
		return err
	}
	if err := s.writeRecord(dir, r); err != nil {
		return err
	}
	if err := s.opts.Files.MkdirAll(target); err != nil {
		return fmt.Errorf("create the directory of a staged volume: %w", err)
	}
	if err := s.driver.Call(ctx, "NodeStageVolume", func(ctx context.Context, c csi.NodeClient) error {
		_, err := c.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: s.src.handle, PublishContext: s.attachment, StagingTargetPath: target,
			VolumeCapability: s.src.capability(s.can, s.group(), s.label), Secrets: secrets, VolumeContext: s.src.attributes,
		})
		return err
	}); err != nil {
		if before == nil && !inDoubt(err) {
			err = errors.Join(err, s.removeTarget(target), s.removeRecord(dir))
		}
		return err
	}
	r.Stage = staged
	return s.writeRecord(dir, r)
}

// publish has the volume published for the pod.
func (s *setUp) publish(ctx context.Context, uid, dir string, r *record) error {
	target := filepath.Join(dir, podMount)
	attributes, secrets, err := s.attributes(ctx)
	if err != nil {
		return err
	}
	before := r.Stage
	r.Stage = publishing
	if err := s.save(uid, dir, r); err != nil {
		return err
	}
	if err := s.callPublish(ctx, target, attributes, secrets); err != nil {
		if before == claimed && !inDoubt(err) {
			r.Stage = claimed
			err = errors.Join(err, s.save(uid, dir, r))
		}
		return err
	}
	mounted, err := s.opts.Files.Mounted(target)
	if err != nil {
		return err
	}
	r.Mounted = flag(mounted)
	if there, err := s.isTarget(target, s.src.block, mounted); err != nil || !there {
		return noTarget(s.src.key.driver, target, s.src.block)
	}
	return nil
}

// noTarget is the error of a driver that has published a volume, and nothing is there.
func noTarget(driver, target string, block bool) error {
	what := "directory"
	if block {
		what = "block device"
	}
	return fmt.Errorf("CSI driver %s has published the volume, and there is no %s at %s", driver, what, target)
}

// callPublish has the driver publish the volume at a path.
func (s *setUp) callPublish(ctx context.Context, target string, attributes, secrets map[string]string) error {
	return s.driver.Call(ctx, "NodePublishVolume", func(ctx context.Context, c csi.NodeClient) error {
		_, err := c.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: s.src.handle, PublishContext: s.attachment, StagingTargetPath: s.stagedAt(), TargetPath: target,
			VolumeCapability: s.src.capability(s.can, s.group(), s.label), Readonly: s.src.readOnly, Secrets: secrets,
			VolumeContext: attributes,
		})
		return err
	})
}

// attributes returns the attributes and the secrets of a publication.
func (s *setUp) attributes(ctx context.Context) (attributes, secrets map[string]string, err error) {
	if secrets, err = s.read(ctx, s.src.publishSecret); err != nil {
		return nil, nil, err
	}
	attributes = s.src.podInfo(s.pod)
	if len(s.src.driver.TokenRequests) == 0 {
		return attributes, secrets, nil
	}
	tokens := map[string]any{}
	for _, r := range s.src.driver.TokenRequests {
		t, err := s.token(ctx, r)
		if err != nil {
			return nil, nil, fmt.Errorf("request a token of service account %s: %w", s.pod.Spec.ServiceAccountName, err)
		}
		s.secrets = append(s.secrets, t.Token)
		tokens[r.Audience] = t
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the tokens of a pod: %w", err)
	}
	if ptr.Deref(s.src.driver.ServiceAccountTokenInSecrets, false) {
		if secrets == nil {
			secrets = map[string]string{}
		}
		secrets[tokensKey] = string(text)
	} else {
		attributes[tokensKey] = string(text)
	}
	return attributes, secrets, nil
}

// read returns what a Secret has; nil without one.
func (s *setUp) read(ctx context.Context, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	o, err := s.opts.Objects.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	out := make(map[string]string, len(o.Data))
	for _, k := range slices.Sorted(maps.Keys(o.Data)) {
		b := o.Data[k]
		if !utf8.Valid(b) {
			return nil, fmt.Errorf("key %s of Secret %s/%s has bytes that are not UTF-8, and CSI passes on only text; "+
				"keep the value encoded, as base64 is", k, ref.Namespace, ref.Name)
		}
		out[k] = string(b)
		s.secrets = append(s.secrets, string(b))
	}
	return out, nil
}

const (
	// attachTimeout bounds one wait for an attachment. kubelet: 2 min 3 s.
	attachTimeout = 2*time.Minute + 3*time.Second
	// firstPoll and maxPoll bound the pause between two comparisons with what the watch has shown; it doubles between the
	// two. No request is sent for one.
	firstPoll, maxPoll = 20 * time.Millisecond, 500 * time.Millisecond
)

// awaitAttachment reports the volume as in use and waits until the control plane has attached it.
func (s *setUp) awaitAttachment(ctx context.Context) error {
	if s.opts.Node == nil {
		return errors.New("this node has no Node, and the volume needs one to be attached to")
	}
	uid := string(s.pod.UID)
	s.mu.Lock()
	if s.waiting[uid] == nil {
		s.waiting[uid] = map[key]bool{}
	}
	s.waiting[uid][s.src.key] = true
	s.mu.Unlock()
	s.reportInUse()
	began := s.opts.Clock.Now()
	for pause := firstPoll; !s.isAttached(); pause = min(2*pause, maxPoll) {
		left := attachTimeout - s.opts.Clock.Now().Sub(began)
		if left <= 0 || clock.Wait(ctx, s.opts.Clock, min(pause, left)) != nil {
			return s.notAttached(ctx)
		}
	}
	return s.readAttachment(ctx)
}

// waitNoMore forgets that the pod waits for the volume's attachment: its CSIDriver may have come, or changed, since an
// earlier try. A volume that stays in use is not detached.
func (s *setUp) waitNoMore() {
	uid := string(s.pod.UID)
	s.mu.Lock()
	waited := s.waiting[uid][s.src.key]
	delete(s.waiting[uid], s.src.key)
	s.mu.Unlock()
	if waited {
		s.reportInUse()
	}
}

// readAttachment reads the publish context of an attached volume.
func (s *setUp) readAttachment(ctx context.Context) error {
	name := s.src.attachment(s.opts.NodeName)
	a, err := s.opts.Objects.Attachment(ctx, name)
	switch {
	case err != nil:
		return fmt.Errorf("read VolumeAttachment %s: %w", name, err)
	case a.Status.AttachError != nil:
		return fmt.Errorf("VolumeAttachment %s: %.512s", name, redact.URLs(a.Status.AttachError.Message))
	case !a.Status.Attached:
		return fmt.Errorf("VolumeAttachment %s is not attached", name)
	}
	s.attachment = a.Status.AttachmentMetadata
	for _, value := range s.attachment {
		s.secrets = append(s.secrets, value)
	}
	return nil
}

// isAttached reports whether the Node has the volume in use and attached.
func (s *setUp) isAttached() bool {
	n := s.opts.Node.Node()
	if n == nil {
		return false
	}
	name := corev1.UniqueVolumeName(s.src.uniqueName())
	inUse, attached := false, false
	for _, u := range n.Status.VolumesInUse {
		inUse = inUse || u == name
	}
	for _, a := range n.Status.VolumesAttached {
		attached = attached || a.Name == name
	}
	return inUse && attached
}
