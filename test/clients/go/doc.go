// Command go is the example of a client in Go: it prints every event of a node once. Start with observe in main.go.
package main
