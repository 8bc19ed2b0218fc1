// Pinocchio's C++ algorithms behind a C interface: a model from plain arrays, each algorithm repeated inside this file.
//
// Header-only: no library of Pinocchio is linked, so that native instructions may be asked for (the alignment of Eigen's types
// would differ from that of a library built without them). One handle serves one thread. ORACLE_QUICK: inverse dynamics and its
// derivatives only, axes always general, which compiles in a third of the time.

// The collection of joints has no mimic joint, for which Pinocchio asks whatever the collection.
#define BOOST_VARIANT_USE_RELAXED_GET_BY_DEFAULT

#include <Eigen/Core>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pinocchio/multibody.hpp"
#ifndef ORACLE_QUICK
#include "pinocchio/algorithm/aba-derivatives.hpp"
#include "pinocchio/algorithm/aba.hpp"
#include "pinocchio/algorithm/crba.hpp"
#endif
#include "pinocchio/algorithm/rnea-derivatives.hpp"
#include "pinocchio/algorithm/rnea-second-order-derivatives.hpp"
#include "pinocchio/algorithm/rnea.hpp"

namespace pin = pinocchio;
using Vector = Eigen::VectorXd;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

// The joints that are needed here: compiling for all of Pinocchio's takes twice as long and runs no faster.
template <typename S, int O>
struct Joints {
  typedef S Scalar;
  static constexpr int Options = O;
#ifdef ORACLE_QUICK
  typedef boost::variant<
    pin::JointModelRevoluteUnalignedTpl<S, O>, pin::JointModelRevoluteUnboundedUnalignedTpl<S, O>,
    pin::JointModelPrismaticUnalignedTpl<S, O>, pin::JointModelSphericalTpl<S, O>, pin::JointModelPlanarTpl<S, O>,
    pin::JointModelFreeFlyerTpl<S, O>> JointModelVariant;
  typedef boost::variant<
    pin::JointDataRevoluteUnalignedTpl<S, O>, pin::JointDataRevoluteUnboundedUnalignedTpl<S, O>,
    pin::JointDataPrismaticUnalignedTpl<S, O>, pin::JointDataSphericalTpl<S, O>, pin::JointDataPlanarTpl<S, O>,
    pin::JointDataFreeFlyerTpl<S, O>> JointDataVariant;
#else
  typedef boost::variant<
    pin::JointModelRevoluteTpl<S, O, 0>, pin::JointModelRevoluteTpl<S, O, 1>, pin::JointModelRevoluteTpl<S, O, 2>,
    pin::JointModelFreeFlyerTpl<S, O>, pin::JointModelPlanarTpl<S, O>, pin::JointModelRevoluteUnalignedTpl<S, O>,
    pin::JointModelSphericalTpl<S, O>, pin::JointModelPrismaticTpl<S, O, 0>, pin::JointModelPrismaticTpl<S, O, 1>,
    pin::JointModelPrismaticTpl<S, O, 2>, pin::JointModelPrismaticUnalignedTpl<S, O>,
    pin::JointModelRevoluteUnboundedTpl<S, O, 0>, pin::JointModelRevoluteUnboundedTpl<S, O, 1>,
    pin::JointModelRevoluteUnboundedTpl<S, O, 2>, pin::JointModelRevoluteUnboundedUnalignedTpl<S, O>> JointModelVariant;
  typedef boost::variant<
    pin::JointDataRevoluteTpl<S, O, 0>, pin::JointDataRevoluteTpl<S, O, 1>, pin::JointDataRevoluteTpl<S, O, 2>,
    pin::JointDataFreeFlyerTpl<S, O>, pin::JointDataPlanarTpl<S, O>, pin::JointDataRevoluteUnalignedTpl<S, O>,
    pin::JointDataSphericalTpl<S, O>, pin::JointDataPrismaticTpl<S, O, 0>, pin::JointDataPrismaticTpl<S, O, 1>,
    pin::JointDataPrismaticTpl<S, O, 2>, pin::JointDataPrismaticUnalignedTpl<S, O>,
    pin::JointDataRevoluteUnboundedTpl<S, O, 0>, pin::JointDataRevoluteUnboundedTpl<S, O, 1>,
    pin::JointDataRevoluteUnboundedTpl<S, O, 2>, pin::JointDataRevoluteUnboundedUnalignedTpl<S, O>> JointDataVariant;
#endif
};

using Model = pin::ModelTpl<double, 0, Joints>;
using Data = pin::DataTpl<double, 0, Joints>;
using JointModel = pin::JointModelTpl<double, 0, Joints>;

struct Robot {
  Model model;
  std::unique_ptr<Data> data;
  Vector q, v, x;
};

std::string fault;

// the same choice of specialised joint types as Pinocchio's own URDF reader
JointModel about(const Eigen::Vector3d & axis, bool turns, bool unbounded) {
#ifndef ORACLE_QUICK
  const bool x = axis == Eigen::Vector3d::UnitX(), y = axis == Eigen::Vector3d::UnitY(), z = axis == Eigen::Vector3d::UnitZ();
  if (!turns) {
    if (x) return pin::JointModelPX();
    if (y) return pin::JointModelPY();
    if (z) return pin::JointModelPZ();
  } else if (unbounded) {
    if (x) return pin::JointModelRUBX();
    if (y) return pin::JointModelRUBY();
    if (z) return pin::JointModelRUBZ();
  } else {
    if (x) return pin::JointModelRX();
    if (y) return pin::JointModelRY();
    if (z) return pin::JointModelRZ();
  }
#endif
  if (!turns) return pin::JointModelPrismaticUnaligned(axis);
  if (unbounded) return pin::JointModelRevoluteUnboundedUnaligned(axis);
  return pin::JointModelRevoluteUnaligned(axis);
}

JointModel joint_of(int kind, const Eigen::Vector3d & axis) {
  switch (kind) {
  case 1: return about(axis, true, false);
  case 2: return about(axis, true, true);
  case 3: return about(axis, false, false);
  case 4: return pin::JointModelSpherical();
  case 5: return pin::JointModelPlanar();
  case 7: return pin::JointModelFreeFlyer();
  default: throw std::invalid_argument("unknown kind of joint: " + std::to_string(kind));
  }
}

// keeps the compiler from merging repetitions
inline void again() { asm volatile("" ::: "memory"); }

void load(Robot & r, const double * q, const double * v, const double * x) {
  r.q = Eigen::Map<const Vector>(q, r.model.nq);
  r.v = Eigen::Map<const Vector>(v, r.model.nv);
  r.x = Eigen::Map<const Vector>(x, r.model.nv);
}

template <typename Matrix>
void save(double * & out, const Matrix & matrix) {
  Eigen::Map<RowMatrix>(out, matrix.rows(), matrix.cols()) = matrix;
  out += matrix.size();
}

// M and its inverse are written in their upper triangles only
template <typename Matrix>
void save_symmetric(double * & out, const Matrix & matrix) {
  RowMatrix full = matrix.template triangularView<Eigen::Upper>();
  full.template triangularView<Eigen::StrictlyLower>() = full.transpose();
  save(out, full);
}

void save_tensors(double * out, const Data & d) {
  for (const auto * tensor : {&d.d2tau_dqdq, &d.d2tau_dvdv, &d.d2tau_dqdv, &d.d2tau_dadq}) {
    std::memcpy(out, tensor->data(), tensor->size() * sizeof(double));
    out += tensor->size();
  }
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

const char * oracle_fault() { return fault.c_str(); }

const char * oracle_version() { return PINOCCHIO_VERSION; }

// n bodies, a parent (-1: the world) before its children. kind: 0 welded, else as in joint_of; placement [n, 12]: rotation by
// rows, then origin; axis [n, 3]; inertia [n, 10]: mass, centre of mass, inertia about it as xx xy yy xz yz zz; armature [nv].
void * oracle_make(int n, const int * kind, const int * parent, const double * placement, const double * axis,
                   const double * inertia, const double * gravity, const double * armature) {
  try {
    auto r = std::make_unique<Robot>();
    std::vector<pin::JointIndex> carrier(n);
    std::vector<pin::SE3> at(n);
    r->model.gravity = pin::Motion(Eigen::Map<const Eigen::Vector3d>(gravity), Eigen::Vector3d::Zero());
    for (int i = 0; i < n; ++i) {
      const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> rotation(placement + 12 * i);
      const Eigen::Map<const Eigen::Vector3d> origin(placement + 12 * i + 9);
      pin::SE3 here(rotation, origin);
      const pin::JointIndex below = parent[i] < 0 ? 0 : carrier[parent[i]];
      if (parent[i] >= 0) here = at[parent[i]] * here;
      if (kind[i] == 0) {
        carrier[i] = below;
        at[i] = here;
      } else {
        const JointModel joint = joint_of(kind[i], Eigen::Map<const Eigen::Vector3d>(axis + 3 * i));
        carrier[i] = r->model.addJoint(below, joint, here, "j" + std::to_string(i));
        at[i].setIdentity();
      }
      const double * y = inertia + 10 * i;
      const pin::Inertia body(y[0], Eigen::Vector3d(y[1], y[2], y[3]), pin::Symmetric3(y[4], y[5], y[6], y[7], y[8], y[9]));
      r->model.appendBodyToJoint(carrier[i], body, at[i]);
    }
    r->model.armature = Eigen::Map<const Vector>(armature, r->model.nv);
    r->data = std::make_unique<Data>(r->model);
    return r.release();
  } catch (const std::exception & error) {
    fault = error.what();
    return nullptr;
  }
}

void oracle_free(void * handle) { delete static_cast<Robot *>(handle); }

int oracle_nq(void * handle) { return static_cast<Robot *>(handle)->model.nq; }

int oracle_nv(void * handle) { return static_cast<Robot *>(handle)->model.nv; }

// Each runs ``count`` times at one state; ``out`` may be null. Results are row-major, tensors column-major.
#define ORACLE(name, call, results)                                                                         \
  void oracle_##name(void * handle, long count, const double * q, const double * v, const double * x, double * out) { \
    Robot & r = *static_cast<Robot *>(handle);                                                              \
    Data & d = *r.data;                                                                                \
    load(r, q, v, x);                                                                                       \
    for (long k = 0; k < count; ++k) {                                                                      \
      call;                                                                                                 \
      again();                                                                                              \
    }                                                                                                       \
    if (out) { results; }                                                                                   \
  }

ORACLE(rnea, pin::rnea(r.model, d, r.q, r.v, r.x), save(out, d.tau))
#ifndef ORACLE_QUICK
ORACLE(crba, pin::crba(r.model, d, r.q), save_symmetric(out, d.M))
ORACLE(aba, pin::aba(r.model, d, r.q, r.v, r.x), save(out, d.ddq))
#endif
ORACLE(rnea_derivatives, pin::computeRNEADerivatives(r.model, d, r.q, r.v, r.x),
       (save(out, d.dtau_dq), save(out, d.dtau_dv), save_symmetric(out, d.M)))
#ifndef ORACLE_QUICK
ORACLE(aba_derivatives, pin::computeABADerivatives(r.model, d, r.q, r.v, r.x),
       (save(out, d.ddq_dq), save(out, d.ddq_dv), save_symmetric(out, d.Minv)))
#endif
// zeroes its tensors each time
ORACLE(second_order, pin::ComputeRNEASecondOrderDerivatives(r.model, d, r.q, r.v, r.x), save_tensors(out, d))
// writes into tensors that stay as they are where the tree has structural zeros
ORACLE(second_order_unzeroed,
       pin::ComputeRNEASecondOrderDerivatives(
         r.model, d, r.q, r.v, r.x, d.d2tau_dqdq, d.d2tau_dvdv, d.d2tau_dqdv, d.d2tau_dadq),
       save_tensors(out, d))

} // extern "C"
#pragma GCC visibility pop
