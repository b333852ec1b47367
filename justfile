# The tiers of tests, each one command: tests/README.md says what each covers.

# Unit tests, dialect, suites, program, laws of the source: for every edit.
quick:
    cargo quick

# What every change has to pass; `.ci/run` adds formatting, lints and documentation.
gate:
    cargo gate

# Everything at length: hours. It goes on where it was stopped; `just long --restart` begins anew.
long *ARGUMENTS:
    tests/long {{ARGUMENTS}}

# The gate as it runs before a merge.
ci:
    .ci/run

# All states of a model of the account, and the broken steps that it refutes.
model:
    cd tests/model && cargo test --locked -- --nocapture

# One simulated world by its seed, with all that happens in it: just simulate --seed 7 --steps 20
simulate *ARGUMENTS:
    tests/simulation/run {{ARGUMENTS}}

# Seeded bugs by their numbers, or all of them.
mutants *NUMBERS:
    tests/mutants/run {{NUMBERS}}

# Licences, sources and advisories of all crates. Needs cargo-deny and the network.
deny:
    cargo deny check

# All documents as a book, with its links checked: target/book/html/index.html. Installs mdBook into target/tools where it is missing.
docs:
    test "$(target/tools/bin/mdbook --version 2>/dev/null)" = "mdbook v0.5.4" || \
        cargo install --locked --debug --no-default-features --features search --target-dir target/mdbook --root target/tools mdbook@0.5.4
    docs/book.py target/tools/bin/mdbook

# What a release has, in target/dist: archive, package for Debian, wheel, crates, list of parts, hashes. Two builds for a release: an hour
# and a half.
dist *ARGUMENTS:
    .ci/dist {{ARGUMENTS}}

# The wheel for 64-bit ARM, by a second full build. Needs the standard library of Rust for that target.
dist-arm:
    .ci/dist --wheel aarch64

# Installs the package for Debian that `just dist` made, tries it, and removes it. Changes this machine, and needs root.
try-deb:
    packaging/try-deb

# The image of a container, by the commands of the Dockerfile, where no container engine runs.
container *PROGRAM:
    packaging/container {{PROGRAM}}

# The workflows, by actionlint.
workflows:
    .ci/workflows

# Fails if a tag is not the version of the workspace.
version TAG:
    test "{{TAG}}" = "v$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)"

# Uploads the crates, each after those that it needs, and the wheels that `just dist` made. Needs accounts.
publish:
    cargo publish --locked -p hushql-privacy -p hushql-vault -p hushql-exec -p hushql-engine -p hushql
    python3 -m twine upload target/dist/*.whl
