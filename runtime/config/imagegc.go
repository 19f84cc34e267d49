package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages/journaletv1"
)

// ImageGC bounds what images take of their file system; the kubelet's fields and their defaults.
type ImageGC struct {
	// HighPercent is the use at which unused images are removed, until the use is at most LowPercent. 100: never, not
	// even for their age.
	HighPercent, LowPercent int32
	// MinAge is how long an image is on the node before it is removed for space. MaxAge is how long one may be unused; 0:
	// for ever.
	MinAge, MaxAge time.Duration
}

// defaultImageGC has the kubelet's defaults.
func defaultImageGC() ImageGC {
	return ImageGC{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute}
}

// Config returns the bounds for the image actor; nil if no image is removed.
func (g ImageGC) Config() *journaletv1.ImageGarbageCollection {
	if g.HighPercent >= 100 {
		return nil
	}
	c := &journaletv1.ImageGarbageCollection{
		HighPercent: uint32(max(0, g.HighPercent)), LowPercent: uint32(max(0, g.LowPercent)),
		MinAge: durationpb.New(g.MinAge),
	}
	if g.MaxAge > 0 {
		c.MaxAge = durationpb.New(g.MaxAge)
	}
	return c
}

// addImageFlags adds the kubelet's flags. A maximum age has none: set imageMaximumGCAge in --config.
func (c *Config) addImageFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&c.ImageGC.HighPercent, "image-gc-high-threshold", c.ImageGC.HighPercent,
		"use of the images' file system, in percent, from which unused images are removed; 100: never")
	fs.Int32Var(&c.ImageGC.LowPercent, "image-gc-low-threshold", c.ImageGC.LowPercent,
		"use of the images' file system, in percent, down to which unused images are removed")
	fs.DurationVar(&c.ImageGC.MinAge, "minimum-image-ttl-duration", c.ImageGC.MinAge,
		"an image is not removed for space before it has been on the node for so long")
}

func (g ImageGC) validate() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	const high, low = "imageGCHighThresholdPercent (--image-gc-high-threshold)",
		"imageGCLowThresholdPercent (--image-gc-low-threshold)"
	if g.HighPercent < 0 || g.HighPercent > 100 {
		bad("%s: %d is not within 0 and 100", high, g.HighPercent)
	}
	if g.LowPercent < 0 || g.LowPercent > 100 {
		bad("%s: %d is not within 0 and 100", low, g.LowPercent)
	}
	if g.LowPercent >= g.HighPercent {
		bad("%s: %d is not below %s: %d", low, g.LowPercent, high, g.HighPercent)
	}
	if g.MinAge < 0 {
		bad("imageMinimumGCAge (--minimum-image-ttl-duration): %v is negative", g.MinAge)
	}
	if g.MaxAge < 0 {
		bad("imageMaximumGCAge: %v is negative", g.MaxAge)
	}
	if g.MaxAge > 0 && g.MaxAge <= g.MinAge {
		bad("imageMaximumGCAge: %v is not above imageMinimumGCAge: %v", g.MaxAge, g.MinAge)
	}
	return errs
}
