package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
)

// samples is the number of records at which a state is measured: the worst of them counts.
const samples = 20

var replayRows = []row{
	{"replay --check from the store", "100,000 events/s", checkOf(store, 1e5)},
	{"replay --check from a bundle", "500,000 events/s", checkOf(bundled, 5e5)},
	{"state of a pod at any of 20 records", "200 ms", stateOf(somePod)},
	{"state of node/0 at any of 20 records", "200 ms", stateOf(theNode)},
	{"a step: record, causes, state and difference", "20 ms", step},
}

func store(in input) history.Reader { return in.store }

func bundled(in input) history.Reader { return in.bundled }

// checkOf measures a check of a whole journal, in events a second.
func checkOf(reader func(input) history.Reader, goal float64) func(context.Context, input) (string, bool, error) {
	return func(ctx context.Context, in input) (string, bool, error) {
		var r *replay.Report
		before := cpu()
		took, err := timed(func() (err error) {
			r, err = replay.Check(ctx, reader(in), replay.Options{})
			return err
		})
		if err != nil {
			return "", false, err
		}
		if r.Diverged > 0 {
			return "", false, errors.New(r.Divergences[0].String())
		}
		rate := float64(r.Events) / took.Seconds()
		used := cpu() - before
		return fmt.Sprintf("%.0f events/s (%s; %.1f µs of CPU an event)", rate, took.Round(time.Millisecond),
			used.Seconds()*1e6/float64(r.Events)), rate >= goal, nil
	}
}

// somePod returns a record and the actor of a pod that it concerns.
func somePod(ctx context.Context, r history.Reader, random *rand.Rand) (messages.Ref, uint64, error) {
	for {
		seq := 1 + random.Uint64N(last(r))
		rec, err := r.Get(ctx, seq)
		if err != nil {
			return messages.Ref{}, 0, err
		}
		if ref := messages.RefOf(rec.GetActor()); ref == messages.Pod(ref.ID) && rec.GetStep() != nil {
			return ref, seq, nil
		}
	}
}

func theNode(_ context.Context, r history.Reader, random *rand.Rand) (messages.Ref, uint64, error) {
	return messages.Node, 1 + random.Uint64N(last(r)), nil
}

// stateOf measures a state in the store.
func stateOf(some func(context.Context, history.Reader, *rand.Rand) (messages.Ref, uint64, error)) func(
	context.Context, input) (string, bool, error) {
	return func(ctx context.Context, in input) (string, bool, error) {
		random := rand.New(rand.NewPCG(seed, 1))
		var most, used time.Duration
		for range samples {
			ref, seq, err := some(ctx, in.store, random)
			if err != nil {
				return "", false, err
			}
			before := cpu()
			took, err := timed(func() error {
				_, err := replay.StateAt(ctx, in.store, ref, seq)
				return err
			})
			if err != nil {
				return "", false, err
			}
			most, used = max(most, took), used+cpu()-before
		}
		figure := fmt.Sprintf("%s at most (%s of CPU on average)", most.Round(time.Millisecond),
			(used / samples).Round(time.Millisecond))
		return figure, most <= 200*time.Millisecond, nil
	}
}

// step measures what a screen needs for a record.
func step(ctx context.Context, in input) (string, bool, error) {
	var s *replay.Session
	opened, err := timed(func() (err error) {
		s, err = replay.Open(ctx, in.store, replay.Options{})
		return err
	})
	if err != nil {
		return "", false, err
	}
	random := rand.New(rand.NewPCG(seed, 2))
	before := cpu()
	most, err := worst(10*samples, func(int) error {
		seq := 1 + random.Uint64N(last(in.store))
		if _, err := s.Causes(seq); err != nil {
			return err
		}
		refs, err := s.Concerned(seq)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			before := max(1, s.Previous(ref, seq))
			if _, err := s.Diff(ref, before, seq); err != nil && !errors.Is(err, replay.ErrNoActor) {
				return err
			}
			s.Next(ref, seq)
		}
		return nil
	})
	used := (cpu() - before) / (10 * samples)
	return fmt.Sprintf("%.1f ms at most (%.1f ms of CPU on average); opened in %s", most.Seconds()*1000,
		used.Seconds()*1000, opened.Round(time.Millisecond)), most <= 20*time.Millisecond, err
}
