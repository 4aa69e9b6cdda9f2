// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue pairs: attributes and states.
 */
#include "vhca.h"

#define VHCA_PSN_MASK	0xffffff

/* What ib_core leaves to the device: the ranges. */
static bool vhca_attr_in_range(const struct vhca_qp *qp,
			       const struct ib_qp_attr *attr, int mask)
{
	if ((mask & IB_QP_PORT) &&
	    (!attr->port_num || attr->port_num > qp->dev->nports))
		return false;
	if ((mask & IB_QP_PKEY_INDEX) && attr->pkey_index >= VHCA_PKEY_TBL_LEN)
		return false;
	if ((mask & IB_QP_PATH_MTU) &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return false;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) &&
	    attr->max_rd_atomic > VHCA_MAX_RD_ATOMIC)
		return false;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic > VHCA_MAX_RD_ATOMIC)
		return false;
	if ((mask & IB_QP_TIMEOUT) && attr->timeout > 31)
		return false;
	if ((mask & IB_QP_RETRY_CNT) && attr->retry_cnt > 7)
		return false;
	if ((mask & IB_QP_RNR_RETRY) && attr->rnr_retry > 7)
		return false;
	if ((mask & IB_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return false;
	return true;
}

/* libmlx4 starts at index 0 again too, and empties the CQs of old entries. */
static void vhca_qp_reset(struct vhca_qp *qp)
{
	struct ib_qp_cap cap = qp->attr.cap;

	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->attr.cap = cap;
	qp->attr.qp_state = IB_QPS_RESET;
	qp->sq_live = false;
	qp->sq.head = 0;
	qp->rq.head = 0;
	qp->sq_psn = 0;
	qp->rq_psn = 0;
	qp->retries = 0;
	qp->rnr_retries = 0;
	qp->retry_at = 0;
}

static void vhca_store_attr(struct vhca_qp *qp, const struct ib_qp_attr *attr,
			    int mask)
{
	struct ib_qp_attr *to = &qp->attr;

#define VHCA_STORE(bit, field)						\
	do {								\
		if (mask & (bit))					\
			to->field = attr->field;			\
	} while (0)
	VHCA_STORE(IB_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	VHCA_STORE(IB_QP_ACCESS_FLAGS, qp_access_flags);
	VHCA_STORE(IB_QP_PKEY_INDEX, pkey_index);
	VHCA_STORE(IB_QP_PORT, port_num);
	VHCA_STORE(IB_QP_QKEY, qkey);
	VHCA_STORE(IB_QP_AV, ah_attr);
	VHCA_STORE(IB_QP_PATH_MTU, path_mtu);
	VHCA_STORE(IB_QP_TIMEOUT, timeout);
	VHCA_STORE(IB_QP_RETRY_CNT, retry_cnt);
	VHCA_STORE(IB_QP_RNR_RETRY, rnr_retry);
	VHCA_STORE(IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	VHCA_STORE(IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	VHCA_STORE(IB_QP_MIN_RNR_TIMER, min_rnr_timer);
	VHCA_STORE(IB_QP_DEST_QPN, dest_qp_num);
	VHCA_STORE(IB_QP_PATH_MIG_STATE, path_mig_state);
#undef VHCA_STORE
	/* ib_core holds the reference that belongs to this pointer. */
	to->ah_attr.grh.sgid_attr = NULL;
	if (mask & IB_QP_RQ_PSN)
		qp->rq_psn = attr->rq_psn & VHCA_PSN_MASK;
	if (mask & IB_QP_SQ_PSN)
		qp->sq_psn = attr->sq_psn & VHCA_PSN_MASK;
}

/* Alternate paths are accepted by the state table but not modelled. */
static int vhca_check_modify(const struct vhca_qp *qp,
			     const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state cur = qp->attr.qp_state;
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : cur;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (mask & IB_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if ((mask & IB_QP_CUR_STATE) && attr->cur_qp_state != cur)
		return -EINVAL;
	if (!ib_modify_qp_is_ok(cur, next, qp->type, mask) ||
	    !vhca_attr_in_range(qp, attr, mask))
		return -EINVAL;
	return 0;
}

int vhca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	int err;

	err = vhca_cmd(ibqp->device, VHCA_CMD_MODIFY_QP);
	if (err)
		return err;
	mutex_lock(&qp->lock);
	err = vhca_check_modify(qp, attr, mask);
	if (err)
		goto unlock;

	vhca_store_attr(qp, attr, mask);
	if (!(mask & IB_QP_STATE))
		goto unlock;
	switch (attr->qp_state) {
	case IB_QPS_RESET:
		vhca_qp_reset(qp);
		break;
	case IB_QPS_ERR:
		vhca_qp_set_error(qp);
		break;
	default:
		qp->attr.qp_state = attr->qp_state;
		qp->sq_live = true;
		/* Sends may have been posted while the QP could not send. */
		vhca_engine_kick(qp);
	}
unlock:
	mutex_unlock(&qp->lock);
	return err;
}

/* PSNs are the next ones to use, as hardware reports them, not the first. */
int vhca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	int err;

	err = vhca_cmd(ibqp->device, VHCA_CMD_QUERY_QP);
	if (err)
		return err;
	mutex_lock(&qp->lock);
	*attr = qp->attr;
	attr->cur_qp_state = qp->attr.qp_state;
	attr->sq_psn = qp->sq_psn;
	attr->rq_psn = qp->rq_psn;
	mutex_unlock(&qp->lock);

	init->cap = attr->cap;
	init->sq_sig_type = qp->sig_type;
	return 0;
}

/*
 * Called with qp->lock held.  What is queued is flushed by the engine; a QP
 * on a shared queue tells by an event that it will take nothing more from it.
 */
void vhca_qp_set_error(struct vhca_qp *qp)
{
	if (qp->attr.qp_state == IB_QPS_ERR)
		return;
	qp->attr.qp_state = IB_QPS_ERR;
	qp->retry_at = 0;
	vhca_engine_kick(qp);
	if (qp->srq)
		vhca_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

/*
 * For an XRC target QP, ib_core passes this on to the handles on the QP that
 * have a handler, which is the creating one only.
 */
void vhca_qp_event(struct vhca_qp *qp, enum ib_event_type event)
{
	struct ib_event ib_event = {
		.device = &qp->dev->ibdev,
		.element.qp = &qp->ibqp,
		.event = event,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&ib_event, qp->ibqp.qp_context);
}
