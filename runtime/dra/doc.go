// Package dra has DRA drivers prepare the claims of pods, and undo that. It knows the drivers that have registered,
// reads ResourceClaims of the API server, and serializes the calls for a claim that several pods use (ADR 067). It
// records what drivers report of the health of the devices that pods have, and deletes the ResourceSlices of drivers
// that have gone. It may not decide when a claim is prepared: that is the pod's actor. It keeps nothing on disk: which
// pods use a claim follows from their records.
//
// Driver responses are untrusted: each call has a deadline, and each response a bound. Start reading at claims.go.
package dra
