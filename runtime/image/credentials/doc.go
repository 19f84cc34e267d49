// Package credentials finds the credentials of image pulls, and verifies for the driver of the runtime that a pod may
// have an image that is on the node (ADR 048). Credentials come from the Secrets that pods name, from registry files
// of the node, and from credential provider plugins. They stay in memory: reports, log and errors name sources only.
// It may not pull. Start reading at credentials.go.
package credentials
