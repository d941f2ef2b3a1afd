// One function per concept; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace segmax::bindings {

void register_build(nanobind::module_& module);
void register_index(nanobind::module_& module);
void register_io(nanobind::module_& module);
void register_masks(nanobind::module_& module);
void register_parts(nanobind::module_& module);
void register_router(nanobind::module_& module);
void register_search(nanobind::module_& module);
void register_words(nanobind::module_& module);

}  // namespace segmax::bindings
