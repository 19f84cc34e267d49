package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// apiFaults are what goes wrong at the API server, each until an uptime.
type apiFaults struct {
	awayUntil, slowUntil, refusesUntil, losesUntil time.Duration
	// refusal is the code of an answer while it refuses.
	refusal int
	// dropped counts how often all watches were dropped. skew is how wrong its clock is.
	dropped int
	skew    time.Duration
}

var (
	errRefused = errors.New("dial tcp 192.0.2.9:6443: connect: connection refused")
	errLost    = errors.New("read tcp 192.0.2.9:6443: connection reset by peer")
	errNoTime  = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
)

// requestTimeout bounds a request (client: RequestTimeout).
const requestTimeout = 30 * time.Second

// refused returns the answer of a server that refuses. A DELETE has a 409 for another UID alone.
func refused(code int, verb string) error {
	anyResource := schema.GroupResource{Resource: "any"}
	switch code {
	case 401:
		return apierrors.NewUnauthorized("Unauthorized")
	case 403:
		return apierrors.NewForbidden(anyResource, "any", fmt.Errorf("not allowed for now"))
	case 429:
		return apierrors.NewTooManyRequests("too many requests", 0)
	case 503:
		return apierrors.NewServiceUnavailable("not ready")
	case 409:
		if verb == "patch" || verb == "update" {
			return apierrors.NewConflict(anyResource, "any", fmt.Errorf("the object has been modified"))
		}
	}
	return apierrors.NewInternalError(fmt.Errorf("etcdserver: request timed out"))
}

// request performs one request on the present coroutine, and waits for the answer. Without one it may have been
// performed or not.
func (m *member) request(verb string, do func(a *apiServer) error) error {
	a, p := m.run.api, m.run.clock.current
	f := &a.faults
	if p.clock.uptime < f.awayUntil {
		p.sleep(between(m.noise, time.Millisecond, 20*time.Millisecond))
		return m.unanswered(errRefused)
	}
	took := between(m.noise, time.Millisecond, 8*time.Millisecond)
	if p.clock.uptime < f.slowUntil {
		took = between(m.noise, 100*time.Millisecond, 90*time.Second)
	}
	late := took/2 > requestTimeout
	p.sleep(min(took/2, requestTimeout))
	var err error
	switch {
	case p.clock.uptime < f.awayUntil:
		return m.unanswered(errLost)
	case p.clock.uptime < f.refusesUntil:
		err = refused(f.refusal, verb)
	case late && chance(m.noise, 2):
	default:
		err = do(a)
	}
	if late {
		return m.unanswered(errNoTime)
	}
	p.sleep(min(took/2, requestTimeout-took/2))
	if took > requestTimeout {
		return m.unanswered(errNoTime)
	}
	if p.clock.uptime < f.awayUntil || p.clock.uptime < f.losesUntil && chance(m.noise, 3) {
		return m.unanswered(errLost)
	}
	m.contact.Answered()
	m.contactChanged()
	return err
}

func (m *member) unanswered(err error) error {
	m.contact.Failed(err)
	m.contactChanged()
	return err
}

// The pauses of a Reflector after a failure (client-go), doubling.
const (
	reflectLeast = 800 * time.Millisecond
	reflectMost  = 30 * time.Second
)

// errGone means that the server does not have the changes any more that a watch asks for (410).
var errGone = errors.New("too old resource version")

// reflect models client-go's Reflector: it lists, and follows the changes from there. nodes chooses between the Node
// and its pods. A list is always complete: the Reflector stores nothing of a list that is cut.
func (m *member) reflect(p *proc, nodes bool, to cache.ReflectorStore, changed func()) {
	pause := reflectLeast
	listed, version, synced := false, int64(0), int64(0)
	for {
		err := error(nil)
		if !listed {
			version, err = m.list(nodes, to, &synced)
			listed = err == nil
			changed()
		}
		if err == nil {
			version, err = m.follow(p, nodes, to, version, changed)
			synced = version
		}
		if errors.Is(err, errGone) {
			listed = false
		}
		if err == nil {
			pause = reflectLeast
			continue
		}
		p.sleep(between(m.noise, pause, 2*pause))
		pause = min(2*pause, reflectMost)
	}
}

// list stores a complete list. The first one of a run is the newest; later ones are not older than synced, the version
// that the Reflector has seen, and otherwise as old as the cache of the server that answers.
func (m *member) list(nodes bool, to cache.ReflectorStore, synced *int64) (version int64, err error) {
	var items []any
	err = m.request("list", func(a *apiServer) error {
		version = a.version
		if last := max(*synced, a.compacted); *synced > 0 && last < version && chance(m.noise, 2) {
			version = last + m.noise.Int64N(version-last)
		}
		items = a.at(version, nodes)
		return nil
	})
	if err == nil && !nodes && m.reads != nil {
		items, err = m.readList(version, items)
	}
	if err == nil {
		err = to.Replace(items, fmt.Sprint(version))
	}
	return version, err
}

// follow stores changes after a version until the watch ends, and returns the version of the last one. The error says
// that there was no watch.
func (m *member) follow(p *proc, nodes bool, to cache.ReflectorStore, version int64, changed func()) (int64, error) {
	a := m.run.api
	if err := m.request("watch", func(a *apiServer) error {
		if version < a.compacted {
			return errGone
		}
		return nil
	}); err != nil {
		return version, err
	}
	for dropped := a.faults.dropped; ; {
		again, relist := m.listAgain(nodes)
		switch {
		case relist && again == 0:
			return version, errGone
		case a.faults.dropped != dropped, p.clock.uptime < a.faults.awayUntil:
			return version, nil
		case version < a.compacted:
			return version, errGone
		}
		next := a.after(version, nodes)
		if next == nil {
			version = a.version
			a.watchers = append(a.watchers, p)
			p.sleep(again)
			continue
		}
		delay := between(m.noise, 200*time.Microsecond, 5*time.Millisecond)
		if p.clock.uptime < a.faults.slowUntil {
			delay = between(m.noise, 0, 10*time.Second)
		}
		p.sleep(delay)
		if a.faults.dropped != dropped || p.clock.uptime < a.faults.awayUntil {
			return version, nil
		}
		version = next.version
		if err := m.storeChange(to, next, nodes); err != nil {
			return version, err
		}
		changed()
	}
}

// after returns the first change of a kind after a version, nil for none.
func (a *apiServer) after(version int64, nodes bool) *change {
	from := len(a.history)
	for from > 0 && a.history[from-1].version > version {
		from--
	}
	for i := from; i < len(a.history); i++ {
		if (a.history[i].node != nil) == nodes {
			return &a.history[i]
		}
	}
	return nil
}

// at returns what a list of a version has.
func (a *apiServer) at(version int64, nodes bool) (items []any) {
	pods, node := map[podName]*corev1.Pod{}, (*corev1.Node)(nil)
	for _, o := range a.base {
		if p, ok := o.(*corev1.Pod); ok {
			pods[nameOf(p)] = p
		} else {
			node = o.(*corev1.Node)
		}
	}
	for _, c := range a.history {
		switch {
		case c.version > version:
		case c.pod != nil && c.kind == watch.Deleted:
			delete(pods, nameOf(c.pod))
		case c.pod != nil:
			pods[nameOf(c.pod)] = c.pod
		case c.kind == watch.Deleted:
			node = nil
		default:
			node = c.node
		}
	}
	if nodes && node != nil {
		items = append(items, node)
	}
	if !nodes {
		for _, n := range slices.SortedFunc(maps.Keys(pods), compareNames) {
			items = append(items, pods[n])
		}
	}
	return items
}

func (m *member) storeChange(to cache.ReflectorStore, c *change, nodes bool) error {
	if !nodes && m.reads != nil {
		return m.storeEvent(to, c)
	}
	return c.store(to, nodes)
}

func (c *change) store(to cache.ReflectorStore, nodes bool) error {
	var object any = c.pod
	if nodes {
		object = c.node
	}
	switch c.kind {
	case watch.Added:
		return to.Add(object)
	case watch.Deleted:
		return to.Delete(object)
	default:
		return to.Update(object)
	}
}
