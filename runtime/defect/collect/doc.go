// Package collect keeps a panic in a collector of metrics from ending the agent (ADR 115).
package collect
