// Package config holds the agent's configuration: flags, a KubeletConfiguration with its drop-ins, and the facts of the
// machine that admission needs. A flag wins over the files, the files win over the defaults. A kubelet's configuration
// must load: what this version does not support becomes a Problem, what is contradictory or out of bounds an error
// before anything starts. The package starts nothing, changes nothing and opens no connection. Start with Config in
// config.go; fields.go classifies the fields of KubeletConfiguration, load.go reads and merges the files, validate.go
// has the bounds, node.go reads the machine.
package config
