"""clang-tidy as an aspect: Bazel knows the flags of each source and caches what passed.

    bazel build --aspects=//bazel:clang_tidy.bzl%clang_tidy --output_groups=clang_tidy //common/...
"""

_RULES = ["cc_binary", "cc_library", "cc_test"]

def _flags(compilation):
    flags = ["-std=c++20", "-iquote", "."]
    for path in compilation.quote_includes.to_list():
        flags += ["-iquote", path]
    for path in compilation.includes.to_list():
        flags += ["-I", path]

    # Generated code comes by the "system" includes of other rules.
    for path in compilation.system_includes.to_list():
        flags += ["-isystem", path]
    return flags + ["-D" + define for define in compilation.defines.to_list()]

def _clang_tidy_impl(target, ctx):
    if ctx.rule.kind not in _RULES or target.label.workspace_root or "-w" in ctx.rule.attr.copts:
        return []
    compilation = target[CcInfo].compilation_context
    passed = []
    for source in ctx.rule.files.srcs:
        if source.extension != "cc":
            continue
        report = ctx.actions.declare_file("{}.{}.clang_tidy".format(ctx.label.name, source.basename))
        ctx.actions.run_shell(
            inputs = depset(
                [ctx.file._config] + ctx.rule.files.srcs,
                transitive = [compilation.headers],
            ),
            outputs = [report],
            # The report of a source that passes is only a count of what was suppressed.
            command = 'clang-tidy --quiet --config-file="$1" "$2" -- "${@:4}" >"$3" 2>&1 || ' +
                      '{ cat "$3"; exit 1; }',
            arguments = [ctx.file._config.path, source.path, report.path] + _flags(compilation),
            use_default_shell_env = True,
            mnemonic = "ClangTidy",
            progress_message = "clang-tidy " + source.short_path,
        )
        passed.append(report)
    return [OutputGroupInfo(clang_tidy = depset(passed))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_config": attr.label(default = "//:.clang-tidy", allow_single_file = True),
    },
)
