package runtimeclass

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/watch"
)

// among is a file of manifests and objects. Most hold no class, and are not decoded.
type among struct {
	stamp   watch.Stamp
	racy    bool              // the content may have changed since stamp
	sum     [sha256.Size]byte // of the content, if it may hold classes
	objects []manifest.Object // objects that may be classes; of a broken file the earlier objects
}

// readOthers returns what the files of the other paths hold, in the order of the paths, and adds to hash what it
// depends on. Errors are for the readers of these paths; what was read before stays.
func (f *Directory) readOthers(hash io.Writer) []manifest.Object {
	var all []manifest.Object
	seen := map[string]bool{}
	for _, path := range f.others {
		files, err := listOthers(path)
		if err != nil {
			for known := range f.among {
				if known == path || filepath.Dir(known) == path {
					files = append(files, known)
				}
			}
			slices.Sort(files)
		}
		for _, file := range files {
			if seen[file] {
				continue
			}
			seen[file] = true
			f.readAmong(file)
			if a := f.among[file]; a != nil && len(a.objects) > 0 {
				all = append(all, a.objects...)
				_, _ = hash.Write(a.sum[:]) // a hash never fails
				_, _ = io.WriteString(hash, file)
			}
		}
	}
	maps.DeleteFunc(f.among, func(path string, _ *among) bool { return !seen[path] })
	return all
}

// listOthers returns the files of a path in lexical order, at most watch.MaxNames.
func listOthers(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	st, err := watch.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !st.IsDir():
		return []string{path}, nil
	}
	var files []string
	for e, err := range bounded.Entries(path) {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(e.Name(), ".") && len(files) < watch.MaxNames {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// readAmong reads one file, if its stamp has changed.
func (f *Directory) readAmong(path string) {
	was := f.among[path]
	at, err := watch.Stat(path)
	if err != nil || !at.IsRegular() {
		if errors.Is(err, fs.ErrNotExist) || err == nil {
			delete(f.among, path)
		}
		return
	}
	if was != nil && !was.racy && was.stamp == at {
		return
	}
	data, st, err := watch.Read(path, manifest.DefaultMaxBytes)
	if err != nil {
		if was == nil {
			was = &among{}
		}
		// What was read before stays. The next call reads it again only if its writer was not done: others wait for it.
		f.among[path] = &among{stamp: at, racy: errors.Is(err, watch.ErrChanging), sum: was.sum, objects: was.objects}
		return
	}
	now := &among{stamp: st, racy: st.Racy(time.Now())}
	f.among[path] = now
	if !manifest.HoldsClasses(data) {
		return
	}
	if now.sum = sha256.Sum256(data); was != nil && was.sum == now.sum {
		now.objects = was.objects
		return
	}
	found, _, parsed := manifest.DecodeObjects(path, data)
	if !parsed && was != nil {
		now.sum, now.objects = was.sum, was.objects
		return
	}
	for _, o := range found {
		if o.Value == nil {
			if was != nil {
				now.objects = append(now.objects, same(was.objects, o)...)
			}
			continue
		}
		switch v := o.Value.(type) {
		case *nodev1.RuntimeClass, *schedulingv1.PriorityClass:
			now.objects = append(now.objects, o)
		case *corev1.Secret:
			if manifest.IsToken(v) {
				o.Value = withoutContents(v)
				now.objects = append(now.objects, o)
			}
		}
	}
}

// same returns the object of the same kind and name, nil if all has no such object.
func same(all []manifest.Object, as manifest.Object) []manifest.Object {
	for _, o := range all {
		if o.Kind == as.Kind && o.Namespace == as.Namespace && o.Name == as.Name {
			return []manifest.Object{o}
		}
	}
	return nil
}

// withoutContents returns a Secret that shows that there is a token, and not which token.
func withoutContents(s *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: s.ObjectMeta, Type: s.Type,
		Data: map[string][]byte{corev1.ServiceAccountTokenKey: {0}}}
}
