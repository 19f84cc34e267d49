package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Device plugins that come and go, whose devices fail, and that answer late or with errors. The driver of
// runtime/plugins/devices is modeled: what is recorded of plugins, and its calls.

// offer is what a plan has of one plugin.
type offer struct {
	resource            string
	devices             int
	preferred, preStart bool
}

// pluginProcess is the process of a device plugin, a DRA driver or a CSI driver.
type pluginProcess struct {
	up bool
	// runs counts its starts: each registers again.
	runs int
	// Until these uptimes it does not answer, or answers with errors.
	hangsUntil, refusesUntil time.Duration
}

func (x *pluginProcess) start() {
	x.up = true
	x.runs++
}

func (x *pluginProcess) startUnlessUp() {
	if !x.up {
		x.start()
	}
}

// fix ends all faults.
func (x *pluginProcess) fix() {
	x.startUnlessUp()
	x.hangsUntil, x.refusesUntil = 0, 0
}

// registered reports whether an agent has the process registered. After a start of the agent some register late.
func (x *pluginProcess) registered(r *run, kind, name string) bool {
	noise := stream(r.seed, "registration of a "+kind, name, r.name())
	late := between(noise, 10*time.Millisecond, pick(noise, time.Second, time.Second, time.Minute))
	return x.up && (r.world.calm || r.clock.uptime > r.began+late)
}

// refuses reports whether the process refuses a request now.
func (x *pluginProcess) refuses(w *world) bool {
	return w.mishap() || x.refusesUntil > w.clock.uptime && !chance(w.noise, 4)
}

// call has one run of the process, which is called name, do some work, and waits for the answer, but not longer than
// within. Without an answer the work may have been done or not.
func (x *pluginProcess) call(ctx context.Context, r *run, name string, runs int, within time.Duration,
	work func() error) error {
	w, late := r.world, status.Errorf(codes.DeadlineExceeded, "%s did not answer within %s", name, within)
	gone := status.Errorf(codes.Unavailable, "%s is gone", name)
	took := between(w.noise, time.Millisecond, 300*time.Millisecond)
	before := took / 2
	if hangs := max(0, x.hangsUntil-w.clock.uptime); chance(w.noise, 2) {
		before += hangs
	}
	took += max(0, x.hangsUntil-w.clock.uptime)
	end := w.clock.uptime + within
	r.pause(ctx, min(before, within))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case before >= within:
		return late
	case !x.up || x.runs != runs:
		return gone
	}
	err := work()
	r.pause(ctx, min(took-before, end-w.clock.uptime))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case took >= within:
		return late
	case !x.up || x.runs != runs || w.mishap():
		return gone
	}
	return err
}

// processOps adds what happens to the processes of plugins, by kind, to more. name begins the kinds, and some returns
// one of the processes.
func processOps(name string, some func(*sim, Op) *pluginProcess, more map[string]func(*sim, Op),
) map[string]func(*sim, Op) {
	all := map[string]func(*sim, Op){
		name + " goes": func(s *sim, o Op) {
			x := some(s, o)
			x.up = false
			s.later(o.lasts, x.startUnlessUp)
		},
		name + " restarts": func(s *sim, o Op) { some(s, o).start() },
		name + " hangs":    func(s *sim, o Op) { some(s, o).hangsUntil = s.clock.uptime + o.lasts },
		name + " refuses":  func(s *sim, o Op) { some(s, o).refusesUntil = s.clock.uptime + o.lasts },
	}
	maps.Copy(all, more)
	return all
}

// disturb plans what happens to plugins.
func (p *Plan) disturb(r *rand.Rand, ops map[string]func(*sim, Op)) {
	kinds := slices.Sorted(maps.Keys(ops))
	for at := between(r, 5*time.Second, time.Minute); at < p.end; at += between(r, 5*time.Second, 2*time.Minute) {
		p.Ops = append(p.Ops, Op{At: at, Kind: pick(r, kinds...), pick: r.Uint64(),
			lasts: between(r, 100*time.Millisecond, pick(r, 2*time.Second, time.Minute, 7*time.Minute))})
	}
}

// devicePlugin is a plugin as it is.
type devicePlugin struct {
	offer
	pluginProcess
	// healthy has each device by id.
	healthy map[string]bool
	// answers are the ids of the devices of each answer, by its number.
	answers map[string][]string
}

// offersOf draws the plugins of a plan.
func offersOf(r *rand.Rand) (all []offer) {
	for _, name := range []string{"gpu", "nic"} {
		all = append(all, offer{"example.com/" + name, 2 + r.IntN(6), chance(r, 2), chance(r, 2)})
	}
	return all
}

// pluginOps is what happens to plugins, by kind.
var pluginOps = processOps("a plugin", func(s *sim, o Op) *pluginProcess { return &s.somePlugin(o).pluginProcess },
	map[string]func(*sim, Op){"devices fail": (*sim).failDevices})

func (s *sim) failDevices(o Op) {
	x := s.somePlugin(o)
	for i, id := range slices.Sorted(maps.Keys(x.healthy)) {
		x.healthy[id] = o.pick>>(8+i)&1 == 0
	}
	s.later(o.lasts, x.heal)
}

// pluginWorkload has some of the containers request devices, and plans what happens to the plugins.
func (p *Plan) pluginWorkload(r *rand.Rand) {
	p.config.managed.offers = offersOf(r)
	for i, o := range p.Ops {
		if o.Kind == "write" && chance(r, 2) {
			p.Ops[i].body = withDevices(r, o.body, p.config.managed.offers)
		}
	}
	p.disturb(r, pluginOps)
}

// withDevices has some containers of a manifest request devices.
func withDevices(r *rand.Rand, body []byte, offers []offer) []byte {
	var m map[string]any
	if json.Unmarshal(body, &m) != nil {
		return body
	}
	spec, _ := m["spec"].(map[string]any)
	for _, list := range []string{"initContainers", "containers"} {
		all, _ := spec[list].([]any)
		for _, c := range all {
			c, ok := c.(map[string]any)
			if !ok || chance(r, 2) {
				continue
			}
			res, _ := c["resources"].(map[string]any)
			limits, _ := res["limits"].(map[string]any)
			if res == nil {
				res = map[string]any{}
			}
			if limits == nil {
				limits = map[string]any{}
			}
			limits[offers[r.IntN(len(offers))].resource] = 1 + r.IntN(3)
			res["limits"], c["resources"] = limits, res
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return body
	}
	return out
}

// startPlugins starts the plugins of the plan.
func (s *sim) startPlugins() {
	if s.config.managed == nil {
		return
	}
	for _, o := range s.config.managed.offers {
		x := &devicePlugin{offer: o, healthy: map[string]bool{}, answers: map[string][]string{}}
		for i := range o.devices {
			x.healthy[fmt.Sprintf("%s-%d", strings.TrimPrefix(o.resource, "example.com/"), i)] = true
		}
		x.start()
		s.world.plugins = append(s.world.plugins, x)
	}
}

func (s *sim) somePlugin(o Op) *devicePlugin {
	return s.world.plugins[o.pick%uint64(len(s.world.plugins))]
}

func (x *devicePlugin) heal() {
	for id := range x.healthy {
		x.healthy[id] = true
	}
}

// fixPlugins ends all faults of plugins.
func (w *world) fixPlugins() {
	for _, x := range w.plugins {
		x.fix()
		x.heal()
	}
}

// pluginWatch is the driver of device plugins.
type pluginWatch struct {
	run *run
	// registered are the plugins that the driver follows, by resource, with their start.
	registered map[string]int
	// answered counts answers.
	answered int
}

func newPluginWatch(r *run) *pluginWatch { return &pluginWatch{run: r, registered: map[string]int{}} }

// begin follows each plugin. All register again after a start of the agent, some late.
func (d *pluginWatch) begin() {
	for _, x := range d.run.world.plugins {
		r := stream(d.run.seed, "registration", x.resource, d.run.name())
		late := between(r, 10*time.Millisecond, pick(r, time.Second, time.Second, time.Minute, 7*time.Minute))
		d.run.clock.start(d.run.scope, func(p *proc) { d.follow(p, x, late) })
	}
}

// follow records what a plugin offers, once a second as the driver does.
func (d *pluginWatch) follow(p *proc, x *devicePlugin, late time.Duration) {
	known := map[string]bool{}
	for end := d.run.clock.uptime + late; d.run.clock.uptime < end && !d.run.world.calm; {
		p.sleep(min(late, time.Second))
	}
	for {
		o := &journaletv1.DevicesObserved{
			Resource: x.resource, Connected: true, All: d.registered[x.resource] != x.runs, PreStart: x.preStart,
			Preferred: x.preferred,
		}
		was, is := d.registered[x.resource] != 0, x.up
		for _, id := range slices.Sorted(maps.Keys(x.healthy)) {
			if healthy, has := known[id]; !has || o.GetAll() || healthy != x.healthy[id] {
				o.Changed = append(o.Changed, &journaletv1.Device{Id: id, Healthy: x.healthy[id]})
			}
		}
		switch {
		case is && (o.GetAll() || len(o.GetChanged()) > 0):
			d.registered[x.resource], known = x.runs, maps.Clone(x.healthy)
			d.run.fact(p, messages.Node, messages.NewEvent(o))
		case !is && was:
			delete(d.registered, x.resource)
			d.run.fact(p, messages.Node, messages.NewEvent(&journaletv1.DevicesObserved{
				Resource: x.resource, Message: "ListAndWatch ended",
			}))
		}
		p.sleep(time.Second)
	}
}

// call makes a call on the plugin of a resource. again reports that the same one may succeed later.
func (d *pluginWatch) call(ctx context.Context, resource string, timeout time.Duration) (x *devicePlugin, again bool,
	err error,
) {
	w, p := d.run.world, d.run.clock.current
	for _, x = range w.plugins {
		if x.resource == resource {
			break
		}
	}
	runs := d.registered[resource]
	if runs == 0 {
		return x, true, errors.New("the device plugin is not there")
	}
	d.run.waits[p] = ctx
	defer delete(d.run.waits, p)
	took := between(w.noise, time.Millisecond, 200*time.Millisecond)
	if x.hangsUntil > w.clock.uptime {
		took += x.hangsUntil - w.clock.uptime
	}
	p.sleep(min(took, timeout))
	switch {
	case ctx.Err() != nil:
		return x, true, ctx.Err()
	case took > timeout:
		return x, true, fmt.Errorf("the plugin did not answer within %s", timeout)
	case !x.up || x.runs != runs || w.mishap():
		return x, true, errors.New("the plugin is gone")
	case x.refusesUntil > w.clock.uptime:
		return x, false, errors.New("the plugin refuses")
	}
	return x, false, nil
}

// pluginTimeout is the deadline of Allocate and PreStartContainer, preferenceTimeout the deadline of a preference.
const (
	pluginTimeout     = 30 * time.Second
	preferenceTimeout = 5 * time.Second
)

// Allocate implements devices.Plugins. Each answer has a number, and names its devices.
func (d *pluginWatch) Allocate(ctx context.Context, req *journaletv1.AllocateDevices) (*journaletv1.DeviceAnswer, bool,
	error,
) {
	uid := d.run.performer.current().req.GetPodUid()
	x, again, err := d.call(ctx, req.GetResource(), pluginTimeout)
	if err != nil {
		if !again {
			d.run.judge.history(uid).refusedDevices = true
		}
		return nil, again, err
	}
	d.answered++
	number := fmt.Sprintf("%d.%d", d.run.epoch, d.answered)
	x.answers[number] = slices.Clone(req.GetIds())
	out := &journaletv1.DeviceAnswer{Envs: []*journaletv1.NamedValue{{Name: answerOf(x.resource), Value: number}}}
	for _, id := range req.GetIds() {
		path := "/dev/" + id
		out.Nodes = append(out.Nodes, &journaletv1.DeviceNode{ContainerPath: path, HostPath: path, Permissions: "rw"})
	}
	return out, false, nil
}

// answerOf returns the variable that has the number of a plugin's answer.
func answerOf(resource string) string {
	return "ANSWER_" + strings.TrimPrefix(resource, "example.com/")
}

// PreStart implements devices.Plugins.
func (d *pluginWatch) PreStart(ctx context.Context, resource string, _ []string) error {
	_, _, err := d.call(ctx, resource, pluginTimeout)
	return err
}

// Name implements drivers.Driver.
func (*pluginWatch) Name() string { return "device plugins" }

// Stored answers the requests for what a plugin prefers: some of the devices, others, or none.
func (d *pluginWatch) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		q := e.GetPreferredDevicesRequested()
		if q == nil {
			continue
		}
		d.run.clock.start(d.run.scope, func(*proc) {
			out := &journaletv1.PreferredDevicesRead{RequestId: q.GetRequestId(), Uid: q.GetUid()}
			if _, _, err := d.call(context.Background(), q.GetResource(), preferenceTimeout); err != nil {
				out.Message = err.Error()
			} else {
				noise := d.run.world.noise
				out.Ids = slices.Clone(q.GetAvailable())
				noise.Shuffle(len(out.Ids), func(i, j int) { out.Ids[i], out.Ids[j] = out.Ids[j], out.Ids[i] })
				out.Ids = out.Ids[:noise.IntN(len(out.Ids)+1)]
				if chance(noise, 4) {
					out.Ids = append([]string{"gpu-0", "other"}, out.Ids...)
				}
			}
			d.run.outcome(messages.Node, messages.NewEvent(out))
		})
	}
}
