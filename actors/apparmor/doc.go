// Package apparmor reads from a pod which AppArmor profile confines each of its containers: by field or, as static pods
// have it since long before the field, by annotation. It is not an actor and keeps no state; deciders, drivers and the
// decoder of manifests share it. It may read only manifests.
package apparmor
