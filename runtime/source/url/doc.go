// Package url is the driver of the manifest URL: it asks for it every so often and hands over what differs from the last
// time. It decides nothing: which pods run, and what an outage or a broken answer means for them, is the source actor's
// business (actors/source). The URL's user, password and query and the headers may hold secrets: none of them gets into a
// fact, a log line or an error, and none is sent to another host. Start reading at Run in driver.go; request.go asks,
// handover.go compares and tells.
package url
