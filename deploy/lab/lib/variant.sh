# shellcheck shell=bash disable=SC2154,SC2153
# Where the PROGRAMS of a lab's runtime are from: the system, the distribution's packages, or what the pinned Go modules
# beside this directory build. Sourced by lab.sh.

# choose_variant replaces auto in LAB_CONTAINERD: by what the lab was created with, else by system if the machine has
# all of them in PATH, else by debian. It refuses to change the programs under a lab's data, which another release may
# not be able to read.
choose_variant() {
  local file=$HOME_DIR/variant lacks
  if [[ -e $file ]]; then
    [[ $LAB_CONTAINERD == auto || $LAB_CONTAINERD == "$(<"$file")" ]] ||
      die "lab '$LAB_NAME' was created with LAB_CONTAINERD=$(<"$file"):" \
        "run 'lab.sh down' first, or choose another LAB_NAME"
    LAB_CONTAINERD=$(<"$file")
  fi
  lacks=$(system_lacks)
  case $LAB_CONTAINERD in
  built | debian) ;;
  system) [[ -z $lacks ]] || die "LAB_CONTAINERD=system, but $lacks" ;;
  auto)
    LAB_CONTAINERD=system
    [[ -z $lacks ]] || LAB_CONTAINERD=debian
    ;;
  *) die "LAB_CONTAINERD '$LAB_CONTAINERD' is none of auto, system, debian and built" ;;
  esac
  case $LAB_CONTAINERD in
  system) say "${PROGRAMS[0]}: this machine's, in processes of the lab's own" ;;
  debian) say "${PROGRAMS[0]}: the distribution's packages, unpacked into $LAB_DIR${lacks:+ ($lacks)}" ;;
  esac
}

# system_lacks prints why the machine's own programs can't run a lab, and nothing if they can.
system_lacks() {
  local program
  for program in "${PROGRAMS[@]}"; do
    [[ -n $(system_program "$program") ]] || { printf 'there is no %s in PATH' "$program" && return; }
  done
  system_is_too_old
}

# system_program prints where PATH has a program, and nothing if it has none. What a lab brought is not the system's:
# `lab.sh env` puts it into PATH.
system_program() {
  local path
  path=$(type -P "$1") || return 0
  [[ $path == "$LAB_DIR"/* ]] || printf '%s\n' "$path"
}

# version_of prints the release of a program, as in 1.6.20.
version_of() {
  "$1" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1 || true
}

# record_variant keeps the choice and links the programs into the lab, so that every later command runs the same ones.
record_variant() {
  local program path
  mkdir -p "$TOOLS"
  for program in "${PROGRAMS[@]}"; do
    case $LAB_CONTAINERD in
    system) path=$(system_program "$program") ;;
    debian) path=$(unpacked "$program") ;;
    built) path=$BIN/$program ;;
    esac
    ln -sfn "$path" "$TOOLS/$program"
  done
  printf '%s\n' "$LAB_CONTAINERD" >"$HOME_DIR/variant"
}

# recorded_variant makes a command report what the lab was created with, whatever LAB_CONTAINERD is now.
recorded_variant() {
  if [[ -e $HOME_DIR/variant ]]; then
    LAB_CONTAINERD=$(<"$HOME_DIR/variant")
  fi
}
