#!/usr/bin/env python3
"""Write the packages from one tree of installed files; tools/package.sh calls this.

usage: tools/package/make_packages.py --tree DIR --install-into FILE --version V --commit C --output DIR
                                      [--relink DIR] [--architecture x86_64|aarch64]

--tree          what the packages install
--install-into  the program by which the image copies the recorder (install_into.c)
--relink        also pack this directory, which relink_kit.py wrote

Two runs with the same Python write the same bytes if the files, the version, the commit and SOURCE_DATE_EPOCH are
the same: names are sorted, and owner, mode and time are set. Exit status 1: a package is larger than 15 MB.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import sys
import tarfile
import time
import zipfile
from pathlib import Path

MAX_BYTES = 15_000_000
# The highest levels take two (gzip) and three (xz) times as long, for packages that are 0.4 % and 9 % smaller.
GZIP_LEVEL = 6
XZ_LEVEL = 2
DOCUMENTS = "share/doc/heapprof/"
SUMMARY = "heap profiler for native Linux programs"
DESCRIPTION = """heapprof records every allocation of an unmodified program together with the
call stack. It shows what held memory at the peak, what was never freed, which
allocations were short-lived, and how memory grew over time."""
# The names that Debian and OCI have for an architecture.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
MAINTAINER = os.environ.get("HEAPPROF_MAINTAINER", "The heapprof authors <heapprof@heapprof.invalid>")


def read_tree(root):
    """{path relative to root: contents, or a str: target of a symbolic link}"""
    files = {}
    for path in sorted(Path(root).rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            files[name] = os.readlink(path)
        elif path.is_file():
            files[name] = path.read_bytes()
    return files


def mode_of(name):
    return 0o755 if "bin" in name.split("/")[:-1] or name in ("install-into", "link.sh") else 0o644


def tar(files, prefix=""):
    """A tar archive of the files, with their directories, owned by root."""
    directories = {parent.as_posix() for name in files for parent in Path(name).parents} - {"."}
    if prefix:
        directories.add("")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(directories | set(files)):
            info = tarfile.TarInfo(prefix + name)
            info.mtime, info.uname, info.gname = EPOCH, "root", "root"
            contents = files.get(name)
            if contents is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            elif isinstance(contents, str):
                info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, contents
                archive.addfile(info)
            else:
                info.mode, info.size = mode_of(name), len(contents)
                archive.addfile(info, io.BytesIO(contents))
    return out.getvalue()


def gz(contents, level=GZIP_LEVEL):
    return gzip.compress(contents, compresslevel=level, mtime=0)


def xz(contents):
    return lzma.compress(contents, preset=XZ_LEVEL)


def json_bytes(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


# ---- Debian ------------------------------------------------------------------------------------------

LINTIAN_OVERRIDES = """# Loaded by LD_PRELOAD by its name; no program is linked with it.
heapprof: package-name-doesnt-match-sonames *
heapprof: shared-library-lacks-version *
heapprof: no-symbols-control-file *
# Linked in, as are the other libraries: the package runs on systems with other versions of it, or without it.
heapprof: embedded-library ncurses *
"""


def debian_copyright(files):
    text = ("heapprof\n\nCopyright: the heapprof authors\nLicense: Apache-2.0; the text is in "
            "/usr/share/common-licenses/Apache-2.0.\n\n"
            "Components of other authors, and their licences. LGPL-3, GPL-2 and GPL-3 are in\n"
            "/usr/share/common-licenses/.\n\n" + files[DOCUMENTS + "NOTICE"].decode())
    for name, contents in files.items():
        if name.startswith(DOCUMENTS + "licenses/") and "GPL" not in name:
            title = name.rpartition("/")[2]
            text += f"\n\n{title}\n{'=' * len(title)}\n\n{contents.decode()}"
    return text


def deb(files, version, architecture):
    triplet = architecture + "-linux-gnu"
    data = {}
    for name, contents in files.items():
        if name.startswith("lib/pkgconfig/"):
            text = re.sub(r"^prefix=.*", "prefix=/usr", contents.decode(), flags=re.M)
            contents = re.sub(r"^libdir=.*", "libdir=${prefix}/lib/" + triplet, text, flags=re.M).encode()
        if name.startswith("lib/"):
            name = f"lib/{triplet}/" + name.removeprefix("lib/")
        elif name.startswith("share/man/"):
            name, contents = name + ".gz", gz(contents, 9)  # a rule of Debian
        elif name.startswith("share/zsh/site-functions/"):
            name = "share/zsh/vendor-completions/" + name.rpartition("/")[2]
        elif name.startswith("share/bash-completion/"):
            name = name.removesuffix(".bash")
        elif name.startswith(DOCUMENTS):
            continue
        data["usr/" + name] = contents
    day = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(EPOCH))
    changelog = (f"heapprof ({version}) unstable; urgency=medium\n\n  * Release {version}.\n\n"
                 f" -- {MAINTAINER}  {day}\n")
    data["usr/share/doc/heapprof/changelog.gz"] = gz(changelog.encode(), 9)
    data["usr/share/doc/heapprof/copyright"] = debian_copyright(files).encode()
    data["usr/share/lintian/overrides/heapprof"] = LINTIAN_OVERRIDES.encode()

    kilobytes = sum((len(contents) + 1023) // 1024 for contents in data.values())
    control = {
        "Package": "heapprof", "Version": version, "Architecture": ARCHITECTURES[architecture],
        "Maintainer": MAINTAINER,
        "Installed-Size": str(kilobytes), "Depends": "libc6 (>= 2.28)", "Suggests": "libdebuginfod1",
        "Section": "devel", "Priority": "optional",
        "Description": "".join([SUMMARY] + ["\n " + line for line in DESCRIPTION.splitlines()]),
    }
    sums = "".join(f"{hashlib.md5(contents).hexdigest()}  {name}\n" for name, contents in sorted(data.items()))
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", xz(tar({
            "control": "".join(f"{key}: {value}\n" for key, value in control.items()).encode(),
            "md5sums": sums.encode(), "triggers": b"activate-noawait ldconfig\n"}, "./"))),
        ("data.tar.xz", xz(tar(data, "./"))),
    ]
    out = b"!<arch>\n"
    for name, contents in members:  # ar(5)
        out += f"{name:<16}{EPOCH:<12}{0:<6}{0:<6}{'100644':<8}{len(contents):<10}`\n".encode()
        out += contents + b"\n" * (len(contents) % 2)
    return out


# ---- Python ------------------------------------------------------------------------------------------

def wheel(files, version, architecture):
    """The program as a script and the rest as data: pip puts them into bin/ and lib/ of one folder."""
    info, data = f"heapprof-{version}.dist-info", f"heapprof-{version}.data"
    entries = {}
    for name, contents in files.items():
        if name.startswith(DOCUMENTS):
            entries[f"{info}/licenses/" + name.removeprefix(DOCUMENTS)] = contents
        elif name.startswith("bin/"):
            entries[f"{data}/scripts/" + name.removeprefix("bin/")] = contents
        else:
            entries[f"{data}/data/" + name] = contents
    tag = f"py3-none-manylinux_2_28_{architecture}"
    entries[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: heapprof\nRoot-Is-Purelib: false\n"
                                f"Tag: {tag}\n").encode()
    entries[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: heapprof\nVersion: {version}\nSummary: {SUMMARY}\n"
                                   f"License: Apache-2.0\n\n{DESCRIPTION}\n").encode()
    record = ""
    for name, contents in sorted(entries.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(contents)}\n"
    entries[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, contents in sorted(entries.items()):
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, contents, compresslevel=GZIP_LEVEL)
    return f"heapprof-{version}-{tag}.whl", out.getvalue()


# ---- OCI ---------------------------------------------------------------------------------------------

def image(files, install_into, version, commit, architecture):
    """An archive that follows the OCI image layout, and with its manifest.json also `docker save`."""
    layer = tar({"install-into": install_into, **{"heapprof/" + name: contents for name, contents in files.items()}})
    packed = gz(layer)
    blobs = {}

    def blob(contents, media_type):
        digest = hashlib.sha256(contents).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = contents
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(contents)}

    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    config = blob(json_bytes({
        "architecture": ARCHITECTURES[architecture], "os": "linux", "created": created,
        "config": {"Entrypoint": ["/install-into"], "Labels": {
            "org.opencontainers.image.title": "heapprof", "org.opencontainers.image.description": SUMMARY,
            "org.opencontainers.image.version": version, "org.opencontainers.image.revision": commit,
            "org.opencontainers.image.licenses": "Apache-2.0"}},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "tools/package.sh"}],
    }), "application/vnd.oci.image.config.v1+json")
    layers = [blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")]
    manifest = blob(json_bytes({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
        "layers": layers}), "application/vnd.oci.image.manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}

    def path(descriptor):
        return "blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")

    return tar({
        **blobs,
        "oci-layout": json_bytes({"imageLayoutVersion": "1.0.0"}),
        "index.json": json_bytes({"schemaVersion": 2, "manifests": [manifest]}),
        "manifest.json": json_bytes([{"Config": path(config), "RepoTags": [f"heapprof:{version}"],
                                      "Layers": [path(layer) for layer in layers]}]),
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tree", "install-into", "version", "commit", "output"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--relink", metavar="DIR")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="x86_64")
    options = parser.parse_args()
    if not EPOCH:
        parser.error("SOURCE_DATE_EPOCH is not set: it is the time of all files, in seconds since 1970")
    version, architecture = options.version, options.architecture
    files = read_tree(options.tree)
    name = f"heapprof-{version}-{architecture}"
    packages = dict([
        (name + ".tar.gz", gz(tar(files, name + "/"))),
        (f"heapprof_{version}_{ARCHITECTURES[architecture]}.deb", deb(files, version, architecture)),
        wheel(files, version, architecture),
        (name + ".oci.tar", image(files, Path(options.install_into).read_bytes(), version, options.commit,
                                  architecture)),
    ])
    large = [file for file, contents in packages.items() if len(contents) > MAX_BYTES]
    if options.relink:
        packages[name + "-relink.tar.xz"] = xz(tar(read_tree(options.relink), name + "-relink/"))
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    for file, contents in packages.items():
        (output / file).write_bytes(contents)
        print(f"{len(contents) / 1e6:6.2f} MB  {hashlib.sha256(contents).hexdigest()[:16]}  {output / file}")
    for file in large:
        print(f"error: {output / file}: larger than 15 MB", file=sys.stderr)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in output.glob("heapprof[-_]*")}
    (output / "SHA256SUMS").write_text("".join(f"{digest}  {file}\n" for file, digest in sorted(sums.items())))
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
