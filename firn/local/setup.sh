#!/usr/bin/env bash
# From a bare clone to a working .venv and the JVM parts of the stack. Called by `make setup`; quick when nothing is
# to do. Registries, mirrors and proxies are the machine's own configuration of pip, uv and Maven.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

VENV=.venv
JVM=.local/jvm
POM=firn/local/pom.xml

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "$@"; exit 3; }
hash_of() { cat "$@" | sha256sum | cut -d' ' -f1; }

# Install Debian packages as root, or say which line does it.
APT_UPDATED=
apt_install() {
    local line="apt-get update && apt-get install -y --no-install-recommends $*"
    command -v apt-get > /dev/null || fail "Needed and not found: $*. Install them with this system's package manager."
    [ "$(id -u)" -eq 0 ] || fail "Needed and not found: $*. Run: sudo sh -c '$line'"
    say "installing $* with apt-get"
    [ -n "$APT_UPDATED" ] || apt-get update -qq > /dev/null || say "apt-get update failed; trying what it knows"
    APT_UPDATED=1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" > /dev/null ||
        fail "apt-get could not install $*. Mend that and run: $line"
}

find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2> /dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    if "$VENV/bin/python" -m pip --version > /dev/null 2>&1; then return; fi
    local python
    find_python > /dev/null || apt_install python3
    python=$(find_python) || fail "Python 3.11 or 3.12 was not found (python3.11, python3.12, python3)."
    say "making $VENV with $python"
    # Debian keeps ensurepip, which venv needs, in a package of its own.
    "$python" -c 'import ensurepip, venv' 2> /dev/null ||
        apt_install "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    "$python" -m venv --clear "$VENV"
}

install_python_packages() {
    local stamp="$VENV/.firn-installed" wanted
    # The folder too: an editable install points to it.
    wanted="$(hash_of pyproject.toml constraints.txt) $PWD"
    [ "$(cat "$stamp" 2> /dev/null)" != "$wanted" ] || return 0
    say "installing Python packages"
    # uv is several times quicker, but it does not read pip's configuration: where it cannot reach a registry, pip may.
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt uv || true
    "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" -c constraints.txt -e '.[local,dev]' ||
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local,dev]'
    printf '%s\n' "$wanted" > "$stamp"
}

java_program() { if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME/bin/java"; else echo java; fi; }

# The major version of Java, or 0.
java_version() {
    local found
    found=$("$(java_program)" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
    echo "${found:-0}"
}

need_java_and_maven() {
    local packages=() version=17
    if [ "$(java_version)" -lt 17 ]; then
        [ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME=$JAVA_HOME is no Java 17 or later. Point it to one, or unset it."
        # Newer Debian releases have 21 only; Spark 4.0 runs on both.
        if command -v apt-cache > /dev/null && [ "$(id -u)" -eq 0 ]; then
            apt-get update -qq > /dev/null || true
            APT_UPDATED=1
            apt-cache show openjdk-17-jre-headless > /dev/null 2>&1 || version=21
        fi
        packages+=("openjdk-$version-jre-headless")
    fi
    # Only to fetch what is not there yet.
    if ! jvm_parts_present && ! command -v mvn > /dev/null; then packages+=(maven); fi
    [ "${#packages[@]}" -eq 0 ] || apt_install "${packages[@]}"
    [ "$(java_version)" -ge 17 ] || fail "Java 17 or later was not found, even after installing it."
    [ "$(java_version)" -le 21 ] || say "Java $(java_version) found; Spark 4.0 is made for 17 and 21 (JAVA_HOME chooses)."
}

jvm_parts_present() { [ "$(cat "$JVM/stamp" 2> /dev/null)" = "$(hash_of "$POM")" ]; }

fetch_jvm_parts() {
    jvm_parts_present && return
    say "fetching Kafka, the schema registry and Spark's Kafka source with Maven"
    # Beside the old parts until all is there: a stack may be running from them.
    rm -rf "$JVM.part"
    local fetch=(mvn -q -B -Dstyle.color=never -f "$POM" "-Djvm.dir=$PWD/$JVM.part" package)
    # Once more, for a download that broke off.
    "${fetch[@]}" || "${fetch[@]}" || fail "Maven could not fetch them: see above."
    hash_of "$POM" > "$JVM.part/stamp"
    rm -rf "$JVM"
    mv "$JVM.part" "$JVM"
}

make_venv
need_java_and_maven
fetch_jvm_parts &
install_python_packages
wait "$!"
