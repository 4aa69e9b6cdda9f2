/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * vhca5: the control path of a virtual HCA that speaks the user ABI of mlx5.
 *
 * The stock libmlx5 opens it, and makes and destroys its objects: that is what
 * a program needs which wants to know how libmlx5 treats shared QPs.  There is
 * no data path.  Queues and doorbells in user memory are neither mapped nor
 * read, and there are no memory regions: a program that wants to move data is
 * refused when it registers its buffer, and does not hang later on.
 *
 * Locks: qp->lock guards the attributes of a QP; numbers come from an xarray,
 * which locks itself.  Nothing nests.
 */
#ifndef VHCA5_H
#define VHCA5_H

#include <linux/mutex.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/uverbs_ioctl.h>

#define VHCA5_PKEY_TBL_LEN	2
#define VHCA5_GID_TBL_LEN	1
#define VHCA5_MAX_RD_ATOMIC	16
#define VHCA5_MAX_OBJECTS	4096
#define VHCA5_MAX_WR		16384
#define VHCA5_MAX_SGE		30
#define VHCA5_MAX_CQE		((1 << 22) - 1)

/* Numbers of one kind of object. */
struct vhca5_numbers {
	struct xarray		used;
	u32			next;
};

struct vhca5_dev {
	struct ib_device	ibdev;
	struct vhca5_numbers	cqs;
	struct vhca5_numbers	srqs;
	struct vhca5_numbers	qps;
};

struct vhca5_uctx {
	struct ib_ucontext	ibuctx;
};

struct vhca5_pd {
	struct ib_pd		ibpd;
};

struct vhca5_xrcd {
	struct ib_xrcd		ibxrcd;
};

struct vhca5_cq {
	struct ib_cq		ibcq;
	u32			cqn;
};

struct vhca5_srq {
	struct ib_srq		ibsrq;
	u32			srqn;
	struct ib_srq_attr	attr;
};

struct vhca5_qp {
	struct ib_qp		ibqp;
	/* An own copy: ib_core sets its one only after create_qp. */
	enum ib_qp_type		type;
	enum ib_sig_type	sig_type;
	struct mutex		lock;
	struct ib_qp_attr	attr;
};

static inline struct vhca5_dev *to_v5dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct vhca5_dev, ibdev);
}

/* main.c */
int vhca5_number_take(struct vhca5_numbers *numbers, u32 *number);
void vhca5_number_give_back(struct vhca5_numbers *numbers, u32 number);

/* context.c */
extern const struct ib_device_ops vhca5_context_ops;
extern const struct uapi_definition vhca5_context_defs[];

/* uar.c */
extern const struct ib_device_ops vhca5_uar_ops;
extern const struct uapi_definition vhca5_uar_defs[];

/* objects.c */
extern const struct ib_device_ops vhca5_object_ops;

/* qp.c */
extern const struct ib_device_ops vhca5_qp_ops;

#endif
