"""A registered Protobuf schema to descriptors, by protoc (of grpcio-tools), in a process and folder of its own.

The registry gives .proto text, or what some clients register: a serialized FileDescriptorProto in base64. Imports come
from the schema's references, and besides them from what every registry client knows: google/protobuf, google/type,
confluent/meta.proto and confluent/type. Not for reading messages, nor for finding one in its file.
"""

from __future__ import annotations

import binascii
import errno
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import google.type  # type: ignore[import-untyped]
import grpc_tools  # type: ignore[import-untyped]
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as former_decimal_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from firn.errors import TransientError
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema

PROTOC_SECONDS = 60.0
"""It takes 0.15 s, once for each schema id and worker."""

_ROOT = "firn_root.proto"
_LOG = re.compile(r"^(?:WARNING: All log|[WIE]\d{4} ).*\n", re.MULTILINE)  # what protoc's libraries say beside errors
_COMMENTED = {"message_type", "nested_type", "field", "oneof_decl"}
_KNOWN = (meta_pb2, decimal_pb2, variant_pb2, former_decimal_pb2)
_INCLUDED = (Path(grpc_tools.__file__).parent / "_proto", Path(next(iter(google.type.__path__))).parents[1])


def root_file(schema: RegisteredSchema) -> FileDescriptor:
    """The descriptor of the schema's own file, in a pool of its own. Raises InvalidSchemaError with protoc's words."""
    pool = DescriptorPool()
    try:
        for file in _compiled(schema).file:
            pool.Add(file)
        return pool.FindFileByName(_ROOT)
    except InvalidSchemaError:
        raise
    except (DecodeError, KeyError, TypeError, ValueError) as error:
        raise InvalidSchemaError(f"its descriptors do not fit together: {error}") from error


def comments(schema: RegisteredSchema) -> dict[str, str]:
    """The comments on messages, their fields and oneofs, by full name, in one line each.

    The text in front of an element counts, else what stands behind it on its line. A descriptor that was registered
    without its source has none. Raises InvalidSchemaError as `root_file` does.
    """
    found: dict[str, str] = {}
    for file in _compiled(schema).file:
        for place in file.source_code_info.location:
            text = " ".join((place.leading_comments or place.trailing_comments).split())
            name = _element(file, list(place.path)) if text else None
            if name:
                found[name] = text
    return found


def _element(file: FileDescriptorProto, path: list[int]) -> str | None:
    """The full name of the message, field or oneof at a path of SourceCodeInfo (field number, index, ...)."""
    message: FileDescriptorProto | DescriptorProto = file
    name, steps = file.package, list(zip(path[::2], path[1::2], strict=False))
    if not steps or len(path) % 2:
        return None
    for number, index in steps:
        members = message.DESCRIPTOR.fields_by_number[number].name
        if members not in _COMMENTED:
            return None
        message = getattr(message, members)[index]
        name = f"{name}.{message.name}".lstrip(".")
    return name


def _compiled(schema: RegisteredSchema) -> FileDescriptorSet:
    """Every file that the schema needs, each behind those that it imports."""
    with tempfile.TemporaryDirectory(prefix="firn-protoc-") as name:
        folder = Path(name)
        (folder / "known.pb").write_bytes(_write(schema, folder / "sources").SerializeToString())
        _run_protoc(folder)
        return FileDescriptorSet.FromString((folder / "compiled.pb").read_bytes())


def _write(schema: RegisteredSchema, folder: Path) -> FileDescriptorSet:
    """Write the texts into `folder`; what is not text, and what every client knows, is returned."""
    known = {
        module.DESCRIPTOR.name: FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb) for module in _KNOWN
    }
    for name, text in {**_all_references(schema), _ROOT: schema.text}.items():
        known.pop(name, None)
        descriptor = _descriptor(name, text)
        if descriptor is not None:
            known[name] = descriptor
            continue
        _write_text(folder, name, text)
    folder.mkdir(exist_ok=True)
    return FileDescriptorSet(file=known.values())


def _write_text(folder: Path, name: str, text: str) -> None:
    """Write a file within `folder`. Raises InvalidSchemaError where the schema's names or texts forbid it."""
    try:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise InvalidSchemaError(f"it refers to {name[:80]!r}, which is no import path")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:  # of the names a and a/b
        raise InvalidSchemaError(f"it refers to {name[:80]!r}, which is no import path beside the others") from error
    except UnicodeEncodeError as error:
        raise InvalidSchemaError(f"{name[:80]!r} is no text: {error.reason}") from error
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise InvalidSchemaError(f"it refers to {name[:80]!r}, which is too long for an import path") from error


def _all_references(schema: RegisteredSchema) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, referred in schema.references:
        found |= {name: referred.text, **_all_references(referred)}
    return found


def _descriptor(name: str, text: str) -> FileDescriptorProto | None:
    """The descriptor that is written in base64, under the name it is known by; None for a .proto text."""
    try:
        descriptor = FileDescriptorProto.FromString(binascii.a2b_base64(text.encode("ascii"), strict_mode=True))
    except (ValueError, DecodeError):
        return None
    descriptor.name = name
    return descriptor


def _run_protoc(folder: Path) -> None:
    sources = folder / "sources"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{sources}", *[f"-I{path}" for path in _INCLUDED]]
    command += [f"--descriptor_set_in={folder / 'known.pb'}", "--include_imports", "--include_source_info"]
    command += [f"--descriptor_set_out={folder / 'compiled.pb'}", _ROOT]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=PROTOC_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise TransientError(
            f"protoc did not compile a schema within {PROTOC_SECONDS:.0f} s.",
            where="this machine",
            next_step="Look at its load, then try again; a sink does so itself.",
        ) from error
    if ran.returncode:
        said = _LOG.sub("", ran.stderr.decode(errors="replace")).replace(f"{sources}/", "").strip()
        raise InvalidSchemaError(f"protoc refuses it: {said[:500] or ran.returncode}")
