// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue pairs: RC and the two halves of XRC, their states and attributes.
 */
#include "vhca5.h"

static struct vhca5_qp *to_v5qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct vhca5_qp, ibqp);
}

static bool vhca5_type_is_known(enum ib_qp_type type)
{
	return type == IB_QPT_RC || type == IB_QPT_XRC_INI ||
	       type == IB_QPT_XRC_TGT;
}

static int vhca5_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
			   struct ib_udata *udata)
{
	struct vhca5_numbers *numbers = &to_v5dev(ibqp->device)->qps;
	struct mlx5_ib_create_qp_resp resp = {};
	struct vhca5_qp *qp = to_v5qp(ibqp);
	int err;

	if (init->create_flags || !vhca5_type_is_known(init->qp_type))
		return -EOPNOTSUPP;
	if (init->cap.max_send_wr > VHCA5_MAX_WR ||
	    init->cap.max_recv_wr > VHCA5_MAX_WR ||
	    init->cap.max_send_sge > VHCA5_MAX_SGE ||
	    init->cap.max_recv_sge > VHCA5_MAX_SGE)
		return -EINVAL;
	/* An XRC target belongs to no process, so there is none to answer. */
	if (udata) {
		err = ib_copy_to_udata(udata, &resp,
				       min(sizeof(resp), udata->outlen));
		if (err)
			return err;
	}
	err = vhca5_number_take(numbers, &ibqp->qp_num);
	if (err)
		return err;
	mutex_init(&qp->lock);
	qp->type = init->qp_type;
	qp->sig_type = init->sq_sig_type;
	qp->attr.cap = init->cap;
	qp->attr.qp_state = IB_QPS_RESET;
	return 0;
}

static int vhca5_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	vhca5_number_give_back(&to_v5dev(ibqp->device)->qps, ibqp->qp_num);
	return 0;
}

/* What ib_core leaves to the device: the ranges. */
static bool vhca5_attr_in_range(const struct ib_qp_attr *attr, int mask)
{
	if ((mask & IB_QP_PORT) && attr->port_num != 1)
		return false;
	if ((mask & IB_QP_PKEY_INDEX) &&
	    attr->pkey_index >= VHCA5_PKEY_TBL_LEN)
		return false;
	if ((mask & IB_QP_PATH_MTU) &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return false;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) &&
	    attr->max_rd_atomic > VHCA5_MAX_RD_ATOMIC)
		return false;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic > VHCA5_MAX_RD_ATOMIC)
		return false;
	return true;
}

static void vhca5_store_attr(struct ib_qp_attr *to,
			     const struct ib_qp_attr *from, int mask)
{
#define VHCA5_STORE(bit, field)						\
	do {								\
		if (mask & (bit))					\
			to->field = from->field;			\
	} while (0)
	VHCA5_STORE(IB_QP_ACCESS_FLAGS, qp_access_flags);
	VHCA5_STORE(IB_QP_PKEY_INDEX, pkey_index);
	VHCA5_STORE(IB_QP_PORT, port_num);
	VHCA5_STORE(IB_QP_AV, ah_attr);
	VHCA5_STORE(IB_QP_PATH_MTU, path_mtu);
	VHCA5_STORE(IB_QP_TIMEOUT, timeout);
	VHCA5_STORE(IB_QP_RETRY_CNT, retry_cnt);
	VHCA5_STORE(IB_QP_RNR_RETRY, rnr_retry);
	VHCA5_STORE(IB_QP_RQ_PSN, rq_psn);
	VHCA5_STORE(IB_QP_SQ_PSN, sq_psn);
	VHCA5_STORE(IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	VHCA5_STORE(IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	VHCA5_STORE(IB_QP_MIN_RNR_TIMER, min_rnr_timer);
	VHCA5_STORE(IB_QP_DEST_QPN, dest_qp_num);
	VHCA5_STORE(IB_QP_STATE, qp_state);
#undef VHCA5_STORE
	/* ib_core holds the reference that belongs to this pointer. */
	to->ah_attr.grh.sgid_attr = NULL;
}

/* Alternate paths are not modelled. */
static int vhca5_check_modify(const struct vhca5_qp *qp,
			      const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state cur = qp->attr.qp_state;
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : cur;

	if (mask & (~IB_QP_ATTR_STANDARD_BITS | IB_QP_ALT_PATH))
		return -EOPNOTSUPP;
	if ((mask & IB_QP_CUR_STATE) && attr->cur_qp_state != cur)
		return -EINVAL;
	if (!ib_modify_qp_is_ok(cur, next, qp->type, mask) ||
	    !vhca5_attr_in_range(attr, mask))
		return -EINVAL;
	return 0;
}

static int vhca5_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr,
			   int mask, struct ib_udata *udata)
{
	struct vhca5_qp *qp = to_v5qp(ibqp);
	struct ib_qp_cap cap;
	int err;

	mutex_lock(&qp->lock);
	err = vhca5_check_modify(qp, attr, mask);
	if (!err && (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RESET) {
		cap = qp->attr.cap;
		memset(&qp->attr, 0, sizeof(qp->attr));
		qp->attr.cap = cap;
	} else if (!err) {
		vhca5_store_attr(&qp->attr, attr, mask);
	}
	mutex_unlock(&qp->lock);
	return err;
}

static int vhca5_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr,
			  int mask, struct ib_qp_init_attr *init)
{
	struct vhca5_qp *qp = to_v5qp(ibqp);

	mutex_lock(&qp->lock);
	*attr = qp->attr;
	mutex_unlock(&qp->lock);
	attr->cur_qp_state = attr->qp_state;
	init->cap = attr->cap;
	init->sq_sig_type = qp->sig_type;
	return 0;
}

const struct ib_device_ops vhca5_qp_ops = {
	.create_qp = vhca5_create_qp,
	.destroy_qp = vhca5_destroy_qp,
	.modify_qp = vhca5_modify_qp,
	.query_qp = vhca5_query_qp,

	INIT_RDMA_OBJ_SIZE(ib_qp, vhca5_qp, ibqp),
};
