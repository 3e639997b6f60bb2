import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load


class LockstepConan(ConanFile):
    """conan create cmake/conan"""

    name = "lockstep"
    description = "Causal attention on the CPU, the same bits every time"
    license = "MIT"
    topics = ("attention", "transformer", "kv-cache", "eigen", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        # The version is written once, in the header that users see.
        header = load(self, os.path.join(self._tree, "include", "lockstep", "version.hpp"))
        self.version = ".".join(
            re.search(rf"^#define LOCKSTEP_VERSION_{part} (\d+)$", header, re.MULTILINE).group(1)
            for part in ("MAJOR", "MINOR", "PATCH")
        )

    def export_sources(self):
        copy(self, "include/*", src=self._tree, dst=self.export_sources_folder)
        copy(self, "LICENSE", src=self._tree, dst=self.export_sources_folder)

    def requirements(self):
        self.requires("eigen/[>=3.4 <6]", transitive_headers=True)

    def package_id(self):
        self.info.clear()

    def validate(self):
        check_min_cppstd(self, 20)

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        for pattern in ("*.hpp", "*.inl"):
            copy(
                self,
                pattern,
                src=os.path.join(self.source_folder, "include"),
                dst=os.path.join(self.package_folder, "include"),
            )

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "lockstep")
        self.cpp_info.set_property("cmake_target_name", "lockstep::lockstep")
        # Before 1.0 a new minor version may change the interface.
        self.cpp_info.set_property("cmake_config_version_compat", "SameMinorVersion")
        self.cpp_info.set_property("pkg_config_name", "lockstep")
