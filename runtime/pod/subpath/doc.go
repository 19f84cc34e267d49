// Package subpath mounts a path inside a volume, such that what another container does to the volume meanwhile cannot
// lead the mount out of it. Prepare opens the path once, binds what it has opened to a directory of the pod that only
// the agent writes, and returns this directory: the container runtime gets no path that a container can change. The
// volume driver unmounts it at the end. The package may not decide when. Start reading at mount.go, then open.go.
//
// # Closed classes of attacks
//
//   - CVE-2017-1002101 (a link in the volume leads a subPath out of it): openat2 with RESOLVE_BENEATH. The kernel
//     resolves the whole path in one call, and refuses a step out of the volume. Links that stay inside are followed,
//     as by the kubelet.
//   - CVE-2021-25741 (a directory is exchanged for a link between the check and the mount): nothing is checked by path
//     and used by path. The mount is a clone of the opened file (OpenTree with an empty path), attached below an opened
//     directory (MoveMount). The kubelet's own fix hands mount(8) a magic link of /proc, which it must not resolve.
//   - A link planted before a missing directory is created (CVE-2017-1002101 with mkdir): directories are created one
//     by one below opened ones. Each new one is opened without following a link or entering a mount before its mode is
//     set.
//   - A path that goes through /proc (CVE-2019-5736 and others): RESOLVE_NO_MAGICLINKS.
//   - FIFOs and devices that block or act when opened: O_PATH calls no driver. A container gets the file that it has in
//     the volume anyway; the runtime's device rules still apply to it.
//   - A mount point that is exchanged (the volume unmounted, or another one mounted over it): a mount that Prepare
//     finds is used only if it shows the file that the path names now.
//   - CVE-2017-1002102 (a container has files deleted that lie behind a link of a volume): a mount is replaced without
//     following links, and only an empty directory or an empty file is removed, so nothing below a mount ever is.
package subpath
