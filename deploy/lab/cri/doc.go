// Command cri makes the few CRI calls that lab.sh needs: is the runtime ready, does it list an image, how much runs,
// remove every pod. It is built from the agent's own dependencies, in a second where the agent was built before;
// crictl takes minutes. It is for private labs only: remove asks nobody whose pods they are.
package main
