// Command tools is curl, dig, getent, nc and nmeter in the images of the tests, by the name that it is called by: as
// much of each as the specs use. An option that it does not know is an error. Start reading at main; each tool has a
// file of its name, getent is in dig.go.
package main
