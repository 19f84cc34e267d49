package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/journalet/journalet/test/arch"
)

func main() {
	rule := flag.String("rule", "", "list only the rules whose name contains this")
	counts := flag.Bool("count", false, "print the number of findings in each directory")
	flag.Parse()
	if err := arch.List(os.Stdout, ".", *rule, flag.Args(), *counts); err != nil {
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
}
