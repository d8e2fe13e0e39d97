# shellcheck shell=bash
# What ./mydyno and ./test share: find the prerequisites, make the private environment and the engine. Sourced by bash.
# Everything lands in the cache: $MYDYNO_CACHE, else $XDG_CACHE_HOME/mydyno, else ~/.cache/mydyno.

say() { printf 'mydyno: %s\n' "$*" >&2; }
die() { printf 'mydyno: error: %s\n' "$*" >&2; exit 3; }

find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    die "no Python >= 3.11 with venv on PATH; Debian and Ubuntu: apt-get install python3 python3-venv"
}

find_cargo() {
    command -v cargo >/dev/null || die "no cargo on PATH; install Rust >= 1.85 with rustup, or Debian: apt-get install cargo-web"
    if ! cargo --version >/dev/null 2>&1; then
        # A rustup proxy looks for its toolchains below $HOME; they lie beside the proxy when HOME points elsewhere.
        local beside
        beside=$(dirname "$(dirname "$(dirname "$(command -v cargo)")")")/.rustup
        [ -d "$beside" ] && export RUSTUP_HOME=$beside
        cargo --version >/dev/null 2>&1 || die "cargo is on PATH but does not run: $(cargo --version 2>&1 | head -n 1)"
    fi
}

# A folder that is either whole (marked) or made anew: $1 folder, then the command that fills it.
make_once() {
    local folder=$1
    shift
    [ -e "$folder/.complete" ] && return
    mkdir -p "$(dirname "$folder")"
    exec 8>"$folder.lock"
    flock 8
    if [ ! -e "$folder/.complete" ]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        if ! "$@" "$folder" >"$folder.log" 2>&1; then
            tail -n 25 "$folder.log" >&2
            die "setting up failed; the whole output is in $folder.log"
        fi
        touch "$folder/.complete"
        rm -f "$folder.log"
    fi
    exec 8>&-
    rm -f "$folder.lock"
}

# make_once of each two of $@, all at the same time, each in a process group of its own, which ends with this script.
make_together() {
    local group
    making=()
    # Not by "making": a signal can come before the number of what was just started is in it.
    trap 'for group in $(jobs -p); do kill -- "-$group" 2>/dev/null || true; done' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    while [ $# -gt 0 ]; do
        set -m
        make_once "$1" "$2" &
        set +m
        making+=("$!")
        shift 2
    done
    for group in "${making[@]}"; do wait "$group" || exit; done
    trap - EXIT HUP INT TERM
}

make_environment() {
    local folder=$1
    "$python" -m venv "$folder"
    # Compiled where it is used, into PYTHONPYCACHEPREFIX.
    "$folder/bin/python" -m pip install --quiet --no-compile --no-deps --require-hashes --only-binary :all: -r "$here/$lock"
    # A study needs no installer.
    if [ "$lock" = requirements.lock ]; then "$folder/bin/python" -m pip uninstall --quiet --yes setuptools pip; fi
}

make_engine() {
    local folder=$1
    mkdir -p "$folder/bin"
    # Cargo compares times alone: what another checkout has built since these sources were written would count as theirs.
    rm -rf "$cache/engine/target/release/.fingerprint/"{dyno-,mydyno-}*
    cargo build --manifest-path "$here/engine/Cargo.toml" -p mydyno-engine --release --locked --target-dir "$cache/engine/target"
    find "$cache/engine/target/release" -maxdepth 1 -type f -executable -name 'dyno*' -exec cp -t "$folder/bin" {} +
}

# Sets cache, the absolute path of the cache folder, which is made.
find_cache() {
    [ -n "${MYDYNO_CACHE:-${XDG_CACHE_HOME:-${HOME:-}}}" ] || die "there is no cache folder: neither HOME nor MYDYNO_CACHE is set"
    cache=${MYDYNO_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/mydyno}
    mkdir -p "$cache" 2>/dev/null || die "the cache folder $cache cannot be made; point MYDYNO_CACHE at a writable folder"
    cache=$(cd "$cache" && pwd -P)
    case $cache in *:*) die "the cache folder $cache has a colon, at which PATH and LD_LIBRARY_PATH are split; set MYDYNO_CACHE to a folder without one" ;; esac
}

# $1 the project's folder, $2 a lock file: an environment with its packages and no engine. Sets MYDYNO_PYTHON, MYDYNO_CACHE.
mydyno_tool_environment() {
    here=$1
    lock=$2
    find_cache
    local folder
    folder=$cache/python/$(sha256sum <"$here/$lock" | cut -c1-16)
    if [ ! -e "$folder/.complete" ]; then
        python=$(find_python)
        say "making the Python environment of $lock in $cache"
        make_once "$folder" make_environment
    fi
    MYDYNO_PYTHON=$folder/bin/python
    export MYDYNO_CACHE=$cache
}

# $1 the project's folder, $2 the lock file of the environment. Sets MYDYNO_PYTHON, MYDYNO_ENGINE, MYDYNO_CACHE.
mydyno_bootstrap() {
    here=$1
    lock=$2
    find_cache
    local python_key engine_key
    python_key=$(sha256sum <"$here/$lock" | cut -c1-16)
    # Of what the programs are built from: not their tests.
    engine_key=$(cd "$here/engine" && find . \( -name target -o -name tests \) -prune -o -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.lock' -o -name '*.lua' \) -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
    # Everything that is missing is told before the first minute is spent.
    [ -e "$cache/python/$python_key/.complete" ] || python=$(find_python)
    if [ ! -e "$cache/engine/$engine_key/.complete" ]; then
        find_cargo
        command -v cc >/dev/null || die "no C compiler (cc) on PATH; Debian and Ubuntu: apt-get install gcc libc6-dev"
    fi
    local missing=()
    if [ ! -e "$cache/python/$python_key/.complete" ]; then
        say "first start: making a private Python environment in $cache (about a minute)"
        missing+=("$cache/python/$python_key" make_environment)
    fi
    if [ ! -e "$cache/engine/$engine_key/.complete" ]; then
        say "building the engine (about two minutes)"
        missing+=("$cache/engine/$engine_key" make_engine)
    fi
    make_together "${missing[@]}"
    # shellcheck disable=SC2034 # for the script that sources this file
    MYDYNO_PYTHON=$cache/python/$python_key/bin/python
    export MYDYNO_CACHE=$cache MYDYNO_ENGINE=$cache/engine/$engine_key/bin
    export PYTHONPATH=$here/src PYTHONPYCACHEPREFIX=$cache/pycache PYTHONSAFEPATH=1
    # Images of containers set it, to keep folders clean. Compiled files are in the cache; without them a start takes seconds.
    unset PYTHONDONTWRITEBYTECODE
}
