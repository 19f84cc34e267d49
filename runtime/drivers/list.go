package drivers

import (
	"context"
	"fmt"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// A Driver touches the world for the agent. It implements the interfaces among Recoverer, Storer and Runner that its
// Place names.
type Driver interface {
	// Name is the name of the driver's Place.
	Name() string
}

// A Recoverer takes what it need not learn again from the state that a start has recovered, before anything runs. It
// must only read what it is given.
type Recoverer interface{ Recover(r fold.Recovered) }

// A Storer sees each record once it is stored, in the journal's order. It must not block: the appender waits for it.
type Storer interface{ Stored(rec *journaletv1.Record) }

// A Runner runs until ctx ends. An error while ctx has not ended ends the agent. One that has nothing left to do may
// return nil earlier.
type Runner interface {
	Run(ctx context.Context) error
}

// A List has the drivers of one run, in the order of Places.
type List struct {
	drivers []Driver
	storers []Storer
}

// New returns the list of the agent's drivers, which may be given in any order. It panics if they are not what Places
// says: that is a mistake in the program, and each start shows it.
func New(all ...Driver) *List { return newList(all, true) }

// Simulated returns the list of a simulation's drivers and models of drivers. It may lack any, and runs them itself.
func Simulated(all ...Driver) *List { return newList(all, false) }

// newList returns the list of some drivers. whole means that a node runs them: none is missing, and each that is to run
// can.
func newList(all []Driver, whole bool) *List {
	byName := map[string]Driver{}
	for _, d := range all {
		if byName[d.Name()] != nil {
			panic(fmt.Sprintf("drivers: two drivers are %q", d.Name()))
		}
		byName[d.Name()] = d
	}
	l := &List{}
	for _, p := range Places {
		d := byName[p.Name]
		delete(byName, p.Name)
		if d == nil {
			if whole && !p.Optional {
				panic(fmt.Sprintf("drivers: there is no %q", p.Name))
			}
			continue
		}
		has, prefix := hooksOf(d), ""
		if !whole {
			has.Runs, prefix = p.Runs, "the model of "
		}
		if has != p.Hooks {
			panic(fmt.Sprintf("drivers: %s%q has the hooks %+v, its place has %+v", prefix, p.Name, has, p.Hooks))
		}
		l.drivers = append(l.drivers, d)
		if s, ok := d.(Storer); ok {
			l.storers = append(l.storers, s)
		}
	}
	for name := range byName {
		panic(fmt.Sprintf("drivers: %q has no place: add one to Places", name))
	}
	return l
}

// Recover gives each driver the recovered state.
func (l *List) Recover(r fold.Recovered) {
	for _, d := range l.drivers {
		if d, ok := d.(Recoverer); ok {
			d.Recover(r)
		}
	}
}

// Stored shows each driver a stored record.
func (l *List) Stored(rec *journaletv1.Record) {
	for _, d := range l.storers {
		d.Stored(rec)
	}
}

// A Run is a driver that runs.
type Run struct {
	Name string
	Run  func(context.Context) error
}

// Runs returns what runs, in the list's order.
func (l *List) Runs() (all []Run) {
	for _, d := range l.drivers {
		if r, ok := d.(Runner); ok {
			all = append(all, Run{d.Name(), r.Run})
		}
	}
	return all
}

// hooksOf returns the hooks that a driver implements.
func hooksOf(d Driver) (h Hooks) {
	_, h.Recovers = d.(Recoverer)
	_, h.Stores = d.(Storer)
	_, h.Runs = d.(Runner)
	return h
}

// Only returns a driver that has nothing but a name and Run.
func Only(name string, run func(context.Context) error) Driver { return only{name, run} }

type only struct {
	name string
	run  func(context.Context) error
}

// Name implements Driver.
func (o only) Name() string { return o.name }

// Run implements Runner.
func (o only) Run(ctx context.Context) error { return o.run(ctx) }
