package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// tools are the programs, by the names that they are called by.
var tools = map[string]func(args []string) error{
	"curl": curl, "dig": dig, "getent": getent, "nc": nc, "nmeter": nmeter,
}

func main() {
	tool, known := tools[filepath.Base(os.Args[0])]
	if !known {
		fmt.Fprintln(os.Stderr, os.Args[0], "is none of the tools: link this program to one's name")
		os.Exit(1)
	}
	if err := tool(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2) // what getent returns for a name that nobody knows
	}
}
