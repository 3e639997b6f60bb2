// Everything but the executor on Eigen's thread pool, whose header is heavy: include lockstep/executor/thread_pool.hpp
// for that.
#pragma once

#include "lockstep/attend.hpp"
#include "lockstep/attend/partial.hpp"
#include "lockstep/attention.hpp"
#include "lockstep/bias/distance.hpp"
#include "lockstep/cache/model_cache.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"
#include "lockstep/cache/save.hpp"
#include "lockstep/executor/hook.hpp"
#include "lockstep/heads/repeated.hpp"
#include "lockstep/kernel/materialized.hpp"
#include "lockstep/kernel/specification.hpp"
#include "lockstep/logit/soft_cap.hpp"
#include "lockstep/mask/array.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/norm/qk_norm.hpp"
#include "lockstep/position/rope.hpp"
#include "lockstep/position/scaling.hpp"
#include "lockstep/sinks/learned.hpp"
#include "lockstep/version.hpp"
