package persistentvolume

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// firstSlow is when a change of the owner of a volume's files is reported as slow, and slowPeriod the time between two
	// reports of how far it is. kubelet: pkg/volume/volume_linux.go.
	firstSlow, slowPeriod = 30 * time.Second, time.Minute
	// reasonSlow is the reason of these events.
	reasonSlow = "VolumePermissionChangeInProgress"
)

// ownership is a change of the owner of a volume's files that may take long: its pod waits for it.
type ownership struct {
	*setUp
	dir   string
	files atomic.Int64

	mu     sync.Mutex
	over   bool
	cancel func() bool
}

// watchOwnership begins to emit events about a change of the owner of the files at a path, if it takes long. stop ends
// that; no event follows it.
func (s *setUp) watchOwnership(target string) *ownership {
	p := &ownership{setUp: s, dir: target}
	if i := strings.Index(target, string(s.pod.UID)); i >= 0 {
		p.dir = target[i:] // kubelet: what follows the directory of all pods
	}
	p.arm(firstSlow, func() string {
		return fmt.Sprintf("Setting volume ownership for %s is taking longer than expected, consider using OnRootMismatch - "+
			"https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"+
			"#configure-volume-permission-and-ownership-change-policy-for-pods", p.dir)
	})
	return p
}

// arm has a message emitted when a time has passed, and then how far the change is.
func (p *ownership) arm(after time.Duration, message func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.cancel = p.opts.Clock.AfterFunc(after, func() {
		p.report(message())
		p.arm(slowPeriod, func() string {
			return fmt.Sprintf("Setting volume ownership for %s, processed %d files.", p.dir, p.files.Load())
		})
	})
}

func (p *ownership) report(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.emit(podReference(p.pod), corev1.EventTypeWarning, reasonSlow, message)
	}
}

func (p *ownership) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.cancel()
}
