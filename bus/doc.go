// Package bus runs the node's one embedded NATS server and stores on it: the journal with its single appender, the
// manifests that events name by digest, and the actors' snapshots. Observers receive events through it.
//
// It stores and returns records. It never interprets them, decides nothing and knows no actor. Apart from the
// commands that connect as observers it is the only code that uses NATS. Only this process writes: the writer's key
// is created at each start and never leaves memory. Every other client is in another account, which imports a few
// subjects and nothing else.
//
// Start with journal.go for the path of a record, then appender.go for how the order of calls becomes the order on
// disk, blocks.go for durability, head.go for how a lost tail is noticed, retention.go for how the oldest records are
// cut, parts.go for how large manifests are stored, stored.go for reading a journal that no agent has open, and
// accounts.go for who may do what.
package bus
