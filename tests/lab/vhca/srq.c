// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Shared receive queues, basic and XRC.
 *
 * User space keeps its free descriptors in a linked list and posts from the
 * list's head; the hardware follows the same links.  The doorbell record
 * counts what was posted.
 */
/* mlx4/srq.h relies on what mlx4/device.h declares. */
#include <linux/mlx4/device.h>
#include <linux/mlx4/srq.h>
#include <linux/mlx4/qp.h>
#include <rdma/mlx4-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "vhca.h"

static int vhca_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
			   struct ib_udata *udata)
{
	struct vhca_uctx *uctx =
		rdma_udata_to_drv_context(udata, struct vhca_uctx, ibuctx);
	struct vhca_dev *dev = to_vdev(ibsrq->device);
	struct mlx4_ib_create_srq_resp resp = {};
	struct vhca_srq *srq = to_vsrq(ibsrq);
	struct mlx4_ib_create_srq cmd;
	u32 desc;
	int err;

	if (init->srq_type != IB_SRQT_BASIC && init->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	if (init->attr.max_wr >= VHCA_MAX_WR ||
	    init->attr.max_sge > VHCA_MAX_SGE)
		return -EINVAL;
	err = vhca_cmd(ibsrq->device, VHCA_CMD_CREATE_SRQ);
	if (err)
		return err;
	err = ib_copy_from_udata(&cmd, udata, min(sizeof(cmd), udata->inlen));
	if (err)
		return err;

	/* The same arithmetic as in libmlx4, which allocated the queue. */
	srq->uctx = uctx;
	srq->wqe_cnt = roundup_pow_of_two(init->attr.max_wr + 1);
	srq->max_gs = init->attr.max_sge;
	desc = sizeof(struct mlx4_wqe_srq_next_seg) +
	       srq->max_gs * sizeof(struct mlx4_wqe_data_seg);
	srq->wqe_shift = ilog2(roundup_pow_of_two(max(desc, 32U)));
	err = vhca_buf_map(ibsrq->device, cmd.buf_addr,
			   (size_t)srq->wqe_cnt << srq->wqe_shift, &srq->buf);
	if (err)
		return err;
	err = vhca_db_map(uctx, cmd.db_addr, 4, &srq->db);
	if (err)
		goto err_buf;
	err = vhca_table_reserve(&dev->srqs, 1, VHCA_NUM_TAB_SIZE - 1,
				 &srq->srqn);
	if (err)
		goto err_db;
	resp.srqn = srq->srqn;
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err)
		goto err_number;

	if (init->srq_type == IB_SRQT_XRC)
		ibsrq->ext.xrc.srq_num = srq->srqn;
	init->attr.max_wr = srq->wqe_cnt - 1;
	vhca_table_publish(&dev->srqs, srq->srqn, &srq->res);
	return 0;

err_number:
	vhca_table_release(&dev->srqs, srq->srqn);
err_db:
	vhca_db_unmap(uctx, &srq->db);
err_buf:
	vhca_buf_unmap(&srq->buf);
	return err;
}

static int vhca_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct vhca_srq *srq = to_vsrq(ibsrq);
	int err;

	err = vhca_cmd(ibsrq->device, VHCA_CMD_DESTROY_SRQ);
	if (err)
		return err;
	vhca_table_remove(&to_vdev(ibsrq->device)->srqs, srq->srqn, &srq->res);
	vhca_db_unmap(srq->uctx, &srq->db);
	vhca_buf_unmap(&srq->buf);
	return 0;
}

static int vhca_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
			   enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct vhca_srq *srq = to_vsrq(ibsrq);
	int err;

	err = vhca_cmd(ibsrq->device, VHCA_CMD_MODIFY_SRQ);
	if (err)
		return err;
	if (mask & ~IB_SRQ_LIMIT)
		return -EINVAL;
	if (mask & IB_SRQ_LIMIT) {
		if (attr->srq_limit >= srq->wqe_cnt)
			return -EINVAL;
		WRITE_ONCE(srq->limit, attr->srq_limit);
	}
	return 0;
}

static int vhca_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct vhca_srq *srq = to_vsrq(ibsrq);
	int err;

	err = vhca_cmd(ibsrq->device, VHCA_CMD_QUERY_SRQ);
	if (err)
		return err;
	attr->max_wr = srq->wqe_cnt - 1;
	attr->max_sge = srq->max_gs;
	attr->srq_limit = READ_ONCE(srq->limit);
	return 0;
}

struct vhca_srq *vhca_srq_get(struct vhca_dev *dev, u32 srqn)
{
	struct vhca_res *res = vhca_table_get(&dev->srqs, srqn);

	return res ? container_of(res, struct vhca_srq, res) : NULL;
}

/* The limit is a one-shot, armed by each modify. */
static void vhca_srq_check_limit(struct vhca_srq *srq, u16 left)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.element.srq = &srq->ibsrq,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
	};
	u32 limit = READ_ONCE(srq->limit);

	if (left >= limit || cmpxchg(&srq->limit, limit, 0) != limit)
		return;
	srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

/*
 * Takes the next posted descriptor, if there is one, into @wqe.  A link that
 * user space has spoilt leads somewhere else in its own queue, no further.
 */
bool vhca_srq_pop(struct vhca_srq *srq, void *wqe, u16 *index)
{
	u16 posted = be32_to_cpu(READ_ONCE(*srq->db.rec));
	struct mlx4_wqe_srq_next_seg *next = wqe;

	if (posted == srq->consumed)
		return false;
	/* The descriptor was written before the counter. */
	smp_rmb();
	memcpy(wqe, srq->buf.va + (srq->head << srq->wqe_shift),
	       1U << srq->wqe_shift);
	*index = srq->head;
	srq->head = be16_to_cpu(next->next_wqe_index) & (srq->wqe_cnt - 1);
	srq->consumed++;
	vhca_srq_check_limit(srq, posted - srq->consumed);
	return true;
}

const struct ib_device_ops vhca_srq_ops = {
	.create_srq = vhca_create_srq,
	.destroy_srq = vhca_destroy_srq,
	.modify_srq = vhca_modify_srq,
	.query_srq = vhca_query_srq,

	INIT_RDMA_OBJ_SIZE(ib_srq, vhca_srq, ibsrq),
};
