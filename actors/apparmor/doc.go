// Package apparmor reads from a pod which AppArmor profile confines each of its containers: by field, or by the
// annotation that static pods had long before the field. It is no actor and keeps no state; deciders, drivers and the
// decoder of manifests share it. It may read only manifests.
package apparmor
