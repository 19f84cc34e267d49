// Package agent is our side of the oracle: the manifest decoder, the deciders and the CRI driver, without journal,
// bus or host, on a fake runtime. It carries out each decision at once and records the outcome. Only the caller moves
// time. It decides nothing itself. Start reading at agent.go.
package agent
