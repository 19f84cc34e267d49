// Command guest runs in the virtual machine and executes what the tests send over a virtio serial port: a line of JSON
// for each command and each result. A port needs no network, no login and no terminal, so nothing that a test breaks
// cuts it off. The messages are in package wire.
package main
