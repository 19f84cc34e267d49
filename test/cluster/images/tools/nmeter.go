package main

import (
	"fmt"
	"slices"
	"time"
)

// nmeter prints the time of day in milliseconds, once: busybox's own repeats it, and its readers take the first line.
func nmeter(args []string) error {
	if want := []string{"-d0", "%3t"}; !slices.Equal(args, want) {
		return fmt.Errorf("nmeter has %v alone, not %v", want, args)
	}
	_, err := fmt.Println(time.Now().UTC().Format("15:04:05.000"))
	return err
}
