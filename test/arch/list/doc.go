// List prints what breaks the rules of package arch: `go run ./test/arch/list [-rule WORDS] [DIR...]`, run at
// the root of a checkout. It changes nothing. What has to hold is tested by package arch.
package main
