"""Runs the installed mstfwreset, unchanged, on a card that this program plays.

usage: mstfwreset_on_a_played_card.py SOURCES ROOT PROGRAMS LEVELS ARGUMENT...

SOURCES is the directory of the tool's Python files, ROOT has the machine's sys directory, PROGRAMS is the only directory in which the
tool finds programs, LEVELS is the mask of resets that the card's register MFRL offers. The modules in C that reach hardware are
replaced, and paths below /sys are those below ROOT. Everything else is the tool's own code.
"""
import builtins
import os
import runpy
import subprocess
import sys
import types

sources, root, programs, levels = sys.argv[1:5]


def here(path):
    return root + path if isinstance(path, str) and path.startswith("/sys/") else path


def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(members)


class MstDevice:
    def __init__(self, name):
        self.name = name

    def open(self):
        pass

    def close(self):
        pass


class RegAccException(Exception):
    pass


class RegAccess:
    GET, SET = 0, 1

    def __init__(self, device):
        pass

    def sendMFRL(self, method, *values):
        return int(levels), 1, 0

    def getMCAM(self):
        return {"mng_feature_cap_mask": [1] * 128}

    def sendPcnr(self, *values):
        raise RegAccException("not supported")


class CmdIf:
    def __init__(self, device):
        pass

    def isMultiHostSyncSupported(self):
        return False


class DevMgt:
    def __init__(self, device):
        pass

    def isLivefishMode(self):
        return 0


module("mtcr", MstDevice=MstDevice)
module("regaccess", RegAccess=RegAccess, RegAccException=RegAccException)
module("cmdif", CmdIf=CmdIf)
module("dev_mgt", DevMgt=DevMgt)
module("tools_version", GetVersionString=lambda *names: " ".join(names))

sys.path[:0] = [sources, os.path.dirname(sources)]
from mlxfwresetlib import mlxfwreset_utils  # noqa: E402


def run(command):
    done = subprocess.run(["/bin/sh", "-c", command.replace("/sys/", root + "/sys/")], env={"PATH": programs}, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


mlxfwreset_utils.cmdExec = run
for owner, name in ((builtins, "open"), (os, "listdir"), (os, "readlink"), (os.path, "exists")):
    setattr(owner, name, (lambda real: lambda path, *more, **named: real(here(path), *more, **named))(getattr(owner, name)))

sys.argv = ["mstfwreset.py"] + sys.argv[5:]
runpy.run_path(os.path.join(sources, "mstfwreset.py"), run_name="__main__")
