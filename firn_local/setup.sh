#!/usr/bin/env bash
# From a bare clone to a working .venv and the JVM parts of the stack. Called by `make setup`; quick when nothing is
# to do. Registries, mirrors and proxies are the machine's own configuration of pip, uv and Maven.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
JVM=.local/jvm
UV_HOME=.local/uv
POM=firn_local/pom.xml

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

# The first of these commands that is a Python of versions $1 to $2.
find_python() {
    local oldest=$1 newest=$2 candidate
    for candidate in python3.11 python3.12 python3.13 python3.14 python3; do
        if "$candidate" -c "import sys; sys.exit(not (3, $oldest) <= sys.version_info[:2] <= (3, $newest))" \
            2> /dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# uv, where no Python fits: the one that is there, or one of this checkout's own, from whatever python3 there is.
find_uv() {
    command -v uv && return
    [ -x "$UV_HOME/bin/uv" ] || {
        can_make_venv python3 && python3 -m venv "$UV_HOME" &&
            "$UV_HOME/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
    } >&2 || return 1
    echo "$UV_HOME/bin/uv"
}

# A Python that uv installs, beside those of the system.
bring_python() {
    local uv
    uv=$(find_uv) || return 1
    say "no Python 3.11 to 3.13 here; uv installs 3.13"
    "$uv" python install 3.13 >&2 && "$uv" python find --no-project --managed-python 3.13
}

no_python() {
    fail "Python 3.11, 3.12 or 3.13 was not found, and uv could not install one. Put one of them on PATH and run this" \
        "again; where there is a mirror of uv's Pythons: UV_PYTHON_INSTALL_MIRROR=<url> make setup"
}

# Debian keeps ensurepip, which venv needs, in a package of its own.
can_make_venv() {
    "$1" -c 'import ensurepip, venv' 2> /dev/null ||
        apt_install "$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
}

make_venv() {
    if "$VENV/bin/python" -m pip --version > /dev/null 2>&1; then return; fi
    local python
    command -v python3 > /dev/null || find_python 11 14 > /dev/null || apt_install python3
    if ! python=$(find_python 11 13) && ! python=$(bring_python); then
        python=$(find_python 14 14) || no_python
        say "only Python 3.14 is here, on which dbt does not run: \`firn transform\` and \`make demo\` need 3.11 to 3.13"
    fi
    say "making $VENV with $python"
    can_make_venv "$python"
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
    local packages=()
    if [ "$(java_version)" -lt 17 ]; then
        [ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME=$JAVA_HOME is no Java 17 or later. Point it to one, or unset it."
        packages+=("openjdk-$(java_of_apt)-jre-headless")
    fi
    # Only to fetch what is not there yet.
    if ! jvm_parts_present && ! command -v mvn > /dev/null; then packages+=(maven); fi
    [ "${#packages[@]}" -eq 0 ] || apt_install "${packages[@]}"
    local found
    found=$(java_version)
    [ "$found" -ge 17 ] || fail "Java 17 or later was not found, even after installing it."
    case $found in
        17 | 21 | 25) ;;
        *) say "Java $found found; Spark 4.3 is made for 17, 21 and 25 (JAVA_HOME chooses)." ;;
    esac
}

# The oldest Java for Spark 4.3 that this release of Debian has; newer releases have no 17.
java_of_apt() {
    local version
    if command -v apt-cache > /dev/null && [ "$(id -u)" -eq 0 ]; then
        [ -n "$(apt-cache pkgnames openjdk-)" ] || apt-get update -qq > /dev/null || true
        for version in 17 21 25; do
            [[ $(apt-cache policy "openjdk-$version-jre-headless") != *"Candidate: "[0-9]* ]] || break
        done
    fi
    echo "${version:-17}"
}

jvm_parts_present() { [ "$(cat "$JVM/stamp" 2> /dev/null)" = "$(hash_of "$POM")" ]; }

fetch_jvm_parts() {
    jvm_parts_present && return
    say "fetching Kafka and the schema registry of the embedded stack with Maven"
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
# Spark's classes, once for each Java and Spark: a sink starts without them too, some seconds later.
"$VENV/bin/python" -m spark_jobs.spark.class_archive || say "no class archive was made: sinks start a little slower"
