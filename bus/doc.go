// Package bus is the node's one NATS server, inside the process, and what stands on it: the journal
// with its single appender, the manifests that events name by digest, the actors' snapshots, and the
// window through which observers look in.
//
// It stores and hands back records; it never looks at what they mean, decides nothing and knows no
// actor. Beside the commands that connect as observers it is the only code that touches NATS. Only
// this process writes: the writer's key is made at each start and never leaves memory, and everyone
// else lives in another account that has exports and nothing more.
//
// Start with journal.go for what a record's way is, then appender.go for how the order of calls
// becomes the order on disk, blocks.go for what makes it durable, head.go for how a lost tail is noticed,
// retention.go for how the front goes, stored.go for reading a journal that no agent has open, and accounts.go for who may what.
package bus
