// Package runonce waits for the end of a run that is to end when its pods are done (`journalet run --once`). It
// inspects actors, and changes nothing. Start at Driver.
package runonce
