package pressure

import (
	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/stats"
)

// Measured returns a measurement of what is left.
func Measured(s stats.Signals) Measurement {
	m := Measurement{Signals: map[pressure.Signal]pressure.Measured{}, Layout: s.Layout}
	level := func(signal pressure.Signal, l *stats.Level) {
		if l != nil {
			m.Signals[signal] = pressure.Measured{Available: l.Available, Capacity: l.Capacity}
		}
	}
	fs := func(bytes, inodes pressure.Signal, f *storage.FileSystem) {
		if f == nil {
			return
		}
		m.Signals[bytes] = pressure.Measured{Available: signed(f.Available), Capacity: signed(f.Capacity)}
		if f.Inodes > 0 { // btrfs and others have no number of them
			m.Signals[inodes] = pressure.Measured{Available: signed(f.InodesFree), Capacity: signed(f.Inodes)}
		}
	}
	level(pressure.MemoryAvailable, s.Memory)
	level(pressure.AllocatableMemoryAvailable, s.Pods)
	level(pressure.PIDAvailable, s.PIDs)
	fs(pressure.NodeFsAvailable, pressure.NodeFsInodesFree, s.NodeFS)
	fs(pressure.ImageFsAvailable, pressure.ImageFsInodesFree, s.ImageFS)
	fs(pressure.ContainerFsAvailable, pressure.ContainerFsInodesFree, s.ContainerFS)
	return m
}

func signed(n uint64) int64 { return int64(min(n, 1<<62)) }
