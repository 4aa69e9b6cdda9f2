// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The receiving side: finds the QP that a request is for, checks it, and
 * executes it in the memory of the process behind.
 *
 * For XRC the target QP is only the way in.  The request names an SRQ, and
 * that SRQ's protection domain is what its memory accesses are checked
 * against; its CQ gets the completion.
 */
#include <linux/mlx4/cq.h>
#include <linux/mlx4/qp.h>
#include <linux/mlx4/srq.h>

#include "vhca.h"

/* The largest receive descriptor: that of an SRQ with VHCA_MAX_SGE entries. */
#define VHCA_MAX_RECV_DESC	1024

/* Who receives a request. */
struct vhca_sink {
	struct vhca_qp	*qp;
	struct vhca_srq	*srq;
	struct ib_pd	*pd;
	struct vhca_cq	*cq;
	u32		peer;
	u16		slid;
};

/* Working memory of the engine, too large for its stack. */
static struct {
	u8		wqe[VHCA_MAX_RECV_DESC] __aligned(64);
	struct vhca_sgl	target;
	struct vhca_sgl	result;
} work;

static u16 vhca_qp_lid(const struct vhca_qp *qp)
{
	return qp->dev->ports[qp->attr.port_num - 1].lid;
}

static bool vhca_same_partition(const struct vhca_qp *a, const struct vhca_qp *b)
{
	return !((vhca_pkey(a->attr.pkey_index) ^
		  vhca_pkey(b->attr.pkey_index)) & 0x7fff);
}

/*
 * What makes real hardware drop a packet without an answer.  A wrong PSN is
 * among it: the first one after connecting must be the one that was agreed.
 */
static bool vhca_accepts(const struct vhca_qp *qp, const struct vhca_qp *from)
{
	switch (qp->attr.qp_state) {
	case IB_QPS_RTR:
	case IB_QPS_RTS:
	case IB_QPS_SQD:
		break;
	default:
		return false;
	}
	if (qp->type != (from->type == IB_QPT_RC ? IB_QPT_RC : IB_QPT_XRC_TGT))
		return false;
	return qp->rq_psn == from->sq_psn && vhca_same_partition(qp, from) &&
	       rdma_ah_get_dlid(&qp->attr.ah_attr) == vhca_qp_lid(from) &&
	       rdma_ah_get_dlid(&from->attr.ah_attr) == vhca_qp_lid(qp);
}

static void vhca_nak(struct vhca_answer *answer, u8 syndrome)
{
	answer->verdict = VHCA_NAK;
	answer->syndrome = syndrome;
}

/* A violation by the peer: the responder's owner hears of it as an event. */
static void vhca_violation(struct vhca_sink *sink, struct vhca_answer *answer,
			   enum ib_event_type event, u8 syndrome)
{
	vhca_qp_set_error(sink->qp);
	vhca_qp_event(sink->qp, event);
	vhca_nak(answer, syndrome);
}

static bool vhca_rq_pop(struct vhca_qp *qp, void *wqe, u16 *index)
{
	struct vhca_wq *rq = &qp->rq;
	u16 posted;

	if (!rq->wqe_cnt)
		return false;
	posted = be32_to_cpu(READ_ONCE(*qp->db.rec));
	if (posted == (u16)rq->head)
		return false;
	/* The descriptor was written before the counter. */
	smp_rmb();
	memcpy(wqe, rq->base + ((rq->head & (rq->wqe_cnt - 1)) << rq->wqe_shift),
	       1U << rq->wqe_shift);
	*index = rq->head++;
	return true;
}

/* The scatter list of the descriptor in work.wqe, ended by a special key. */
static bool vhca_parse_recv(struct ib_pd *pd, u32 off, u32 max_gs)
{
	struct mlx4_wqe_data_seg *seg = (void *)work.wqe + off;
	u32 i, key;

	for (i = 0; i < max_gs; i++, seg++) {
		key = be32_to_cpu(seg->lkey);
		if (key == MLX4_INVALID_LKEY)
			break;
		if (!vhca_sgl_add(&work.target, pd, key, be64_to_cpu(seg->addr),
				  be32_to_cpu(seg->byte_count),
				  IB_ACCESS_LOCAL_WRITE))
			return false;
	}
	return true;
}

static void vhca_complete_recv(struct vhca_sink *sink,
			       const struct vhca_req *req, u8 opcode, u16 index,
			       u8 syndrome)
{
	bool xrc = sink->qp->type == IB_QPT_XRC_TGT;
	struct mlx4_cqe cqe = {
		.vlan_my_qpn = cpu_to_be32(sink->qp->qpn),
		.immed_rss_invalid = req->imm,
		.g_mlpath_rqpn = cpu_to_be32(xrc ? sink->srq->srqn :
						   sink->peer),
		.sl_vid = cpu_to_be16(rdma_ah_get_sl(&sink->qp->attr.ah_attr)
				      << 12),
		.rlid = cpu_to_be16(sink->slid),
		.byte_cnt = cpu_to_be32(req->local.len),
		.wqe_index = cpu_to_be16(index),
		.owner_sr_opcode = opcode,
	};

	if (syndrome)
		vhca_cqe_set_error(&cqe, syndrome);
	vhca_cq_push(sink->cq, &cqe, req->solicited || syndrome);
}

/* Takes a receive descriptor; if there is none, the requester tries again. */
static bool vhca_take_recv(struct vhca_sink *sink, struct vhca_answer *answer,
			   u16 *index)
{
	bool found;

	if (sink->srq)
		found = vhca_srq_pop(sink->srq, work.wqe, index);
	else
		found = vhca_rq_pop(sink->qp, work.wqe, index);
	if (!found) {
		answer->verdict = VHCA_RNR;
		answer->rnr_timer = sink->qp->attr.min_rnr_timer;
	}
	return found;
}

static void vhca_do_send(struct vhca_sink *sink, struct vhca_req *req,
			 struct vhca_answer *answer)
{
	u8 opcode = req->opcode == MLX4_OPCODE_SEND_IMM ?
		    MLX4_RECV_OPCODE_SEND_IMM : MLX4_RECV_OPCODE_SEND;
	u8 syndrome = 0;
	bool ok;
	u16 index;

	if (!vhca_take_recv(sink, answer, &index))
		return;

	vhca_sgl_init(&work.target);
	if (sink->srq)
		ok = vhca_parse_recv(sink->srq->ibsrq.pd,
				     sizeof(struct mlx4_wqe_srq_next_seg),
				     sink->srq->max_gs);
	else
		ok = vhca_parse_recv(sink->qp->pd, 0, sink->qp->rq.max_gs);

	if (!ok) {
		syndrome = MLX4_CQE_SYNDROME_LOCAL_PROT_ERR;
		vhca_nak(answer, MLX4_CQE_SYNDROME_REMOTE_OP_ERR);
	} else if (req->local.len > work.target.len) {
		syndrome = MLX4_CQE_SYNDROME_LOCAL_LENGTH_ERR;
		vhca_nak(answer, MLX4_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
	} else {
		vhca_sgl_copy(&work.target, &req->local, req->local.len);
		answer->verdict = VHCA_ACK;
	}
	vhca_sgl_put(&work.target);
	vhca_complete_recv(sink, req, opcode, index, syndrome);
	if (syndrome)
		vhca_qp_set_error(sink->qp);
}

/* The remote side of a read, write or atomic, as one piece in work.target. */
static bool vhca_open_remote(struct vhca_sink *sink, struct vhca_req *req,
			     struct vhca_answer *answer, int access)
{
	vhca_sgl_init(&work.target);
	if ((sink->qp->attr.qp_access_flags & access) == access &&
	    vhca_sgl_add(&work.target, sink->pd, req->rkey, req->raddr,
			 req->local.len, access))
		return true;
	vhca_violation(sink, answer, IB_EVENT_QP_ACCESS_ERR,
		       MLX4_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	return false;
}

static void vhca_do_write(struct vhca_sink *sink, struct vhca_req *req,
			  struct vhca_answer *answer)
{
	bool imm = req->opcode == MLX4_OPCODE_RDMA_WRITE_IMM;
	u16 index;

	if (!vhca_open_remote(sink, req, answer, IB_ACCESS_REMOTE_WRITE))
		return;
	if (!imm || vhca_take_recv(sink, answer, &index)) {
		vhca_sgl_copy(&work.target, &req->local, req->local.len);
		answer->verdict = VHCA_ACK;
		if (imm)
			vhca_complete_recv(sink, req,
					   MLX4_RECV_OPCODE_RDMA_WRITE_IMM,
					   index, 0);
	}
	vhca_sgl_put(&work.target);
}

static void vhca_do_read(struct vhca_sink *sink, struct vhca_req *req,
			 struct vhca_answer *answer)
{
	if (!vhca_open_remote(sink, req, answer, IB_ACCESS_REMOTE_READ))
		return;
	vhca_sgl_copy(&req->local, &work.target, req->local.len);
	vhca_sgl_put(&work.target);
	answer->verdict = VHCA_ACK;
}

/* Atomic against the processors too: memory is plain memory here. */
static u64 vhca_atomic(u64 *word, const struct vhca_req *req)
{
	u64 old, new;

	if (req->opcode == MLX4_OPCODE_ATOMIC_CS)
		return cmpxchg(word, req->compare, req->swap_add);
	do {
		old = READ_ONCE(*word);
		new = old + req->swap_add;
	} while (cmpxchg(word, old, new) != old);
	return old;
}

static void vhca_do_atomic(struct vhca_sink *sink, struct vhca_req *req,
			   struct vhca_answer *answer)
{
	u32 len = sizeof(u64);
	u64 old;

	if (req->local.len != sizeof(u64) ||
	    !IS_ALIGNED(req->raddr, sizeof(u64))) {
		vhca_violation(sink, answer, IB_EVENT_QP_REQ_ERR,
			       MLX4_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
		return;
	}
	if (!vhca_open_remote(sink, req, answer, IB_ACCESS_REMOTE_ATOMIC))
		return;
	old = vhca_atomic(vhca_mr_chunk(work.target.seg[0].mr, req->raddr, &len),
			  req);
	vhca_sgl_put(&work.target);

	vhca_sgl_init(&work.result);
	vhca_sgl_add_inline(&work.result, &old, sizeof(old));
	vhca_sgl_copy(&req->local, &work.result, sizeof(old));
	answer->verdict = VHCA_ACK;
}

static void vhca_execute(struct vhca_sink *sink, struct vhca_req *req,
			 struct vhca_answer *answer)
{
	switch (req->opcode) {
	case MLX4_OPCODE_SEND:
	case MLX4_OPCODE_SEND_IMM:
		vhca_do_send(sink, req, answer);
		break;
	case MLX4_OPCODE_RDMA_WRITE:
	case MLX4_OPCODE_RDMA_WRITE_IMM:
		vhca_do_write(sink, req, answer);
		break;
	case MLX4_OPCODE_RDMA_READ:
		vhca_do_read(sink, req, answer);
		break;
	default:
		vhca_do_atomic(sink, req, answer);
	}
}

/*
 * The SRQ is looked up for each message: it may have gone since the last, and
 * it must belong to the XRC domain of the target QP.  A message to an SRQ that
 * is not there breaks the connection for every receiver behind this QP.
 */
static void vhca_respond_xrc(struct vhca_sink *sink, struct vhca_req *req,
			     struct vhca_answer *answer)
{
	struct vhca_srq *srq = vhca_srq_get(sink->qp->dev, req->srqn);

	if (srq && srq->ibsrq.srq_type == IB_SRQT_XRC &&
	    srq->ibsrq.ext.xrc.xrcd == sink->qp->xrcd) {
		sink->srq = srq;
		sink->pd = srq->ibsrq.pd;
		sink->cq = to_vcq(srq->ibsrq.ext.cq);
		vhca_execute(sink, req, answer);
	} else {
		vhca_violation(sink, answer, IB_EVENT_QP_REQ_ERR,
			       MLX4_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
	}
	if (srq)
		vhca_res_put(&srq->res);
}

static void vhca_respond_locked(struct vhca_qp *qp, struct vhca_qp *requester,
				struct vhca_req *req,
				struct vhca_answer *answer)
{
	struct vhca_sink sink = {
		.qp = qp,
		.srq = qp->srq,
		.pd = qp->pd,
		.cq = qp->recv_cq,
		.peer = requester->qpn,
		.slid = vhca_qp_lid(requester),
	};

	if (!vhca_accepts(qp, requester))
		return;
	if (qp->type == IB_QPT_XRC_TGT)
		vhca_respond_xrc(&sink, req, answer);
	else
		vhca_execute(&sink, req, answer);
	if (answer->verdict == VHCA_ACK)
		qp->rq_psn = (qp->rq_psn + req->npackets) & 0xffffff;
}

/*
 * Called by the engine with the requester's lock held.  @answer says "lost"
 * unless something better is found.  A QP may be connected to itself.
 */
void vhca_respond(struct vhca_qp *requester, struct vhca_req *req,
		  struct vhca_answer *answer)
{
	struct vhca_qp *qp;

	qp = vhca_fabric_get_qp(vhca_qp_lid(requester),
				rdma_ah_get_dlid(&requester->attr.ah_attr),
				requester->attr.dest_qp_num);
	if (!qp)
		return;
	if (qp != requester)
		mutex_lock_nested(&qp->lock, SINGLE_DEPTH_NESTING);
	vhca_respond_locked(qp, requester, req, answer);
	if (qp != requester)
		mutex_unlock(&qp->lock);
	vhca_res_put(&qp->res);
}

/* A QP in error gives its receives back; those of an SRQ are not its own. */
void vhca_flush_recv(struct vhca_qp *qp)
{
	static const struct vhca_req nothing;
	struct vhca_sink sink = { .qp = qp, .cq = qp->recv_cq };
	u16 index;
	u32 i;

	for (i = 0; i < qp->rq.wqe_cnt; i++) {
		if (!vhca_rq_pop(qp, work.wqe, &index))
			return;
		vhca_complete_recv(&sink, &nothing, 0, index,
				   MLX4_CQE_SYNDROME_WR_FLUSH_ERR);
	}
}
