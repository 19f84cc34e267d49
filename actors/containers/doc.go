// Package containers yields the containers of a pod's manifest, for actors and drivers. It is no actor.
package containers
