// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Protection domains, XRC domains, completion queues and shared receive
 * queues: numbers and limits.  ib_core counts who uses them.
 */
#include <linux/atomic.h>

#include "vhca5.h"

static int vhca5_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	static atomic_t next_pdn;
	struct mlx5_ib_alloc_pd_resp resp = {
		.pdn = atomic_inc_return(&next_pdn) & 0xffffff,
	};

	return ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
}

static int vhca5_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return 0;
}

static int vhca5_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	return 0;
}

static int vhca5_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	return 0;
}

static struct vhca5_cq *to_v5cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct vhca5_cq, ibcq);
}

static int vhca5_create_cq(struct ib_cq *ibcq,
			   const struct ib_cq_init_attr *attr,
			   struct ib_udata *udata)
{
	struct vhca5_numbers *numbers = &to_v5dev(ibcq->device)->cqs;
	struct mlx5_ib_create_cq_resp resp = {};
	struct vhca5_cq *cq = to_v5cq(ibcq);
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > VHCA5_MAX_CQE)
		return -EINVAL;
	err = vhca5_number_take(numbers, &cq->cqn);
	if (err)
		return err;
	resp.cqn = cq->cqn;
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err) {
		vhca5_number_give_back(numbers, cq->cqn);
		return err;
	}
	/* The same arithmetic as in libmlx5, which allocated the queue. */
	ibcq->cqe = roundup_pow_of_two(attr->cqe + 1) - 1;
	return 0;
}

static int vhca5_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	vhca5_number_give_back(&to_v5dev(ibcq->device)->cqs,
			       to_v5cq(ibcq)->cqn);
	return 0;
}

static struct vhca5_srq *to_v5srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct vhca5_srq, ibsrq);
}

static int vhca5_create_srq(struct ib_srq *ibsrq,
			    struct ib_srq_init_attr *init,
			    struct ib_udata *udata)
{
	struct vhca5_numbers *numbers = &to_v5dev(ibsrq->device)->srqs;
	struct mlx5_ib_create_srq_resp resp = {};
	struct vhca5_srq *srq = to_v5srq(ibsrq);
	int err;

	if (init->srq_type != IB_SRQT_BASIC && init->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	if (init->attr.max_wr >= VHCA5_MAX_WR ||
	    init->attr.max_sge > VHCA5_MAX_SGE)
		return -EINVAL;
	err = vhca5_number_take(numbers, &srq->srqn);
	if (err)
		return err;
	resp.srqn = srq->srqn;
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err) {
		vhca5_number_give_back(numbers, srq->srqn);
		return err;
	}
	srq->attr = init->attr;
	if (init->srq_type == IB_SRQT_XRC)
		ibsrq->ext.xrc.srq_num = srq->srqn;
	return 0;
}

static int vhca5_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	vhca5_number_give_back(&to_v5dev(ibsrq->device)->srqs,
			       to_v5srq(ibsrq)->srqn);
	return 0;
}

static int vhca5_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	*attr = to_v5srq(ibsrq)->attr;
	return 0;
}

const struct ib_device_ops vhca5_object_ops = {
	.alloc_pd = vhca5_alloc_pd,
	.dealloc_pd = vhca5_dealloc_pd,
	.alloc_xrcd = vhca5_alloc_xrcd,
	.dealloc_xrcd = vhca5_dealloc_xrcd,
	.create_cq = vhca5_create_cq,
	.destroy_cq = vhca5_destroy_cq,
	.create_srq = vhca5_create_srq,
	.destroy_srq = vhca5_destroy_srq,
	.query_srq = vhca5_query_srq,

	INIT_RDMA_OBJ_SIZE(ib_pd, vhca5_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, vhca5_xrcd, ibxrcd),
	INIT_RDMA_OBJ_SIZE(ib_cq, vhca5_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_srq, vhca5_srq, ibsrq),
};
