// Package pattern has regular expressions that cost a command nothing that does not use them.
package pattern
