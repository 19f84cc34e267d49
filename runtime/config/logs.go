package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ContainerLogs bounds the logs of containers; the kubelet's fields and their defaults.
type ContainerLogs struct {
	// MaxSize is the size at which a log is rotated, such as 10Mi; negative: no log is rotated.
	MaxSize string
	// MaxFiles is how many files a log has at most, with the live one. At least 2.
	MaxFiles int32
	// MaxWorkers is how many files are compressed at once. At least 1.
	MaxWorkers int32
	// MonitorInterval is the pause between two inspections of the logs. At least 3 s.
	MonitorInterval time.Duration
}

// minLogInterval is the kubelet's least containerLogMonitorInterval.
const minLogInterval = 3 * time.Second

// defaultContainerLogs has the kubelet's defaults.
func defaultContainerLogs() ContainerLogs {
	return ContainerLogs{MaxSize: "10Mi", MaxFiles: 5, MaxWorkers: 1, MonitorInterval: 10 * time.Second}
}

// MaxBytes returns MaxSize in bytes.
func (l ContainerLogs) MaxBytes() (int64, error) {
	const name = "containerLogMaxSize (--container-log-max-size)"
	size, err := resource.ParseQuantity(l.MaxSize)
	if err != nil {
		return 0, fmt.Errorf("%s: found %q, want a size such as 10Mi", name, l.MaxSize)
	}
	bytes, ok := size.AsInt64()
	if !ok {
		return 0, fmt.Errorf("%s: %q is not a whole number of bytes", name, l.MaxSize)
	}
	return bytes, nil
}

// addLogFlags adds the kubelet's flags. The other fields have none: set them in --config.
func (c *Config) addLogFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ContainerLogs.MaxSize, "container-log-max-size", c.ContainerLogs.MaxSize,
		"size of a container's log from which on it is rotated, such as 10Mi; -1: no log is rotated")
	fs.Int32Var(&c.ContainerLogs.MaxFiles, "container-log-max-files", c.ContainerLogs.MaxFiles,
		"maximum number of files of a container's log, with the one that is written; at least 2")
}

func (l ContainerLogs) validate() (errs []error) {
	if _, err := l.MaxBytes(); err != nil {
		errs = append(errs, err)
	}
	if l.MaxFiles < 2 {
		errs = append(errs, fmt.Errorf("containerLogMaxFiles (--container-log-max-files): %d, want at least 2", l.MaxFiles))
	}
	if l.MaxWorkers < 1 || l.MaxWorkers > maxConcurrency {
		errs = append(errs, fmt.Errorf("containerLogMaxWorkers: %d is not within 1 and %d", l.MaxWorkers, maxConcurrency))
	}
	if l.MonitorInterval < minLogInterval {
		errs = append(errs, fmt.Errorf("containerLogMonitorInterval: %v, want at least %v", l.MonitorInterval,
			minLogInterval))
	}
	return errs
}
