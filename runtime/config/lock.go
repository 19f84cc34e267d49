package config

import (
	"errors"

	"github.com/spf13/pflag"
)

// addLockFlags adds the flags of a lock that an agent hands over to another one, which are the kubelet's.
func (c *Config) addLockFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.LockFile, "lock-file", c.LockFile, "file whose lock the agent waits for before it starts; empty: none")
	fs.BoolVar(&c.ExitOnLockContention, "exit-on-lock-contention", c.ExitOnLockContention,
		"stop when another process opens --lock-file")
	for _, name := range []string{"lock-file", "exit-on-lock-contention"} {
		_ = fs.MarkHidden(name)
	}
}

// validateLock returns an error, as the kubelet does, if there is nothing to contend for.
func (c *Config) validateLock() []error {
	if c.ExitOnLockContention && c.LockFile == "" {
		return []error{errors.New("--exit-on-lock-contention: needs --lock-file; set it, or remove the flag")}
	}
	return nil
}
