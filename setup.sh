#!/usr/bin/env bash
# Installs what a build and its tests need on Debian or Ubuntu, where it is missing. Does nothing, and
# needs no network, where everything is there. Rust itself comes from https://rustup.rs.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

# What has to be there: a linker, and the tools that tests start.
required=()
have cc || required+=(build-essential)
have ps || required+=(procps)
have setsid || required+=(util-linux)
have git || required+=(git)

# What some tests need, which print SKIPPED without it: codex itself comes from npm, to be compared with.
optional=()
have node || optional+=(nodejs)
have npm || optional+=(npm)
[ -x /usr/bin/python3 ] || optional+=(python3)
[ -x /usr/bin/bwrap ] || optional+=(bubblewrap)
have script || optional+=(bsdutils)

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

may_install() {
    have apt-get && { [ "$(id -u)" = 0 ] || { have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }; }
}

install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if [ ${#required[@]} -gt 0 ] || [ ${#optional[@]} -gt 0 ]; then
    if may_install; then
        # An old list may still do, so a failure here is not yet one.
        as_root apt-get update -qq >/dev/null || true
    elif [ ${#required[@]} -gt 0 ]; then
        echo "setup.sh: neither root nor sudo; run this as root:" >&2
        echo "  apt-get update && apt-get install -y ${required[*]} ${optional[*]}" >&2
        exit 1
    else
        echo "setup.sh: without ${optional[*]} some tests are skipped; to have them, run this as root:" >&2
        echo "  apt-get update && apt-get install -y ${optional[*]}" >&2
        optional=()
    fi
fi

if [ ${#required[@]} -gt 0 ]; then
    install "${required[@]}"
fi
for package in "${optional[@]}"; do
    install "$package" || echo "setup.sh: cannot install $package; some tests are skipped" >&2
done

if ! have cargo; then
    # A fresh installation is not on the PATH of shells that are already open.
    echo "setup.sh: cargo is missing; install Rust from https://rustup.rs, then open a new shell" >&2
    exit 1
fi
