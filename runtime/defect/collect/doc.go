// Package collect has a metric that the agent fails on cost that metric alone (ADR 115).
package collect
