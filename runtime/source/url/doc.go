// Package url is the driver of the manifest URL: it polls the URL and emits a fact when the content has changed. It
// decides nothing: the source's actor (actors/source) decides which pods run, and what an outage or a broken response
// means for them. The URL's user, password and query and the headers may contain secrets: none of them gets into a
// fact, a log line or an error, and none is sent to another host. Start reading at Run in driver.go; request.go sends
// requests, and handover.go compares and emits.
package url
