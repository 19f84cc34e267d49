package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

const (
	// barWidth is the width of a progress bar, barBlock the width of its moving part.
	barWidth, barBlock = 20, 4
	// redrawPause is the time between two pictures of the bars.
	redrawPause = 100 * time.Millisecond
	// maxBars bounds the bars on a terminal; the others are counted.
	maxBars = 10
)

func (a *app) pullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images to the node",
		Long: "Pull images to the node, with the node's own credentials for their registries, and wait until they are\n" +
			"there. The agent pulls, as for a pod, so the bounds of its pulls hold; a pull of the same image that is under\n" +
			"way is joined. An interrupted command ends its wait and no pull.\n\n" +
			"A runtime does not report how much of an image it has. On a terminal a bar shows for how long the pull has\n" +
			"been under way, and by how much the file system of images has grown since then: every 10 s, and for all pulls\n" +
			"at once.\n\n" +
			"The exit code is 0 if all images are on the node, and 1 if one could not be pulled.",
		Example: "  journalet pull docker.io/library/busybox:1.36",
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			slices.Sort(args)
			q := query.ImagesRequest{Images: slices.Compact(args), Client: client()}
			var r *query.ImagesResponse
			err := a.withControl(ctx, func(c *query.Client) (err error) {
				r, err = c.PullImages(ctx, q)
				return err
			})
			if err != nil {
				return err
			}
			err = a.awaitPulls(ctx, r)
			if ctx.Err() != nil {
				a.notice("the agent continues; `journalet observe --kind image` shows how it ends")
			}
			return err
		},
	}
}

// awaitPulls prints the outcomes of pulls, with bars on a terminal until then.
func (a *app) awaitPulls(ctx context.Context, r *query.ImagesResponse) error {
	v := newPullView(a, r.Requests)
	if a.err.terminal() {
		defer v.animate()()
	}
	failed := 0
	events := []string{"operator_pull_decided", "pull_progressed"}
	err := a.awaitOutcomes(ctx, r.From, events, func(f messages.Flat) (bool, error) {
		e, err := history.Event(&f)
		if err != nil {
			return false, err
		}
		if p := e.GetPullProgressed(); p != nil {
			v.progress(p)
			return false, nil
		}
		d := e.GetOperatorPullDecided()
		if !v.end(d) {
			return false, nil
		}
		if d.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			failed++
		}
		return v.left() == 0, nil
	})
	if err == nil && failed > 0 {
		return errRefused
	}
	return err
}

// pullBar is one pull under way.
type pullBar struct {
	id, image string
	grown     int64
}

// pullView shows pulls. Without a terminal it prints their outcomes only.
type pullView struct {
	a     *app
	began time.Time

	mu   sync.Mutex
	bars []*pullBar
	// drawn is how many lines the last picture has.
	drawn    int
	animated bool
}

func newPullView(a *app, requests []query.ImageRequest) *pullView {
	v := &pullView{a: a, began: a.now()}
	for _, r := range requests {
		v.bars = append(v.bars, &pullBar{id: r.ID, image: r.Image})
	}
	return v
}

// animate draws the bars until stop is called, which removes them.
func (v *pullView) animate() (stop func()) {
	v.mu.Lock()
	v.animated = true
	v.a.above = v.above
	v.mu.Unlock()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(redrawPause)
		defer tick.Stop()
		for {
			v.mu.Lock()
			v.draw()
			v.mu.Unlock()
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		v.mu.Lock()
		defer v.mu.Unlock()
		v.animated, v.a.above = false, nil
		v.drawn = v.a.err.redraw(v.drawn, nil)
	}
}

// above prints a line above the bars.
func (v *pullView) above(write func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drawn = v.a.err.redraw(v.drawn, nil)
	write()
	v.draw()
}

func (v *pullView) progress(p *journaletv1.PullProgressed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.bars {
		if b.image == p.GetImage() {
			b.grown = p.GetBytes()
		}
	}
}

// end prints the outcome of a pull. It returns false for a pull that this command has not requested.
func (v *pullView) end(d *journaletv1.OperatorPullDecided) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.bars, func(b *pullBar) bool { return b.id == d.GetRequestId() })
	if i < 0 {
		return false
	}
	v.bars = slices.Delete(v.bars, i, i+1)
	if v.animated {
		v.drawn = v.a.err.redraw(v.drawn, nil)
	}
	if d.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		fmt.Fprintln(v.a.err, "journalet: cannot pull "+d.GetImage()+": "+d.GetMessage())
	} else {
		fmt.Fprintf(v.a.out, "pulled %s (%s, %s) in %s\n", d.GetImage(), shortID(d.GetImageRef()),
			describe.Size(d.GetBytes()), rounded(d.GetDuration().AsDuration()))
	}
	if v.animated {
		v.draw()
	}
	return true
}

func (v *pullView) left() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.bars)
}

// draw draws the bars over the previous bars. The caller holds v.mu.
func (v *pullView) draw() {
	elapsed := v.a.now().Sub(v.began)
	width := 0
	for _, b := range v.bars {
		width = max(width, utf8.RuneCountInString(b.image))
	}
	var lines []string
	for _, b := range v.bars[:min(len(v.bars), maxBars)] {
		lines = append(lines, fmt.Sprintf("%-*s %s %s, %s on disk", width, b.image, bar(elapsed),
			elapsed.Round(time.Second), growth(b.grown)))
	}
	if more := len(v.bars) - maxBars; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	v.drawn = v.a.err.redraw(v.drawn, lines)
}

// rounded returns a duration as short as it is readable.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(redrawPause)
}

func growth(n int64) string {
	if n == 0 {
		return "nothing seen"
	}
	return "+" + describe.Size(n)
}

// bar returns a bar whose block moves to and fro: how much is left is not known.
func bar(elapsed time.Duration) string {
	const way = barWidth - barBlock
	at := int(elapsed/redrawPause) % (2 * way)
	if at > way {
		at = 2*way - at
	}
	return "[" + strings.Repeat(" ", at) + strings.Repeat("=", barBlock) + strings.Repeat(" ", way-at) + "]"
}
