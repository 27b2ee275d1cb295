"""Compiles the hot packages with mypyc where there is a C compiler; everything else is in pyproject.toml.

`SLUICE_COMPILE=0` builds plain Python, `SLUICE_COMPILE=1` insists on compiling. Left unset, it depends on
whether a program that includes Python.h can be compiled. If it can, a failure of mypyc is an error.
`SLUICE_OPTIMIZE` is the level of the C compiler, 3 unless it says otherwise: 0 takes the least time, for tests.
"""

import os
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

ROOT = Path(__file__).parent
HOT = (
    "protocol",
    "session",
    "broker",
    "broker/addresses",
    "broker/auth",
    "broker/bridge",
    "broker/cluster",
    "broker/connection",
    "broker/quotas",
    "broker/routing",
    "broker/runtime",
    "broker/storage",
)
"""The folders on the way of a message. All their files are compiled, not those of folders in them."""
ENTRY_POINT = "__main__.py"
"""`python -m` runs its source."""
CALL_DIRECTLY = ["-fno-semantic-interposition"] if sys.platform != "win32" else []
"""By itself a compiler lets every function of a shared library be replaced from outside."""
SILENTLY = ["-w", "-Wno-misleading-indentation"] if sys.platform != "win32" else []
"""Nobody reads warnings about what mypyc writes, and gcc looks for them for minutes. The indentation it measures even
with -w, by reading the file of half a million lines again and again: gcc 12 for half of its time, gcc 14 for most."""
COMPILING_COMMANDS = {"bdist_wheel", "build", "build_ext", "install"}
"""A build asks setup.py for names and requirements first; there is nothing to compile for that."""


def hot_files() -> list[str]:
    """Return the files to compile, as paths from the root."""
    files = (path for folder in HOT for path in sorted((ROOT / folder).glob("*.py")))
    return [str(path.relative_to(ROOT)) for path in files if path.name != ENTRY_POINT]


def why_not() -> str:
    """Say what keeps extension modules from being compiled here; empty if nothing does."""
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "the headers of Python are missing (Debian: apt install python3-dev)"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nPyMODINIT_FUNC PyInit_probe(void) { return NULL; }\n")
        command = build_ext(Distribution({"ext_modules": [Extension("probe", [str(source)])]}))
        command.build_temp = command.build_lib = folder
        try:
            command.ensure_finalized()
            command.run()
        except (CCompilerError, ExecError, PlatformError, OSError) as error:
            return f"there is no working C compiler (Debian: apt install gcc libc6-dev): {error}"
    return ""


def extensions() -> list[Extension]:
    """Return the compiled modules, or none."""
    if not COMPILING_COMMANDS.intersection(sys.argv):
        return []
    wish = os.environ.get("SLUICE_COMPILE", "")
    reason = "SLUICE_COMPILE=0" if wish == "0" else why_not()
    if reason and wish == "1":
        raise SystemExit(f"sluice: SLUICE_COMPILE=1, but {reason}")
    if reason or not hot_files():
        print(f"sluice: built as plain Python, not compiled: {reason or 'nothing to compile'}")
        return []
    from mypyc.build import mypycify

    print(f"sluice: compiling {len(hot_files())} files with mypyc")
    # Whatever else they import is type-checked by `make types`, with the stubs that this takes.
    options = ["--follow-imports=silent", *hot_files()]
    level = os.environ.get("SLUICE_OPTIMIZE", "3")
    modules: list[Extension] = mypycify(options, opt_level=level, debug_level="0", group_name="sluice")
    for module in modules:
        # All modules are one C file: its functions may call each other directly, and be inlined.
        module.extra_compile_args = [*module.extra_compile_args, *CALL_DIRECTLY, *SILENTLY]
    return modules


setup(ext_modules=extensions())
