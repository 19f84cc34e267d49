// Command sh is the shell of the images that end-to-end tests pull. It becomes busybox's, whose messages one compares
// literally, unless a variable's name is no identifier: this busybox drops those, which other specs print, and bash
// hands them on. Nothing but these images has it. Start reading at main.
package main
