// Functions up to region_end.inl may use FMA, whatever the translation unit's flags: they are only called where the CPU
// has it.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("fma")
#endif
