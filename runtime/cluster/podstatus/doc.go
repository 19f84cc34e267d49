// Package podstatus makes the API server's status of each pod equal to the status that follows from the journal, and
// deletes pods that have ended (ADR 054). It records nothing but the outcome of a deletion. Start with merge.go, which
// is pure: what the status is to be. patch.go is the request for it, driver.go sends it.
package podstatus
