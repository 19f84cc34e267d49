package oracle

import (
	"context"
	"fmt"

	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// generateContents returns a pod with volumes of objects, and these.
func generateContents(m *pods.Generator) string {
	p := m.Small()
	return podAnd(p, map[string]any{"objects": m.Contents(p)})
}

// compareContents compares the files of each volume: their paths, contents, modes and owners, or the error.
func compareContents(c *testCase) {
	w := c.worldOfObjects()
	if w == nil {
		return
	}
	defer w.close()
	driver := agent.NewDriver(w.ours.opts, w.ours.fake, w.parsed)
	for i := range w.parsed.Pod.Spec.Volumes {
		v := &w.parsed.Pod.Spec.Volumes[i]
		if v.EmptyDir != nil || v.HostPath != nil {
			continue
		}
		c.count("volumes")
		ours, theirs := map[string]string{}, map[string]string{}
		files, err := driver.VolumeFiles(context.Background(), v.Name)
		for path, f := range files {
			ours[path] = describe(f.Data, int32(f.Mode), f.User)
		}
		projections, theirErr := kubelet.VolumeFiles(w.theirs.opts, w.parsed.Pod, v)
		for path, f := range projections {
			theirs[path] = describe(f.Data, f.Mode, f.FsUser)
		}
		if theirErr != nil {
			c.count("failed")
		}
		c.differs("error", err, theirErr)
		if err != nil || theirErr != nil {
			continue
		}
		for _, path := range sortedKeys(ours) {
			if _, ok := theirs[path]; ok {
				c.differs("a file", ours[path], theirs[path])
			}
		}
		c.differs("paths", sortedKeys(ours), sortedKeys(theirs))
	}
}

func describe(data []byte, mode int32, user *int64) string {
	owner := "root"
	if user != nil {
		owner = fmt.Sprint(*user)
	}
	return fmt.Sprintf("%q, mode %#o, of %s", data, mode, owner)
}
