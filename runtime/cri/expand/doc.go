// Package expand replaces references to variables in env, command and args, within the bounds of a process. It is pure.
package expand
