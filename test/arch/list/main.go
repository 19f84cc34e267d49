package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/journalet/journalet/test/arch"
)

func main() {
	rule := flag.String("rule", "", "list only the rules whose name contains this")
	flag.Parse()
	if err := arch.List(os.Stdout, ".", *rule, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
}
