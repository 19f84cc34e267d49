// Command sh is the shell of the images that end-to-end tests pull. It becomes busybox's, whose messages one compares
// literally, unless a variable's name is no identifier, or the command needs a tool of ours that busybox has, too:
// this busybox drops such variables, which other specs print, and uses its own tools. Then it becomes bash. Nothing
// but these images has it. Start reading at main.
package main
