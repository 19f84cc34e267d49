// Package config holds what the agent runs with: flags, a KubeletConfiguration with its drop-ins, and the facts of the
// machine that pods are admitted against. A flag wins over the files, the files win over the defaults. A user's
// existing kubelet configuration must load: what this version does not carry out is named in a Problem, what is
// contradictory or out of bounds is an error before anything starts. It starts nothing, changes nothing and opens no
// connection. Start reading at Config in config.go; fields.go classifies each field of KubeletConfiguration, load.go
// reads and merges the files, validate.go holds the bounds, node.go reads the machine.
package config
