import type { Proof } from '../auth/proof.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/core/route.js'
import type { Records } from './records.js'
import { type Handler, param } from './route.js'

/** Dependencies of the handlers. */
export interface ConfirmNeeds {
  deployer: Pick<Deployer, 'confirm' | 'revert'>
  records: Pick<Records, 'own' | 'complete'>
  proof: Pick<Proof, 'check'>
  /** Whether a deployment of a project may run a command. */
  runsCommand(projectId: string): boolean
}

/** Handlers of the decisions about deployments whose earlier files can still be put back. */
export function confirmHandlers({ deployer, records, proof, runsCommand }: ConfirmNeeds) {
  return {
    /** `POST /api/deployments/:id/confirm`: confirms a deployment. Sent when its result is recorded. */
    confirm: async request => {
      const { id } = records.own(request, param(request, 'id'))
      const row = await deployer.confirm(id, request.actor)
      return json({ success: true, deployment: await records.complete(request, row) })
    },

    /** `POST /api/deployments/:id/revert`: puts the earlier files back. Sent when that is recorded. */
    revert: async request => {
      const { id, projectId } = records.own(request, param(request, 'id'))
      if (runsCommand(projectId)) proof.check(request.actor.provenAt)
      const row = await deployer.revert(id, request.actor)
      return json({ success: row.revertedAt !== null, deployment: await records.complete(request, row) })
    }
  } satisfies Record<string, Handler>
}
