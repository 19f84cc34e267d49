package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// shownID is how many digits of an image's id a table has, as docker's and crictl's.
const shownID = 12

// errRefused is the error of a command that has printed what was not done.
var errRefused = errors.New("refused")

func (a *app) imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "images",
		Aliases: []string{"image"},
		Short:   "Show the images on the node: size, last use, and by whom",
		Long: "Show the images on the node, as the runtime has them now, and how full their file system is. The journal\n" +
			"knows when each was last used; the garbage collection removes the least recently used ones first. A pinned\n" +
			"image is the runtime's own and never removed.",
		Example: "  journalet images\n  journalet images -o wide\n  journalet images rm docker.io/library/busybox:1.36",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), false, func(c *query.Client) error {
				l, err := c.Images(cmd.Context())
				if err != nil {
					return err
				}
				return a.printImages(l)
			})
		},
	}
	a.clientFlags(cmd, formatTable, formatWide, formatJSON, formatYAML)
	cmd.AddCommand(a.imagesRemoveCommand())
	return cmd
}

func (a *app) printImages(l *query.ImageList) error {
	if a.output == formatJSON || a.output == formatYAML {
		return printValue(a.out, a.output, l)
	}
	wide := a.output == formatWide
	heading := []string{"IMAGE", "ID", "SIZE", "LAST USED", "USED BY"}
	if wide {
		heading = append(heading, "FIRST SEEN", "OTHER NAMES")
	}
	rows := [][]string{heading}
	for i := range l.Images {
		rows = append(rows, a.imageRow(&l.Images[i], wide))
	}
	t := table{w: a.out}
	t.print(rows...)
	if fs := l.Filesystem; fs != nil {
		fmt.Fprintf(a.out, "\nFile system of images, %s: %d %% of %s used, %s available\n", fs.Mountpoint, fs.UsedPercent,
			describe.Size(fs.CapacityBytes), describe.Size(fs.AvailableBytes))
	} else if l.Problem != "" {
		a.notice("the file system of images cannot be measured: " + l.Problem)
	}
	return nil
}

func (a *app) imageRow(i *query.ImageInfo, wide bool) []string {
	seen := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return age(a.now(), metav1.NewTime(t))
	}
	used := seen(i.LastUsed)
	if len(i.UsedBy) > 0 {
		used = "in use"
	}
	by := imageUsers(i, wide)
	row := []string{i.Name(), shortID(i.ID), describe.Size(i.Bytes), used, by}
	if !wide {
		return row
	}
	var others []string
	for _, n := range i.Names {
		if n != i.Name() {
			others = append(others, n)
		}
	}
	return append(row, seen(i.FirstSeen), strings.Join(others, " "))
}

// imageUsers names the pods that use an image, each with its containers if all is set.
func imageUsers(i *query.ImageInfo, all bool) string {
	var names []string
	pods := map[string]bool{}
	for _, u := range i.UsedBy {
		name := "container " + shortID(u.ContainerID)
		if u.Pod != "" {
			name = u.Namespace + "/" + u.Pod
			if all {
				name += " (" + u.Container + ")"
			}
		}
		if !pods[name] {
			names = append(names, name)
		}
		pods[name] = true
	}
	switch {
	case i.Removing:
		return "being removed"
	case len(names) == 0 && i.Pinned:
		return "the runtime (pinned)"
	case len(names) == 0:
		return "-"
	case len(names) > 1 && !all:
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return strings.Join(names, ", ")
}

func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), shownID)]
}

func (a *app) imagesRemoveCommand() *cobra.Command {
	var unused, yes bool
	cmd := &cobra.Command{
		Use:     "rm IMAGE... | --unused",
		Aliases: []string{"remove"},
		Short:   "Remove images that no container uses",
		Long: "Remove images from the node, each with all its names. IMAGE is a name, an id, or the first digits of one.\n" +
			"An image that a container uses, also a dead one, stays, and the command names its users. On a terminal it asks\n" +
			"before it removes more than one.\n\n" +
			"The exit code is 0 if all are removed, 1 if one stays, and 6 if one is not on the node: then none is removed.",
		Example: "  journalet images rm busybox:1.36\n  journalet images rm --unused --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case unused == (len(args) > 0):
				return usagef("want names of images, or --unused")
			case unused && !yes && !a.onTerminal():
				return usagef("--unused needs --yes where nobody can be asked")
			}
			return a.removeImages(cmd.Context(), args, unused, yes)
		},
	}
	cmd.Flags().BoolVar(&unused, "unused", false, "remove all images that no container uses, except pinned ones")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// removeImages requests removals and waits for their outcomes.
func (a *app) removeImages(ctx context.Context, names []string, unused, yes bool) error {
	var r *query.ImagesResponse
	err := a.withControl(ctx, func(c *query.Client) error {
		l, err := c.Images(ctx)
		if err != nil {
			return err
		}
		ids, err := chooseImages(l, names, unused)
		if err != nil || len(ids) == 0 {
			return err
		}
		if len(ids) > 1 && !yes && a.onTerminal() {
			if err := a.confirmRemoval(ctx, l, ids); err != nil {
				return err
			}
		}
		r, err = c.RemoveImages(ctx, query.ImagesRequest{Images: ids, Client: client()})
		return err
	})
	if err != nil {
		return err
	}
	if r == nil {
		fmt.Fprintln(a.out, "No image is unused.")
		return nil
	}
	return a.awaitRemovals(ctx, r)
}

// chooseImages returns the ids of the images with these names, or of the unused ones.
func chooseImages(l *query.ImageList, names []string, unused bool) (ids []string, err error) {
	if unused {
		for i := range l.Images {
			if img := &l.Images[i]; len(img.UsedBy) == 0 && !img.Pinned {
				ids = append(ids, img.ID)
			}
		}
		return ids, nil
	}
	for _, name := range names {
		img, err := l.Find(name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, img.ID)
	}
	return ids, nil
}

func (a *app) confirmRemoval(ctx context.Context, l *query.ImageList, ids []string) error {
	var sum int64
	for _, id := range ids {
		img, err := l.Find(id)
		if err != nil {
			return err
		}
		sum += img.Bytes
		fmt.Fprintf(a.err, "  %s (%s)\n", img.Name(), describe.Size(img.Bytes))
	}
	return a.confirm(ctx, fmt.Sprintf("Remove these %d images, %s?", len(ids), describe.Size(sum)), "nothing is removed")
}

// awaitRemovals prints the outcomes of removals.
func (a *app) awaitRemovals(ctx context.Context, r *query.ImagesResponse) error {
	waiting := map[string]bool{}
	for _, q := range r.Requests {
		waiting[q.ID] = true
	}
	refused := false
	err := a.awaitOutcomes(ctx, r.From, []string{"image_removal_decided"}, func(f messages.Flat) (bool, error) {
		e, err := history.Event(&f)
		if err != nil {
			return false, err
		}
		d := e.GetImageRemovalDecided()
		if !waiting[d.GetRequestId()] {
			return false, nil
		}
		delete(waiting, d.GetRequestId())
		if d.GetMessage() != "" {
			refused = true
			a.notice(d.GetName() + " stays: " + d.GetMessage())
		} else {
			fmt.Fprintf(a.out, "removed %s (%s)\n", d.GetName(), shortID(d.GetImageId()))
		}
		return len(waiting) == 0, nil
	})
	if err == nil && refused {
		return errRefused
	}
	return err
}

// awaitOutcomes passes events from a record on to f, until f returns true. It continues over a restart of the agent,
// whose next run ends what it has begun.
func (a *app) awaitOutcomes(
	ctx context.Context, from uint64, events []string, f func(messages.Flat) (last bool, err error),
) error {
	return a.withClient(ctx, true, func(c *query.Client) error {
		q := query.WatchRequest{From: from, Follow: true, Filter: history.Filter{Events: events}, Notice: a.notice}
		err := c.Watch(ctx, q, func(e messages.Flat) error {
			last, err := f(e)
			if err == nil && last {
				return errDone
			}
			return err
		})
		if errors.Is(err, errDone) {
			return nil
		}
		return err
	})
}
