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
