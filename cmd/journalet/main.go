package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[0], os.Args[1:], os.Stdout, os.Stderr))
}
