// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue pairs: creation and destruction.
 *
 * RC, and the two halves of XRC.  An XRC initiator has only a send queue; an
 * XRC target has no queue at all, belongs to its XRC domain and outlives the
 * process that made it.
 */
#include <linux/mlx4/qp.h>
#include <rdma/mlx4-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "vhca.h"

static bool vhca_has_sq(const struct vhca_qp *qp)
{
	return qp->type != IB_QPT_XRC_TGT;
}

static bool vhca_has_rq(const struct vhca_qp *qp)
{
	return qp->type == IB_QPT_RC && !qp->srq;
}

static int vhca_check_init(const struct ib_qp_init_attr *init)
{
	if (init->create_flags)
		return -EOPNOTSUPP;
	switch (init->qp_type) {
	case IB_QPT_RC:
	case IB_QPT_XRC_INI:
	case IB_QPT_XRC_TGT:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (init->cap.max_send_wr > VHCA_MAX_WR ||
	    init->cap.max_recv_wr > VHCA_MAX_WR ||
	    init->cap.max_send_sge > VHCA_MAX_SGE ||
	    init->cap.max_recv_sge > VHCA_MAX_SGE)
		return -EINVAL;
	return 0;
}

/*
 * libmlx4 allocates the buffer; this repeats its arithmetic.  The receive
 * queue's size goes back to it in @cap, rounded up, and is what it will use.
 */
static int vhca_size_rq(struct vhca_qp *qp, struct ib_qp_cap *cap)
{
	if (!vhca_has_rq(qp))
		return cap->max_recv_wr ? -EINVAL : 0;
	if (!cap->max_recv_wr || !cap->max_recv_sge)
		return -EINVAL;

	qp->rq.wqe_cnt = roundup_pow_of_two(cap->max_recv_wr);
	qp->rq.max_gs = roundup_pow_of_two(cap->max_recv_sge);
	qp->rq.wqe_shift = ilog2(qp->rq.max_gs *
				 sizeof(struct mlx4_wqe_data_seg));
	cap->max_recv_wr = qp->rq.wqe_cnt;
	cap->max_recv_sge = qp->rq.max_gs;
	return 0;
}

static int vhca_size_sq(struct vhca_qp *qp, const struct mlx4_ib_create_qp *cmd)
{
	if (cmd->log_sq_stride < VHCA_SQ_STRIDE_MIN ||
	    cmd->log_sq_stride > VHCA_SQ_STRIDE_MAX ||
	    cmd->log_sq_bb_count > ilog2(VHCA_MAX_WR) + 1)
		return -EINVAL;
	qp->sq.wqe_cnt = 1U << cmd->log_sq_bb_count;
	qp->sq.wqe_shift = cmd->log_sq_stride;
	return 0;
}

/* The queue with the larger descriptors comes first, the send queue on a tie. */
static int vhca_map_queues(struct vhca_qp *qp,
			   const struct mlx4_ib_create_qp *cmd)
{
	size_t sq_len = (size_t)qp->sq.wqe_cnt << qp->sq.wqe_shift;
	size_t rq_len = (size_t)qp->rq.wqe_cnt << qp->rq.wqe_shift;
	int err;

	err = vhca_buf_map(&qp->dev->ibdev, cmd->buf_addr, sq_len + rq_len,
			   &qp->buf);
	if (err)
		return err;
	if (qp->rq.wqe_shift > qp->sq.wqe_shift) {
		qp->rq.base = qp->buf.va;
		qp->sq.base = qp->buf.va + rq_len;
	} else {
		qp->sq.base = qp->buf.va;
		qp->rq.base = qp->buf.va + sq_len;
	}
	if (!vhca_has_rq(qp))
		return 0;

	err = vhca_db_map(qp->uctx, cmd->db_addr, 4, &qp->db);
	if (err)
		vhca_buf_unmap(&qp->buf);
	return err;
}

static int vhca_setup_queues(struct vhca_qp *qp, struct ib_qp_init_attr *init,
			     struct ib_udata *udata)
{
	struct mlx4_ib_create_qp cmd = {};
	int err;

	err = vhca_size_rq(qp, &init->cap);
	if (err || !vhca_has_sq(qp))
		return err;
	err = ib_copy_from_udata(&cmd, udata, min(sizeof(cmd), udata->inlen));
	if (err)
		return err;
	err = vhca_size_sq(qp, &cmd);
	if (err)
		return err;
	qp->uctx = rdma_udata_to_drv_context(udata, struct vhca_uctx, ibuctx);
	return vhca_map_queues(qp, &cmd);
}

static void vhca_release_queues(struct vhca_qp *qp)
{
	if (!qp->uctx)
		return;
	vhca_db_unmap(qp->uctx, &qp->db);
	vhca_buf_unmap(&qp->buf);
}

static int vhca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
			  struct ib_udata *udata)
{
	struct vhca_dev *dev = to_vdev(ibqp->device);
	struct vhca_qp *qp = to_vqp(ibqp);
	u32 number;
	int err;

	err = vhca_check_init(init);
	if (!err)
		err = vhca_cmd(ibqp->device, VHCA_CMD_CREATE_QP);
	if (err)
		return err;

	qp->dev = dev;
	qp->type = init->qp_type;
	qp->sig_type = init->sq_sig_type;
	qp->pd = ibqp->pd;
	qp->xrcd = init->xrcd;
	qp->srq = init->srq ? to_vsrq(init->srq) : NULL;
	qp->send_cq = init->send_cq ? to_vcq(init->send_cq) : NULL;
	qp->recv_cq = init->recv_cq ? to_vcq(init->recv_cq) : NULL;
	mutex_init(&qp->lock);
	INIT_LIST_HEAD(&qp->uctx_link);
	INIT_LIST_HEAD(&qp->run_link);

	err = vhca_setup_queues(qp, init, udata);
	if (err)
		return err;
	err = vhca_table_reserve(&dev->qps, VHCA_MIN_QPN, VHCA_NUM_TAB_SIZE - 1,
				 &number);
	if (err) {
		vhca_release_queues(qp);
		return err;
	}
	qp->qpn = number;
	if (qp->type == IB_QPT_XRC_TGT)
		qp->qpn |= VHCA_XRC_TGT_QPN;
	ibqp->qp_num = qp->qpn;
	qp->attr.qp_state = IB_QPS_RESET;
	qp->attr.cap = init->cap;

	vhca_table_publish(&dev->qps, number, &qp->res);
	if (qp->uctx) {
		mutex_lock(&qp->uctx->lock);
		list_add(&qp->uctx_link, &qp->uctx->qps);
		mutex_unlock(&qp->uctx->lock);
	}
	return 0;
}

/* No doorbell, no message and no run of the engine reaches the QP after this. */
static int vhca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct vhca_qp *qp = to_vqp(ibqp);
	int err;

	err = vhca_cmd(ibqp->device, VHCA_CMD_DESTROY_QP);
	if (err)
		return err;
	if (qp->uctx) {
		mutex_lock(&qp->uctx->lock);
		list_del(&qp->uctx_link);
		mutex_unlock(&qp->uctx->lock);
	}
	vhca_engine_forget(qp);
	vhca_table_remove(&qp->dev->qps, qp->qpn & (VHCA_NUM_TAB_SIZE - 1),
			  &qp->res);
	vhca_release_queues(qp);
	return 0;
}

/* The whole number must match: with and without the XRC bit are not the same. */
struct vhca_qp *vhca_qp_get(struct vhca_dev *dev, u32 qpn)
{
	struct vhca_res *res;
	struct vhca_qp *qp;

	res = vhca_table_get(&dev->qps, qpn & (VHCA_NUM_TAB_SIZE - 1));
	if (!res)
		return NULL;
	qp = container_of(res, struct vhca_qp, res);
	if (qp->qpn != qpn) {
		vhca_res_put(res);
		return NULL;
	}
	return qp;
}

const struct ib_device_ops vhca_qp_ops = {
	.create_qp = vhca_create_qp,
	.destroy_qp = vhca_destroy_qp,
	.modify_qp = vhca_modify_qp,
	.query_qp = vhca_query_qp,

	INIT_RDMA_OBJ_SIZE(ib_qp, vhca_qp, ibqp),
};
