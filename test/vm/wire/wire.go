package wire

// Port is the name of the serial port, below /dev/virtio-ports.
const Port = "journalet"

// Command is a shell script to run. Commands run side by side.
type Command struct {
	ID     int
	Script string
}

// Result is how a command ended.
type Result struct {
	ID int
	// Output is the script's standard output and standard error, at most MaxOutput bytes.
	Output string
	// Code is its exit status, -1 if it did not run.
	Code int
}

// Hello is the ID of the result that the guest sends unasked when it starts.
const Hello = 0

// MaxOutput bounds Result.Output.
const MaxOutput = 1 << 20
