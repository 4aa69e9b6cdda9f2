// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * User contexts: what libmlx5 is told when it opens the device, and again when
 * it imports a context that another process opened.
 */
#include <rdma/mlx5_user_ioctl_cmds.h>

#define UVERBS_MODULE_NAME vhca5_context
#include <rdma/uverbs_named_ioctl.h>

#include "vhca5.h"

/*
 * No BlueFlame, so libmlx5 takes one doorbell page for everything, and no
 * pages mapped beforehand (tot_bfregs), which an import could not share.
 */
static const struct mlx5_ib_alloc_ucontext_resp vhca5_limits = {
	.qp_tab_size = VHCA5_MAX_OBJECTS,
	.cache_line_size = 64,
	.max_sq_desc_sz = 1024,
	.max_rq_desc_sz = 512,
	.max_send_wqebb = VHCA5_MAX_WR,
	.max_recv_wr = VHCA5_MAX_WR,
	.max_srq_recv_wr = VHCA5_MAX_WR - 1,
	.num_ports = 1,
	.response_length = sizeof(vhca5_limits),
	/* libmlx5 then numbers its QPs itself, as with all current devices. */
	.cqe_version = 1,
	.log_uar_size = PAGE_SHIFT,
	.num_uars_per_page = 1,
};

/* DEVX, the raw command interface, is not there; libmlx5 then asks without. */
static int vhca5_alloc_ucontext(struct ib_ucontext *ibuctx,
				struct ib_udata *udata)
{
	struct mlx5_ib_alloc_ucontext_resp resp = vhca5_limits;
	struct mlx5_ib_alloc_ucontext_req_v2 req = {};
	int err;

	err = ib_copy_from_udata(&req, udata, min(sizeof(req), udata->inlen));
	if (err)
		return err;
	if (req.flags || req.comp_mask || !req.max_cqe_version ||
	    !(req.lib_caps & MLX5_LIB_CAP_DYN_UAR))
		return -EOPNOTSUPP;
	return ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
}

static void vhca5_dealloc_ucontext(struct ib_ucontext *ibuctx)
{
}

/* Its presence tells uverbs that the device can go while handles are open. */
static void vhca5_disassociate_ucontext(struct ib_ucontext *ibuctx)
{
}

static int vhca5_query_ucontext(struct ib_ucontext *ibuctx,
				struct uverbs_attr_bundle *attrs)
{
	return uverbs_copy_to_struct_or_zero(
		attrs, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, &vhca5_limits,
		sizeof(vhca5_limits));
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	vhca5_query_context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX,
			    UVERBS_ATTR_STRUCT(
				    struct mlx5_ib_alloc_ucontext_resp,
				    dump_fill_mkey),
			    UA_MANDATORY));

const struct uapi_definition vhca5_context_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &vhca5_query_context),
	{},
};

const struct ib_device_ops vhca5_context_ops = {
	.alloc_ucontext = vhca5_alloc_ucontext,
	.dealloc_ucontext = vhca5_dealloc_ucontext,
	.disassociate_ucontext = vhca5_disassociate_ucontext,
	.query_ucontext = vhca5_query_ucontext,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, vhca5_uctx, ibuctx),
};
