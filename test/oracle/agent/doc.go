// Package agent is our side of the oracle: the manifest decoder, the deciders and the CRI driver, without journal, bus or
// host, on a fake runtime. Whatever a decider asks for is done at once and told back to it, and time stands still until
// somebody moves it. It decides nothing itself. Start reading at agent.go.
package agent
