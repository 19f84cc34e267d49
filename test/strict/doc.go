// Package strict holds what tests measure to a time only where -strict.time is given, which `make nightly` does on a
// quiet machine. A gate that asserts times refuses a good change because of a busy neighbour; without the flag a time
// is printed and asserts nothing. It imports nothing of the module.
package strict
