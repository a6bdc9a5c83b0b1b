"""Says whether LMCache's native kernels load in this image.

Importing them proves nothing: LMCache replaces a library that does not load by a slow
fallback and goes on. So the library is loaded from its file.
"""
import ctypes
import glob
import importlib.util
import os


def check():
    """Returns why the kernels do not load, or nothing."""
    # Finding the package does not import it.
    spec = importlib.util.find_spec("lmcache")
    if spec is None or not spec.submodule_search_locations:
        return "the package lmcache is not installed"
    package = list(spec.submodule_search_locations)[0]
    libraries = sorted(glob.glob(os.path.join(glob.escape(package), "c_ops*.so")))
    if not libraries:
        return "there is no c_ops library in " + package + ": a build without native kernels"
    # The library is linked against libraries that torch brings along.
    import torch  # noqa: F401

    ctypes.CDLL(libraries[0])
    return None


def main():
    try:
        cause = check()
    except BaseException as exception:
        cause = "%s: %r" % (type(exception).__name__, exception)
    message = "OK" if cause is None else ("FAIL: " + cause)[:3500]
    try:
        with open("/dev/termination-log", "wb") as log:
            # The kubelet keeps the last 4096 bytes, and the beginning matters.
            log.write(message.encode("utf-8", "backslashreplace")[:4096])
    except Exception:
        pass
    strict = os.environ.get("KERNEL_CHECK_STRICT") == "1"
    # Libraries that are unloaded at exit must not change the verdict.
    os._exit(1 if cause is not None and strict else 0)


main()
