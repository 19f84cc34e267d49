// Package clients holds small clients that follow a node by NATS: for Go, Python, JavaScript and the nats command.
// They are the examples of docs/OBSERVING.md. Its test runs each of them beside an agent that is killed while they
// follow it; `make clients` installs what they need and runs the test.
package clients
