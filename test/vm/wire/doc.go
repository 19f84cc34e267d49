// Package wire has the messages between the tests and the program in the virtual machine: JSON, a line each.
package wire
